//! Scans for the command line: inputs, the reference, and the tolerance they are held to.

use std::cell::RefCell;
use std::rc::Rc;

use rayon::prelude::*;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::ScanKind;
use super::segmented::{Method, Segmented};
use super::single_pass::SinglePass;
use crate::copy;
use crate::monoid::{InPlace, Max, Min, Monoid, Sum};
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx, with_resources};
use crate::registry::{
    Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result, Verified, Work,
    compare, together,
};
use crate::sample::{ELEMENT_TYPES, Sampled, with_element_type};

/// Scans.
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

/// What combines two elements on the host, and what changes nothing.
struct Reference<T: Sampled> {
    identity: T::Exact,
    combine: fn(T::Exact, T::Exact) -> T::Exact,
}

impl<T: Sampled> Reference<T> {
    /// Compares a scan with the reference, to `steps` roundings of the sum of the magnitudes.
    fn verify(&self, kind: ScanKind, input: &[T], found: &[T], steps: f64) -> Result<Verified> {
        // Pieces are combined first, so that all host threads compare at once.
        const PIECE: usize = 1 << 20;
        let (identity, combine) = (self.identity, self.combine);
        let with = |(state, magnitude): (T::Exact, f64), element: &T| {
            (combine(state, element.exact()), magnitude + element.magnitude())
        };
        let pieces: Vec<_> =
            input.par_chunks(PIECE).map(|piece| piece.iter().fold((identity, 0.0), with)).collect();
        let mut before = (identity, 0.0);
        let befores: Vec<_> = pieces
            .into_iter()
            .map(|(state, magnitude)| {
                let here = before;
                before = (combine(before.0, state), before.1 + magnitude);
                here
            })
            .collect();
        let each = befores.into_par_iter().enumerate().map(|(piece, mut so_far)| {
            let first = piece * PIECE;
            let piece = first..(first + PIECE).min(input.len());
            let elements = found[piece.clone()].iter().zip(&input[piece]).map(|(found, element)| {
                let (before, _) = so_far;
                so_far = with(so_far, element);
                let expected = if kind == ScanKind::Inclusive { so_far.0 } else { before };
                T::compared(*found, expected, steps * T::STEP * so_far.1)
            });
            compare(elements, |index| vec![first + index as usize])
        });
        Ok(together(each.collect::<Vec<_>>())?)
    }
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
    let resources = Resources::of(kernel.function(), &kernel.shape(1, single_pass.block()))?;
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
    let resources = Resources::of(kernel.function(), &kernel.shape(1, scan.threads))?;
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

/// The reference of sums.
fn sums<T: Sampled>() -> Reference<T> {
    Reference { identity: T::SUM_OF_NOTHING, combine: T::add }
}

/// The reference of smallest elements.
fn smallest<T: Sampled>() -> Reference<T> {
    Reference { identity: Sampled::exact(T::MOST), combine: |a, b| if b < a { b } else { a } }
}

/// The reference of largest elements.
fn largest<T: Sampled>() -> Reference<T> {
    Reference { identity: Sampled::exact(T::LEAST), combine: |a, b| if b > a { b } else { a } }
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
        let kind = kind(options);
        let capability = capability_of(target)?;
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => ptx(SinglePass::new::<T>(Sum, kind, capability).run::<T>()?, target),
            "min" => ptx(SinglePass::new::<T>(Min, kind, capability).run::<T>()?, target),
            _ => ptx(SinglePass::new::<T>(Max, kind, capability).run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        if let Some(method) = method(options) {
            return match options.choice("by") {
                "sum" => with_sum_in_place!(options, T => {
                    prepare_in_sections::<T, _>(device, options, (Sum, method), sums())
                }),
                "min" => with_element_type!(options.choice("type"), T => {
                    prepare_in_sections::<T, _>(device, options, (Min, method), smallest())
                }),
                _ => with_element_type!(options.choice("type"), T => {
                    prepare_in_sections::<T, _>(device, options, (Max, method), largest())
                }),
            };
        }
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => prepare::<T, _>(device, options, Sum, sums()),
            "min" => prepare::<T, _>(device, options, Min, smallest()),
            _ => prepare::<T, _>(device, options, Max, largest()),
        })
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
        copy::rival(name, device, || Ok(with_element_type!(options.choice("type"), T => work::<T>(options))))
    }
}
