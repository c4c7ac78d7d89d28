//! The histogram as a workload: inputs and reference.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::lang::element::Convertible;
use warpwright_harness::{Options, Prepared, Result, Setup, Work, Workload, compare_parallel};

use crate::sample::{ElementType, Sampled, with_element_type, work_of_one_read};
use warpwright_kernels::histogram::Binning;
use warpwright_kernels::operations::Operations;

/// Counts the elements that fall into each bin, in shared memory first.
#[derive(Clone, Debug, Options)]
pub(crate) struct HistogramWorkload {
    /// Number of elements.
    #[option(default = 1_000_003)]
    length: usize,
    /// Bins.
    #[option(default = 256, min = 1)]
    bins: u32,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// How an element finds its bin.
    by: Binning,
    /// Distribution of the elements over the bins.
    values: Spread,
}

/// A distribution of elements over bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Spread {
    /// All bins are equally likely.
    #[default]
    Spread,
    /// All elements fall into one bin.
    Equal,
}

/// The bin of an element, if it has one: as the kernel's documentation says.
fn bin<T: Sampled>(element: T, edges: &[T], binning: Binning) -> Option<usize> {
    let bins = edges.len() - 1;
    let (lower, upper) = (edges[0].as_f64(), edges[bins].as_f64());
    match binning {
        Binning::Even => {
            let value = element.as_f64();
            let bin = ((value - lower) * (bins as f64 / (upper - lower))) as usize;
            (lower <= value && value < upper).then_some(bin.min(bins - 1))
        }
        Binning::Ranges => {
            let not_above = edges.partition_point(|edge| edge.exact() <= element.exact());
            (1..=bins).contains(&not_above).then(|| not_above - 1)
        }
    }
}

impl HistogramWorkload {
    fn prepare_of<T: Sampled + Convertible>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (binning, bins, values) = (self.by, self.bins as usize, self.values);
        let edges_of = move |count| (0..count).map(|edge| T::quantile(edge as f64 / bins as f64)).collect();
        let (lower, upper) = (T::quantile(0.0).as_f64(), T::quantile(1.0).as_f64());
        let edges = setup.input(bins + 1, edges_of)?;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.input(self.length, |length| match values {
                Spread::Spread => T::draw_many(seed, length),
                Spread::Equal => vec![T::quantile(0.3); length],
            })?;
            Ok((input, setup.output::<u64>(bins)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, counts)| {
                Ok(match binning {
                    Binning::Even => operations.histogram_even(stream, input, (lower, upper), counts)?,
                    Binning::Ranges => operations.histogram_ranges(stream, input, &edges, counts)?,
                })
            })
            .verify(move |(input, counts)| {
                let (edges, mut expected): (Vec<T>, _) = (edges_of(bins + 1), vec![0u64; bins]);
                for bin in input.to_vec()?.iter().filter_map(|element| bin(*element, &edges, binning)) {
                    expected[bin] += 1;
                }
                let found = counts.to_vec()?;
                Ok(compare_parallel(bins, |bin| u64::compared(found[bin], expected[bin], 0.0))?)
            }))
    }
}

impl Workload for HistogramWorkload {
    const NAME: &'static str = "histogram";

    fn work(&self) -> Work {
        with_element_type!(self.element, T => {
            let Work { operations, bytes } = work_of_one_read::<T>(self.length);
            // Every count is written. Edges are read where the bins are given by them.
            let edge = if self.by == Binning::Ranges { size_of::<T>() } else { 0 };
            Work { operations, bytes: bytes + (size_of::<u64>() + edge) as f64 * f64::from(self.bins) }
        })
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_element_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
