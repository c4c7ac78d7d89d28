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
use crate::monoid::{Max, Min, Monoid, Searchable, Sum};
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
        "how far on the way: in one launch, or in three that scan sections so (inclusive sums of f32)",
    ),
    OptionSpec::choice("threads", &["256", "512", "1024"], "threads of a CTA that scans a section"),
    OptionSpec::number("seed", 1, "of the input"),
];

/// The scan in sections that the options ask for, if they do.
fn in_sections(options: &Options) -> Result<Option<Segmented<Sum>>> {
    let method = match options.choice("step") {
        "kogge-stone" => Method::KoggeStone,
        "brent-kung" => Method::BrentKung { padded: false },
        "brent-kung-padded" => Method::BrentKung { padded: true },
        "blelloch" => Method::Blelloch { padded: false },
        "blelloch-padded" => Method::Blelloch { padded: true },
        "warp" => Method::Warp,
        "coarsened" => Method::Coarsened,
        _ => return Ok(None),
    };
    let asked = ["type", "by", "kind"].map(|option| options.choice(option));
    if asked != ["f32", "sum", "inclusive"] {
        let [ty, by, kind] = asked;
        return Err(format!(
            "the steps before {SINGLE_PASS} are inclusive sums of f32, not the {kind} {by} of {ty}"
        )
        .into());
    }
    Ok(Some(Segmented { monoid: Sum, method, threads: options.choice("threads").parse()? }))
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

/// Prepares the scan in sections.
fn prepare_in_sections(
    device: &Device,
    options: &Options,
    scan: Segmented<Sum>,
) -> Result<Box<dyn Prepared>> {
    let input = f32::draw_many(options.number("seed"), options.extent("length"));
    let input_there = device.buffer_from(&input)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<f32>(input.len())?));
    let operations = Operations::new(device);
    let kernel = operations.kernel(scan, Segmented::<Sum>::sections::<f32>)?;
    let resources = Resources::of(kernel.function(), &kernel.shape(1, scan.threads))?;
    let result = Rc::clone(&output);
    let ready = Ready {
        launch: move |stream: &_| {
            Ok(scan.inclusive_scan(&operations, stream, &input_there, &mut output.borrow_mut())?)
        },
        verify: move || {
            // Fewer than four levels of sections, each of at most 2 log2(2048) steps and a run of 7.
            let reference = Reference::<f32> { identity: 0.0, combine: f32::add };
            reference.verify(ScanKind::Inclusive, &input, &result.borrow().to_vec()?, 4.0 * 30.0)
        },
        work: work::<f32>(options),
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
        if let Some(scan) = in_sections(options)? {
            return ptx(scan.sections::<f32>()?, target);
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
        if let Some(scan) = in_sections(options)? {
            return prepare_in_sections(device, options, scan);
        }
        with_element_type!(options.choice("type"), T => {
            let reference = |identity, combine| Reference::<T> { identity, combine };
            match options.choice("by") {
                "sum" => prepare(device, options, Sum, reference(T::SUM_OF_NOTHING, T::add)),
                "min" => {
                    let reference = reference(Sampled::exact(T::MOST), |a, b| if b < a { b } else { a });
                    prepare(device, options, Min, reference)
                }
                _ => {
                    let reference = reference(Sampled::exact(T::LEAST), |a, b| if b > a { b } else { a });
                    prepare(device, options, Max, reference)
                }
            }
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
        let work = with_element_type!(options.choice("type"), T => work::<T>(options));
        (name == "copy").then(|| copy::of_as_many_bytes(device, work))
    }
}
