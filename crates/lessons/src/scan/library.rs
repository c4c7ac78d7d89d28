//! The ladder of scans for the command line.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;
use warpwright_kernels::monoid::{InPlace, Max, Min, Sum};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::prepared::{Ready, ptx, with_resources};
use warpwright_kernels::registry::{
    Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result, Work,
};
use warpwright_kernels::sample::{ELEMENT_TYPES, Sampled};
use warpwright_kernels::scan::ScanKind;
use warpwright_kernels::scan::reference::Reference;
use warpwright_kernels::with_element_type;

use super::segmented::{Method, Segmented};
use crate::product::product;

/// The ladder of scans.
pub(crate) struct Library;

/// The last step, which the others lead to.
const SINGLE_PASS: &str = "single-pass";

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "elements"),
    OptionSpec::choice("type", ELEMENT_TYPES, "type of the elements"),
    OptionSpec::choice("by", &["sum", "min", "max"], "what combines two elements"),
    OptionSpec::choice("kind", &["inclusive", "exclusive"], "whether a result has its own element in it"),
    OptionSpec::choice(
        "step",
        &[
            SINGLE_PASS,
            "kogge-stone",
            "brent-kung",
            "brent-kung-padded",
            "blelloch",
            "blelloch-padded",
            "warp",
            "coarsened",
        ],
        "how far on the way: in one launch, or in three that scan sections so (no sums of 16-bit floats)",
    ),
    OptionSpec::choice("threads", &["256", "512", "1024"], "threads of a CTA that scans a section"),
    OptionSpec::number("seed", 1, "of the input"),
];

/// How the options ask for sections to be scanned, if they do.
fn method(options: &Options) -> Option<Method> {
    Some(match options.choice("step") {
        "kogge-stone" => Method::KoggeStone,
        "brent-kung" => Method::BrentKung { padded: false },
        "brent-kung-padded" => Method::BrentKung { padded: true },
        "blelloch" => Method::Blelloch { padded: false },
        "blelloch-padded" => Method::Blelloch { padded: true },
        "warp" => Method::Warp,
        "coarsened" => Method::Coarsened,
        _ => return None,
    })
}

/// The scan in sections by `method`.
fn segmented<M>(options: &Options, monoid: M, method: Method) -> Result<Segmented<M>> {
    let (kind, threads) = (kind(options), options.choice("threads").parse()?);
    Ok(Segmented { monoid, kind, method, threads })
}

/// Evaluates an expression with a type alias for the type that an option names, if its sums are kept in elements.
macro_rules! with_sum_in_place {
    ($options:expr, $alias:ident => $body:expr) => {
        with_sum_in_place!(@ $options, $alias, $body, f32 f64 i32 u32 i64 u64)
    };
    (@ $options:expr, $alias:ident, $body:expr, $($ty:ident)*) => {
        match $options.choice("type") {
            $(stringify!($ty) => {
                type $alias = $ty;
                $body
            })*
            ty => Err(format!(
                "the sum of {ty} is kept in f32 until it is rounded, and the steps before {SINGLE_PASS} have no room for it; take {SINGLE_PASS}"
            )
            .into()),
        }
    };
}

fn kind(options: &Options) -> ScanKind {
    if options.choice("kind") == "inclusive" { ScanKind::Inclusive } else { ScanKind::Exclusive }
}

/// Each element read once and written once.
fn work<T: Element>(options: &Options) -> Work {
    let length = options.number("length") as f64;
    Work { operations: length, bytes: 2.0 * length * f64::from(T::BYTES) }
}

/// Prepares the scan in sections by `method`.
fn prepare_in_sections<T: Sampled, M: InPlace<T>>(
    device: &Device,
    options: &Options,
    (monoid, method): (M, Method),
    reference: Reference<T>,
) -> Result<Box<dyn Prepared>> {
    let scan = segmented(options, monoid, method)?;
    scan.check::<T>()?;
    let input = T::draw_many(options.number("seed"), options.extent("length"));
    let input_there = device.buffer_from(&input)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<T>(input.len())?));
    let operations = Operations::new(device);
    let kernel = operations.kernel(scan, Segmented::<M>::sections::<T>)?;
    let resources = Resources::of(kernel.function(), &kernel.shape(1))?;
    let steps = scan.rounding_steps(input.len() as u64) as f64;
    let result = Rc::clone(&output);
    let ready = Ready {
        launch: move |stream: &_| {
            Ok(scan.scan(&operations, stream, &input_there, &mut output.borrow_mut())?)
        },
        verify: move || reference.verify(scan.kind, &input, &result.borrow().to_vec()?, steps),
        work: work::<T>(options),
    };
    Ok(with_resources(Box::new(ready), resources))
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "scan-ladder"
    }

    fn summary(&self) -> &'static str {
        "every prefix combined: inclusive or exclusive, from scans of sections to one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        if let Some(method) = method(options) {
            return match options.choice("by") {
                "sum" => with_sum_in_place!(options, T => {
                    ptx(segmented(options, Sum, method)?.sections::<T>()?, target)
                }),
                "min" => with_element_type!(options.choice("type"), T => {
                    ptx(segmented(options, Min, method)?.sections::<T>()?, target)
                }),
                _ => with_element_type!(options.choice("type"), T => {
                    ptx(segmented(options, Max, method)?.sections::<T>()?, target)
                }),
            };
        }
        let (kernel, options) = product("scan", options, &[])?;
        kernel.ptx(target, &options)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        if let Some(method) = method(options) {
            return match options.choice("by") {
                "sum" => with_sum_in_place!(options, T => {
                    prepare_in_sections::<T, _>(device, options, (Sum, method), Reference::sums())
                }),
                "min" => with_element_type!(options.choice("type"), T => {
                    prepare_in_sections::<T, _>(device, options, (Min, method), Reference::smallest())
                }),
                _ => with_element_type!(options.choice("type"), T => {
                    prepare_in_sections::<T, _>(device, options, (Max, method), Reference::largest())
                }),
            };
        }
        let (kernel, options) = product("scan", options, &[])?;
        kernel.prepare(device, &options)
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: &[
                "kogge-stone",
                "brent-kung",
                "brent-kung-padded",
                "blelloch",
                "blelloch-padded",
                "warp",
                "coarsened",
                SINGLE_PASS,
            ],
            defaults: &[],
            measure: Measure::Bytes,
            rival: Some("copy"),
            counted: &[("length", "65536")],
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        match product("scan", options, &[]) {
            Ok((kernel, options)) => kernel.rival(name, device, &options),
            Err(error) => Some(Err(error)),
        }
    }
}
