//! The ladder of scans as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{
    Ladder, Measure, OptionValue, Options, Prepared, Refused, Result, Setup, Work, Workload, data_types,
    words,
};
use warpwright_kernels::monoid::{InPlace, Max, Min, Sum};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::scan::ScanKind;
use warpwright_workloads::reduce::By;
use warpwright_workloads::sample::Sampled;
use warpwright_workloads::scan::reference::{Reference, work};

use super::segmented::{Method, Segmented};
use crate::library::library;

data_types! {
    /// Types of elements.
    pub(crate) enum ElementType by with_element { f32, f16, bf16, f64, i32, u32, i64, u64 }
}

data_types! {
    /// Types of elements whose sums are accumulated in the same type.
    pub(crate) enum SumType by with_sum { f32, f64, i32, u32, i64, u64 }
}

/// Combines every prefix: from scans of sections to a single launch.
#[derive(Clone, Debug, Options)]
pub(crate) struct ScanLadder {
    /// Number of elements.
    #[option(default = 1_000_003)]
    length: usize,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// Operation that combines two elements.
    by: By,
    /// Whether a result includes the element at its own index.
    kind: ScanKind,
    /// Step of the ladder. The steps before the last do not sum 16-bit floats.
    step: ScanStep,
    /// Threads per CTA that scans a section.
    #[option(default = 256, min = 256, max = 1024, search = [256, 512, 1024])]
    threads: u32,
}

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum ScanStep {
    /// Kogge and Stone's scan of a section.
    #[default]
    KoggeStone,
    /// Brent and Kung's.
    BrentKung,
    /// Brent and Kung's without bank conflicts.
    BrentKungPadded,
    /// Blelloch's.
    Blelloch,
    /// Blelloch's without bank conflicts.
    BlellochPadded,
    /// By shuffles within warps.
    Warp,
    /// Several elements per thread.
    Coarsened,
    /// The library's scan, in one launch.
    SinglePass,
}

impl ScanLadder {
    fn in_sections<T: Sampled, M: InPlace<T>>(
        &self,
        setup: &Setup,
        (monoid, method): (M, Method),
        reference: Reference<T>,
    ) -> Result<Box<dyn Prepared>> {
        let scan = Segmented { monoid, kind: self.kind, method, threads: self.threads };
        scan.check::<T>()?;
        let operations = Operations::new(setup.device());
        let steps = scan.rounding_steps(self.length as u64) as f64;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.input(self.length, |length| T::draw_many(seed, length))?;
            Ok((input, setup.output::<T>(self.length)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| Ok(scan.scan(&operations, stream, input, output)?))
            .verify(move |(input, output)| {
                reference.verify(scan.kind, &input.to_vec()?, &output.to_vec()?, steps)
            }))
    }
}

impl Workload for ScanLadder {
    const NAME: &'static str = "scan-ladder";

    fn work(&self) -> Work {
        with_element!(self.element, T => work::<T>(self.length))
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let method = match self.step {
            ScanStep::KoggeStone => Method::KoggeStone,
            ScanStep::BrentKung => Method::BrentKung { padded: false },
            ScanStep::BrentKungPadded => Method::BrentKung { padded: true },
            ScanStep::Blelloch => Method::Blelloch { padded: false },
            ScanStep::BlellochPadded => Method::Blelloch { padded: true },
            ScanStep::Warp => Method::Warp,
            ScanStep::Coarsened => Method::Coarsened,
            ScanStep::SinglePass => return library("scan", self, &[])?.prepare(setup),
        };
        match self.by {
            By::Sum => {
                let element = self.element.into();
                let refused = |_| {
                    Refused::new(format!(
                        "a sum of {element} is accumulated in f32, which only --step single-pass \
                         supports"
                    ))
                };
                with_sum!(SumType::parse(element).map_err(refused)?, T => {
                    self.in_sections::<T, _>(setup, (Sum, method), Reference::sums())
                })
            }
            By::Min => with_element!(self.element, T => {
                self.in_sections::<T, _>(setup, (Min, method), Reference::smallest())
            }),
            By::Max => with_element!(self.element, T => {
                self.in_sections::<T, _>(setup, (Max, method), Reference::largest())
            }),
        }
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: words::<ScanStep>(),
            defaults: &[],
            measure: Measure::Bytes,
            baseline: Some("copy"),
            counted_on: "emu:h200",
            counted: &[("length", "65536")],
        })
    }
}
