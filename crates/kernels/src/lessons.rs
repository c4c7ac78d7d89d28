//! The steps on the way to the fast reduction and scan, for the command line: sums of f32, held to the same reference.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::runtime::Device;

use crate::monoid::Sum;
use crate::operations::Operations;
use crate::prepared::{Ready, ptx};
use crate::reduce::stepwise::{Step, Stepwise};
use crate::reference::Rounded;
use crate::registry::{Element, LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare};
use crate::sample::Sampled;
use crate::scan::segmented::{Method, Segmented};

/// The reduction's steps.
pub(crate) struct ReduceSteps;

/// The scan's ways to do a section.
pub(crate) struct ScanSections;

const LENGTH: OptionSpec = OptionSpec::number("length", 300_007, "elements");
const THREADS: OptionSpec = OptionSpec::choice("threads", &["256", "512", "1024"], "threads of a CTA");
const SEED: OptionSpec = OptionSpec::number("seed", 1, "of the input");

const REDUCE_OPTIONS: &[OptionSpec] = &[
    LENGTH,
    OptionSpec::choice(
        "step",
        &["interleaved", "sequential", "shuffles", "grid-stride"],
        "how far on the way",
    ),
    THREADS,
    SEED,
];

const SCAN_OPTIONS: &[OptionSpec] = &[
    LENGTH,
    OptionSpec::choice(
        "method",
        &[
            "kogge-stone",
            "brent-kung",
            "brent-kung-padded",
            "blelloch",
            "blelloch-padded",
            "warp",
            "coarsened",
        ],
        "how a section is scanned",
    ),
    THREADS,
    SEED,
];

fn threads(options: &Options) -> Result<u32> {
    Ok(options.choice("threads").parse()?)
}

fn reduction(options: &Options) -> Result<Stepwise<Sum>> {
    let step = match options.choice("step") {
        "interleaved" => Step::Interleaved,
        "sequential" => Step::Sequential,
        "shuffles" => Step::Shuffles,
        _ => Step::GridStride,
    };
    Ok(Stepwise { monoid: Sum, step, threads: threads(options)? })
}

fn scan(options: &Options) -> Result<Segmented<Sum>> {
    let method = match options.choice("method") {
        "kogge-stone" => Method::KoggeStone,
        "brent-kung" => Method::BrentKung { padded: false },
        "brent-kung-padded" => Method::BrentKung { padded: true },
        "blelloch" => Method::Blelloch { padded: false },
        "blelloch-padded" => Method::Blelloch { padded: true },
        "warp" => Method::Warp,
        _ => Method::Coarsened,
    };
    Ok(Segmented { monoid: Sum, method, threads: threads(options)? })
}

/// A sum beside the exact one, to a rounding for each of `steps` combinations.
fn checked(found: f32, exact: f64, magnitude: f64, steps: f64) -> Element {
    let tolerance = steps * f32::ROUNDING * magnitude + f64::MIN_POSITIVE;
    Element { found: f64::from(found), expected: exact, tolerance }
}

impl LibraryKernel for ReduceSteps {
    fn name(&self) -> &'static str {
        "reduce-steps"
    }

    fn summary(&self) -> &'static str {
        "the sum of f32, by one of the steps on the way to `reduce`"
    }

    fn options(&self) -> &'static [OptionSpec] {
        REDUCE_OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(reduction(options)?.run::<f32>()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let lesson = reduction(options)?;
        let input = f32::draw_many(options.number("seed"), options.extent("length"));
        let input_there = device.buffer_from(&input)?;
        let output = Rc::new(RefCell::new(device.uninitialized::<f32>(1)?));
        let operations = Operations::new(device);
        let (result, length) = (Rc::clone(&output), input.len() as f64);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                Ok(lesson.reduce(&operations, stream, &input_there, &mut output.borrow_mut())?)
            },
            verify: move || {
                let exact: f64 = input.iter().map(|element| f64::from(*element)).sum();
                let magnitude: f64 = input.iter().map(|element| element.magnitude()).sum();
                // A tree of every launch, and with a grid's stride at least 108 CTAs of 256 threads.
                let steps = 40.0 + length / (108.0 * 256.0);
                let found = result.borrow().to_vec()?[0];
                Ok(compare([checked(found, exact, magnitude, steps)], |index| vec![index as usize])?)
            },
            work: Work { operations: length, bytes: 4.0 * length },
        }))
    }
}

impl LibraryKernel for ScanSections {
    fn name(&self) -> &'static str {
        "scan-sections"
    }

    fn summary(&self) -> &'static str {
        "the inclusive sum of f32 in three kernels, its sections scanned in one of the textbook's ways"
    }

    fn options(&self) -> &'static [OptionSpec] {
        SCAN_OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(scan(options)?.sections::<f32>()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let lesson = scan(options)?;
        let input = f32::draw_many(options.number("seed"), options.extent("length"));
        let input_there = device.buffer_from(&input)?;
        let output = Rc::new(RefCell::new(device.uninitialized::<f32>(input.len())?));
        let operations = Operations::new(device);
        let (result, length) = (Rc::clone(&output), input.len() as f64);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                Ok(lesson.inclusive_scan(&operations, stream, &input_there, &mut output.borrow_mut())?)
            },
            verify: move || {
                let (mut exact, mut magnitude) = (0.0, 0.0);
                let found = result.borrow().to_vec()?;
                let elements = found.iter().zip(&input).map(|(found, element)| {
                    exact += f64::from(*element);
                    magnitude += element.magnitude();
                    // Fewer than four levels of sections, each of at most 2 log2(2048) steps and a run of 7.
                    checked(*found, exact, magnitude, 4.0 * 30.0)
                });
                Ok(compare(elements, |index| vec![index as usize])?)
            },
            work: Work { operations: length, bytes: 8.0 * length },
        }))
    }
}
