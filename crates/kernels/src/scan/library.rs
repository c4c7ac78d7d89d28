//! Scans for the command line: inputs, the reference, and the tolerance they are held to.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::ScanKind;
use super::single_pass::SinglePass;
use crate::copy;
use crate::monoid::{Max, Min, Monoid, Searchable, Sum};
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare};
use crate::sample::{ELEMENT_TYPES, Sampled, with_element_type};

/// Scans.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "elements"),
    OptionSpec::choice("type", ELEMENT_TYPES, "type of the elements"),
    OptionSpec::choice("by", &["sum", "min", "max"], "what combines two elements"),
    OptionSpec::choice("kind", &["inclusive", "exclusive"], "whether a result has its own element in it"),
    OptionSpec::number("seed", 1, "of the input"),
];

fn kind(options: &Options) -> ScanKind {
    if options.choice("kind") == "inclusive" { ScanKind::Inclusive } else { ScanKind::Exclusive }
}

/// Each element read once and written once.
fn work<T: Element>(options: &Options) -> Work {
    let length = options.number("length") as f64;
    Work { operations: length, bytes: 2.0 * length * f64::from(T::BYTES) }
}

/// Prepares the scan of random elements by `monoid`, which is `combine` on the host with `identity`.
fn prepare<T: Sampled, M: Monoid<T, Output = T>>(
    device: &Device,
    options: &Options,
    monoid: M,
    identity: T::Exact,
    combine: fn(T::Exact, T::Exact) -> T::Exact,
) -> Result<Box<dyn Prepared>> {
    let kind = kind(options);
    let steps = SinglePass::new::<T>(monoid, kind, device.properties().capability)
        .rounding_steps::<T>(options.number("length")) as f64;
    let input = T::draw_many(options.number("seed"), options.extent("length"));
    let input_there = device.buffer_from(&input)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<T>(input.len())?));
    let operations = Operations::new(device);
    let result = Rc::clone(&output);
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            let mut output = output.borrow_mut();
            Ok(match kind {
                ScanKind::Inclusive => {
                    operations.inclusive_scan(stream, &input_there, &mut output, monoid)?
                }
                ScanKind::Exclusive => {
                    operations.exclusive_scan(stream, &input_there, &mut output, monoid)?
                }
            })
        },
        verify: move || {
            let found = result.borrow().to_vec()?;
            let (mut state, mut magnitude) = (identity, 0.0);
            let elements = found.iter().zip(&input).map(|(found, element)| {
                let before = state;
                state = combine(state, element.exact());
                magnitude += element.magnitude();
                let expected = if kind == ScanKind::Inclusive { state } else { before };
                T::compared(*found, expected, steps * T::STEP * magnitude)
            });
            Ok(compare(elements, |index| vec![index as usize])?)
        },
        work: work::<T>(options),
    }))
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn summary(&self) -> &'static str {
        "every prefix combined: inclusive or exclusive, in one launch with decoupled look-back"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let kind = kind(options);
        let capability = capability_of(target)?;
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => ptx(SinglePass::new::<T>(Sum, kind, capability).run::<T>()?, target),
            "min" => ptx(SinglePass::new::<T>(Min, kind, capability).run::<T>()?, target),
            _ => ptx(SinglePass::new::<T>(Max, kind, capability).run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => prepare::<T, _>(device, options, Sum, T::SUM_OF_NOTHING, T::add),
            "min" => prepare::<T, _>(device, options, Min, Sampled::exact(T::MOST), |a, b| if b < a { b } else { a }),
            _ => prepare::<T, _>(device, options, Max, Sampled::exact(T::LEAST), |a, b| if b > a { b } else { a }),
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let work = with_element_type!(options.choice("type"), T => work::<T>(options));
        (name == "copy").then(|| copy::of_as_many_bytes(device, work))
    }
}
