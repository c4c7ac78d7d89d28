//! The ladder of reductions as a workload: sums of f32.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{Ladder, Measure, Options, Prepared, Result, Setup, Work, Workload, compare, words};
use warpwright_kernels::monoid::Sum;
use warpwright_kernels::operations::Operations;
use warpwright_workloads::reduce::reference::check_sum;
use warpwright_workloads::sample::{Sampled, work_of_one_read};

use super::stepwise::{Step, Stepwise};
use crate::library::library;

/// Sums all elements: from a tree in shared memory to one launch at DRAM bandwidth.
#[derive(Clone, Debug, Options)]
pub(crate) struct ReduceLadder {
    /// Number of elements.
    #[option(default = 1_000_003)]
    length: usize,
    /// Step of the ladder.
    step: ReduceStep,
    /// Threads per CTA, in all steps but the last.
    #[option(default = 256, min = 256, max = 1024, search = [256, 512, 1024])]
    threads: u32,
}

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum ReduceStep {
    /// A tree in shared memory whose active threads are interleaved.
    #[default]
    Interleaved,
    /// A tree whose active threads are adjacent.
    Sequential,
    /// Warps reduce by shuffles.
    Shuffles,
    /// Threads add several elements first.
    GridStride,
    /// The library's reduction.
    SinglePass,
}

impl Workload for ReduceLadder {
    const NAME: &'static str = "reduce-ladder";

    fn work(&self) -> Work {
        work_of_one_read::<f32>(self.length)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let step = match self.step {
            ReduceStep::Interleaved => Step::Interleaved,
            ReduceStep::Sequential => Step::Sequential,
            ReduceStep::Shuffles => Step::Shuffles,
            ReduceStep::GridStride => Step::GridStride,
            ReduceStep::SinglePass => return library("reduce", self, &[])?.prepare(setup),
        };
        let reduction = Stepwise { monoid: Sum, step, threads: self.threads };
        let operations = Operations::new(setup.device());
        let steps = reduction.rounding_steps::<f32>(&operations, self.length as u64)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.input(self.length, |length| f32::draw_many(seed, length))?;
            Ok((input, setup.output::<f32>(1)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| {
                Ok(reduction.reduce(&operations, stream, input, output)?)
            })
            .verify(move |(input, output)| {
                let found = check_sum(output.to_vec()?[0], &input.to_vec()?, steps);
                Ok(compare([found], |index| vec![index as usize])?)
            }))
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: words::<ReduceStep>(),
            defaults: &[],
            measure: Measure::Bytes,
            baseline: Some("copy"),
            counted_on: "emu:h200",
            counted: &[("length", "65536")],
        })
    }
}
