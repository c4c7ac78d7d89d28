//! Scans for the command line: inputs, the reference, and the tolerance they are held to.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::ScanKind;
use super::reference::Reference;
use super::single_pass::SinglePass;
use crate::copy;
use crate::monoid::{Max, Min, Monoid, Sum};
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx, with_resources};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Resources, Result, Work};
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

/// Prepares the scan of random elements by `monoid`.
fn prepare<T: Sampled, M: Monoid<T, Output = T>>(
    device: &Device,
    options: &Options,
    monoid: M,
    reference: Reference<T>,
) -> Result<Box<dyn Prepared>> {
    let kind = kind(options);
    let single_pass = SinglePass::new::<T>(monoid, kind, device.properties().capability);
    let steps = single_pass.rounding_steps::<T>(options.number("length")) as f64;
    let input = T::draw_many(options.number("seed"), options.extent("length"));
    let input_there = device.buffer_from(&input)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<T>(input.len())?));
    let operations = Operations::new(device);
    let kernel = operations.kernel(single_pass, SinglePass::<M>::run::<T>)?;
    let resources = Resources::of(kernel.function(), &kernel.shape(1))?;
    let result = Rc::clone(&output);
    let ready = Ready {
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
        verify: move || reference.verify(kind, &input, &result.borrow().to_vec()?, steps),
        work: work::<T>(options),
    };
    Ok(with_resources(Box::new(ready), resources))
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
            "sum" => prepare::<T, _>(device, options, Sum, Reference::sums()),
            "min" => prepare::<T, _>(device, options, Min, Reference::smallest()),
            _ => prepare::<T, _>(device, options, Max, Reference::largest()),
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        copy::rival(name, device, || Ok(with_element_type!(options.choice("type"), T => work::<T>(options))))
    }
}
