//! The ladder of SGEMM as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{Ladder, Measure, Options, Prepared, Result, Setup, Work, Workload, words};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sgemm::Tile;
use warpwright_kernels::sgemm::host::plan;
use warpwright_workloads::sgemm::reference::Problem;

use super::Step;
use super::thread_tile::ThreadTile;
use super::vectorized::Vectorized;
use super::warp_tile::WarpTile;
use crate::library::{baseline, library};

/// Multiplies f32 matrices without tensor cores: from one thread per element to the limit of an SM.
#[derive(Clone, Debug, Options)]
pub(crate) struct SgemmLadder {
    /// The problem.
    #[option(flatten)]
    problem: Problem,
    /// Step of the ladder.
    step: SgemmStep,
    /// CTA tile of C (double-buffered, tma).
    tile: Option<Tile>,
    /// Number of splits along k (double-buffered, tma).
    #[option(min = 1)]
    splits: Option<u32>,
}

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum SgemmStep {
    /// One thread per element, lanes along a column.
    #[default]
    Naive,
    /// One thread per element, lanes along a row.
    Coalesced,
    /// Blocks of A and B in shared memory.
    Shared,
    /// A column of C per thread.
    Column,
    /// A tile of C per thread.
    ThreadTile,
    /// Coalesced copies to shared memory.
    CoalescedCopies,
    /// Four elements per instruction.
    Vectorized,
    /// Tiles of warps.
    WarpTile,
    /// The library's kernel with two buffers.
    DoubleBuffered,
    /// The library's kernel with TMA.
    Tma,
}

impl SgemmLadder {
    /// The step, unless it is one of the library's kernels.
    fn step(&self) -> Option<Step> {
        let (_, n, k) = self.problem.extents();
        let widths = (plan::width(k), plan::width(n));
        Some(match self.step {
            SgemmStep::Naive => Step::Naive,
            SgemmStep::Coalesced => Step::Coalesced,
            SgemmStep::Shared => Step::Shared,
            SgemmStep::Column => Step::ThreadTile(ThreadTile::COLUMN),
            SgemmStep::ThreadTile => Step::ThreadTile(ThreadTile::SQUARE),
            SgemmStep::CoalescedCopies => Step::ThreadTile(ThreadTile::COALESCED),
            SgemmStep::Vectorized => Step::Vectorized(Vectorized { tiles: Vectorized::TILES, widths }),
            SgemmStep::WarpTile => Step::WarpTile(WarpTile { tiles: WarpTile::TILES, widths }),
            SgemmStep::DoubleBuffered | SgemmStep::Tma => return None,
        })
    }
}

impl Workload for SgemmLadder {
    const NAME: &'static str = "sgemm-ladder";

    fn work(&self) -> Work {
        self.problem.work()
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let Some(step) = self.step() else {
            return library("sgemm", self, &[("algorithm", self.step.into())])?.prepare(setup);
        };
        let operations = Operations::new(setup.device());
        self.problem.prepare(setup, move |stream, matrices, scale| {
            Ok(step.launch(&operations, stream, matrices, scale)?)
        })
    }

    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        baseline("sgemm", self, name, setup)
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: words::<SgemmStep>(),
            defaults: &[],
            measure: Measure::Operations,
            baseline: Some("cublas"),
            counted_on: "emu:h200",
            counted: &[("m", "256"), ("n", "256"), ("k", "64"), ("tile", "128x128")],
        })
    }
}
