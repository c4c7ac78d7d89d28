//! The selection as a workload: inputs of which a known fraction is selected, and the reference.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::lang::comparison::Equatable;
use warpwright::prelude::*;
use warpwright::runtime::Buffer;
use warpwright_harness::{Options, Prepared, Random, Result, Setup, Work, Workload, compare};

use crate::sample::{ElementType, Sampled, with_element_type};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::select::Predicate;

/// Compacts the selected elements in their order and counts them, in one launch.
#[derive(Clone, Debug, Options)]
pub(crate) struct SelectWorkload {
    /// Number of elements.
    #[option(default = 1_000_003)]
    length: usize,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// Which elements are selected.
    by: Criterion,
    /// Percentage of the elements that is selected.
    #[option(default = 50, max = 100)]
    percent: u32,
}

/// Which elements are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Criterion {
    /// Elements below a bound.
    #[default]
    Value,
    /// Elements whose flag is set.
    Flags,
    /// Elements that differ from the previous one.
    Change,
}

/// Selects the elements below a bound: a given percentage of the input.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Lowest {
    percent: u32,
}

impl<T: Sampled> Predicate<T> for Lowest {
    fn selects(&self, element: Reg<T>) -> Reg<bool> {
        element.lt(T::quantile(f64::from(self.percent) / 100.0))
    }
}

/// The buffers of a selection.
struct Set<T> {
    input: Buffer<T>,
    flags: Buffer<u8>,
    output: Buffer<T>,
    count: Buffer<u64>,
}

impl SelectWorkload {
    /// A sequence of which `percent` percent is true.
    fn chosen(&self, seed: u64) -> impl FnMut() -> bool {
        let (mut random, percent) = (Random::new(!seed), u64::from(self.percent));
        move || random.below(100) < percent
    }

    fn input<T: Sampled>(&self, seed: u64, length: usize) -> Vec<T> {
        let mut input = T::draw_many(seed, length);
        if self.by == Criterion::Change {
            let mut is_chosen = self.chosen(seed);
            for index in 1..length {
                if !is_chosen() {
                    input[index] = input[index - 1];
                }
            }
        }
        input
    }

    /// The elements that are selected.
    fn selected<T: Sampled>(&self, mut input: Vec<T>, flags: &[u8]) -> Vec<T> {
        match self.by {
            Criterion::Value => {
                let bound = T::quantile(f64::from(self.percent) / 100.0).exact();
                input.retain(|element| element.exact() < bound);
            }
            Criterion::Flags => {
                let mut flags = flags.iter();
                input.retain(|_| flags.next() != Some(&0));
            }
            Criterion::Change => input.dedup_by(|a, b| a.exact() == b.exact()),
        }
        input
    }

    fn prepare_of<T: Sampled + Equatable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, length, percent) = (self.clone(), self.length, self.percent);
        let buffers = setup.buffers(self.work(), |seed| {
            let flags = if self.by == Criterion::Flags { length } else { 0 };
            Ok(Set {
                input: setup.input(length, |length| self.input::<T>(seed, length))?,
                flags: setup.input(flags, |length| {
                    let mut is_chosen = self.chosen(seed);
                    (0..length).map(|_| u8::from(is_chosen())).collect()
                })?,
                output: setup.output(length)?,
                count: setup.output(1)?,
            })
        })?;
        let (operations, by) = (Operations::new(setup.device()), self.by);
        Ok(buffers
            .launch(move |stream, Set { input, flags, output, count }| {
                Ok(match by {
                    Criterion::Value => {
                        operations.select_if(stream, input, output, count, Lowest { percent })?
                    }
                    Criterion::Flags => operations.select_flagged(stream, input, flags, output, count)?,
                    Criterion::Change => operations.unique(stream, input, output, count)?,
                })
            })
            .verify(move |Set { input, flags, output, count }| {
                let expected = this.selected(input.to_vec()?, &flags.to_vec()?);
                let found = count.to_vec()?[0];
                if found != expected.len() as u64 {
                    return Err(format!("{found} elements are selected, expected {}", expected.len()).into());
                }
                let found = output.read(0..expected.len())?;
                let elements = found
                    .iter()
                    .zip(&expected)
                    .map(|(found, expected)| T::compared(*found, expected.exact(), 0.0));
                Ok(compare(elements, |index| vec![index as usize])?)
            }))
    }
}

impl Workload for SelectWorkload {
    const NAME: &'static str = "select";

    /// Each element and flag is read once, and each selected element is written.
    fn work(&self) -> Work {
        let length = self.length as f64;
        let written = length * f64::from(self.percent) / 100.0;
        let element_bytes = with_element_type!(self.element, T => f64::from(T::BYTES));
        let flags = if self.by == Criterion::Flags { length } else { 0.0 };
        Work { operations: length, bytes: (length + written) * element_bytes + flags }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_element_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
