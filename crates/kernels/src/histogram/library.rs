//! Histograms for the command line: inputs, and the reference.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::lang::conversion::Convertible;
use warpwright::runtime::Device;

use super::{Binning, Histogram};
use crate::copy;
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, compare};
use crate::sample::{ELEMENT_TYPES, Sampled, each_read_once, with_element_type};

/// Histograms.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "elements"),
    OptionSpec::extent("bins", 256, "bins"),
    OptionSpec::choice("type", ELEMENT_TYPES, "type of the elements"),
    OptionSpec::choice(
        "by",
        &["even", "ranges"],
        "how an element finds its bin: by its value, or by the bins' edges",
    ),
    OptionSpec::choice("values", &["spread", "equal"], "elements all over the bins, or all in one"),
    OptionSpec::number("seed", 1, "of the input"),
];

fn binning(options: &Options) -> Binning {
    if options.choice("by") == "even" { Binning::Even } else { Binning::Ranges }
}

fn bins(options: &Options) -> Result<u32> {
    Ok(options.u32("bins")?)
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

fn prepare<T: Sampled + Convertible>(device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
    let (binning, bins) = (binning(options), bins(options)? as usize);
    let mut input = T::draw_many(options.number("seed"), options.extent("length"));
    if options.choice("values") == "equal" {
        input.fill(T::quantile(0.3));
    }
    let edges: Vec<T> = (0..=bins).map(|bin| T::quantile(bin as f64 / bins as f64)).collect();
    let (lower, upper) = (edges[0].as_f64(), edges[bins].as_f64());
    let (input_there, edges_there) = (device.buffer_from(&input)?, device.buffer_from(&edges)?);
    let counts = Rc::new(RefCell::new(device.uninitialized::<u64>(bins)?));
    let operations = Operations::new(device);
    let result = Rc::clone(&counts);
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            let mut counts = counts.borrow_mut();
            Ok(match binning {
                Binning::Even => {
                    operations.histogram_even(stream, &input_there, (lower, upper), &mut counts)?
                }
                Binning::Ranges => {
                    operations.histogram_ranges(stream, &input_there, &edges_there, &mut counts)?
                }
            })
        },
        verify: move || {
            let mut expected = vec![0u64; bins];
            for bin in input.iter().filter_map(|element| bin(*element, &edges, binning)) {
                expected[bin] += 1;
            }
            let found = result.borrow().to_vec()?;
            let elements =
                found.iter().zip(expected).map(|(found, expected)| u64::compared(*found, expected, 0.0));
            Ok(compare(elements, |index| vec![index as usize])?)
        },
        work: each_read_once::<T>(options),
    }))
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "histogram"
    }

    fn summary(&self) -> &'static str {
        "how many elements fall into each bin, counted in shared memory first"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        capability_of(target)?;
        let histogram = Histogram::new(binning(options), bins(options)?);
        with_element_type!(options.choice("type"), T => ptx(histogram.run::<T>()?, target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => prepare::<T>(device, options))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        copy::rival(name, device, || {
            Ok(with_element_type!(options.choice("type"), T => each_read_once::<T>(options)))
        })
    }
}
