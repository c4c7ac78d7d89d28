//! Reductions for the command line: inputs, references, and the tolerance they are held to.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::single_pass::SinglePass;
use crate::monoid::{ArgMax, ArgMin, Max, Min, Monoid, Sum};
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare};
use crate::sample::{ELEMENT_TYPES, Sampled, with_element_type};
use crate::{copy, registry};

/// Reductions to one value.
pub(crate) struct ReduceLibrary;

/// Reductions to an index.
pub(crate) struct ArgMaxLibrary;

const LENGTH: OptionSpec = OptionSpec::number("length", 1_000_003, "elements");
const TYPE: OptionSpec = OptionSpec::choice("type", ELEMENT_TYPES, "type of the elements");
const SEED: OptionSpec = OptionSpec::number("seed", 1, "of the input");

const REDUCE_OPTIONS: &[OptionSpec] =
    &[LENGTH, TYPE, OptionSpec::choice("by", &["sum", "min", "max"], "what combines two elements"), SEED];

const ARG_MAX_OPTIONS: &[OptionSpec] =
    &[LENGTH, TYPE, OptionSpec::choice("of", &["max", "min"], "which element is looked for"), SEED];

/// Each element read once.
fn work<T: Element>(options: &Options) -> Work {
    let length = options.number("length") as f64;
    Work { operations: length, bytes: length * f64::from(T::BYTES) }
}

/// Prepares the reduction of random elements, whose result `check` compares with what it should be.
fn prepare<T: Sampled, M: Monoid<T>>(
    device: &Device,
    options: &Options,
    monoid: M,
    check: impl Fn(M::Output, &[T]) -> registry::Element + 'static,
) -> Result<Box<dyn Prepared>> {
    let input = T::draw_many(options.number("seed"), options.extent("length"));
    let input_there = device.buffer_from(&input)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<M::Output>(1)?));
    let operations = Operations::new(device);
    let result = Rc::clone(&output);
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            Ok(operations.reduce_into(stream, &input_there, &mut output.borrow_mut(), monoid)?)
        },
        verify: move || {
            let found = result.borrow().to_vec()?[0];
            Ok(compare([check(found, &input)], |index| vec![index as usize])?)
        },
        work: work::<T>(options),
    }))
}

/// A sum beside the exact one. The bound is that of the smallest grid, whose threads add the most.
fn check_sum<T: Sampled>(found: T, input: &[T], capability: &Capability) -> registry::Element {
    let exact = input.iter().fold(T::SUM_OF_NOTHING, |sum, element| T::add(sum, element.exact()));
    let magnitude: f64 = input.iter().map(|element| element.magnitude()).sum();
    let reduction = SinglePass::new(Sum, capability);
    let grid = reduction.grid::<T>(input.len() as u64, FEWEST_CTAS);
    let steps = reduction.rounding_steps::<T>(input.len() as u64, grid);
    T::compared(found, exact, steps as f64 * T::STEP * magnitude)
}

/// No device that kernels run on holds fewer CTAs of a reduction at once.
const FEWEST_CTAS: u32 = 108;

fn check_extreme<T: Sampled>(
    found: T,
    input: &[T],
    keep: fn(T::Exact, T::Exact) -> bool,
    none: T,
) -> registry::Element {
    let extreme = input
        .iter()
        .fold(none.exact(), |best, element| if keep(best, element.exact()) { best } else { element.exact() });
    T::compared(found, extreme, 0.0)
}

fn check_index<T: Sampled>(
    found: u64,
    input: &[T],
    keep: fn(T::Exact, T::Exact) -> bool,
) -> registry::Element {
    let mut best: Option<(u64, T::Exact)> = None;
    for (index, element) in input.iter().enumerate() {
        if best.is_none_or(|(_, best)| !keep(best, element.exact())) {
            best = Some((index as u64, element.exact()));
        }
    }
    u64::compared(found, best.map_or(u64::MAX, |(index, _)| index), 0.0)
}

impl LibraryKernel for ReduceLibrary {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn summary(&self) -> &'static str {
        "all elements combined into one: sum, smallest or largest, in one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        REDUCE_OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let capability = capability_of(target)?;
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => ptx(SinglePass::new(Sum, capability).run::<T>()?, target),
            "min" => ptx(SinglePass::new(Min, capability).run::<T>()?, target),
            _ => ptx(SinglePass::new(Max, capability).run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => {
                let capability = device.properties().capability;
                prepare::<T, _>(device, options, Sum, move |found, input| check_sum::<T>(found, input, capability))
            }
            "min" => prepare::<T, _>(device, options, Min, |found, input| {
                check_extreme::<T>(found, input, |a, b| a <= b, <T as crate::monoid::Searchable>::MOST)
            }),
            _ => prepare::<T, _>(device, options, Max, |found, input| {
                check_extreme::<T>(found, input, |a, b| a >= b, <T as crate::monoid::Searchable>::LEAST)
            }),
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let work = with_element_type!(options.choice("type"), T => work::<T>(options));
        (name == "copy").then(|| copy::of_as_many_bytes(device, work))
    }
}

impl LibraryKernel for ArgMaxLibrary {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn summary(&self) -> &'static str {
        "the index of the first largest (or smallest) element, in one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        ARG_MAX_OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let capability = capability_of(target)?;
        with_element_type!(options.choice("type"), T => match options.choice("of") {
            "max" => ptx(SinglePass::new(ArgMax, capability).run::<T>()?, target),
            _ => ptx(SinglePass::new(ArgMin, capability).run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => match options.choice("of") {
            "max" => prepare::<T, _>(device, options, ArgMax, |found, input| {
                check_index::<T>(found, input, |a, b| a >= b)
            }),
            _ => prepare::<T, _>(device, options, ArgMin, |found, input| {
                check_index::<T>(found, input, |a, b| a <= b)
            }),
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let work = with_element_type!(options.choice("type"), T => work::<T>(options));
        (name == "copy").then(|| copy::of_as_many_bytes(device, work))
    }
}
