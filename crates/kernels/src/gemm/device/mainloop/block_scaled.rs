//! Block-scaled operands: scales of 16 or 32 elements along k in the pipeline, and their copies to tensor memory.
//!
//! ```text
//! a stage: 128 bytes of k of A and B            tensor memory, beside the accumulators
//! A's scales   128 rows: 1, 2 or 4 tiles    ->  4 columns for each tile
//! B's scales   128 or 256 columns           ->  4 or 8 columns for each
//! ```
//!
//! A tile of 512 bytes has four scales along k for 128 rows: MXFP8 and MXFP6 have 128 elements in a
//! stage and one tile, MXFP4 256 and two, NVFP4 256 and four. The thread that multiplies copies them,
//! of a pair of CTAs in both: each has the scales of its rows, and of all columns. `tcgen05.cp` and
//! `tcgen05.mma` of one thread stay in order (PTX ISA, "Pipelined tcgen05 instructions"), so that
//! one copy in tensor memory is enough.

use warpwright::lang::tensor::{BlockScales as MmaScales, SCALE_BYTES};
use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::gemm::device::problems::Problems;
use crate::gemm::problem::scales::{SCALE_TILE, ScaleFactors};

/// Columns of tensor memory of a tile of scales.
const TILE_COLUMNS: u32 = 4;

/// Elements of a tile of scales as TMA loads them: 64 bits, so that a box of four tiles has 256.
pub(crate) const TILE_WORDS: u32 = SCALE_BYTES / 8;

/// The tile of scales that a stage has for `rows` rows and that k, as TMA loads it.
///
/// # Errors
/// A row of tiles has more than 256 words.
pub(crate) fn scales_of_stage(factors: ScaleFactors, rows: u32, k: u32) -> Result<TmaTile, Error> {
    let tiles = factors.tiles(k);
    TmaTile::dense::<u64>((rows.div_ceil(SCALE_TILE.0), tiles * TILE_WORDS), Major::K)
}

/// The scales of A's and B's tiles in the stages.
pub(super) struct StagedScaleFactors {
    a: StagedOperand<u64>,
    b: StagedOperand<u64>,
    pub(super) scales: MmaScales,
    /// Tiles of scales along the k of a stage.
    tiles: u32,
    /// Tiles of scales along the columns of B.
    across: u32,
}

impl StagedScaleFactors {
    /// For tiles of that shape.
    #[track_caller]
    pub(super) fn new(
        factors: ScaleFactors,
        (tile_m, tile_n, tile_k): (u32, u32, u32),
        stages: &mut PipelineStages,
    ) -> Self {
        Self {
            a: stages.operand(scales_of_stage(factors, tile_m, tile_k)),
            b: stages.operand(scales_of_stage(factors, tile_n, tile_k)),
            scales: factors.mma(),
            tiles: factors.tiles(tile_k),
            across: tile_n / SCALE_TILE.0,
        }
    }

    /// Columns of tensor memory that the scales of a stage take.
    pub(super) fn columns(&self) -> u32 {
        TILE_COLUMNS * self.tiles * (1 + self.across)
    }

    /// The loads of A's and B's scales of a k-block of the tile at (row, column) of a problem.
    #[track_caller]
    pub(super) fn loads(
        &self,
        problems: &Problems,
        problem: Option<Reg<u32>>,
        (row, column): (Reg<u32>, Reg<u32>),
        k_block: Reg<u32>,
    ) -> [TileLoad; 2] {
        let (a, b) = problems.scales(problem);
        let word = k_block * (self.tiles * TILE_WORDS);
        [
            self.a.load(a, (row / SCALE_TILE.0, word), None),
            self.b.load(b, (column / SCALE_TILE.0, word), None),
        ]
    }

    /// Copies the scales of a stage to tensor memory: where those of A are, and those of B.
    #[track_caller]
    pub(super) fn copy(&self, group: CtaGroup, stage: Stage, to: TensorMemory) -> [TensorMemory; 2] {
        let of_b = to.column(self.tiles * TILE_COLUMNS);
        let copy = |operand: &StagedOperand<u64>, to: TensorMemory, across: u32| {
            let from = operand.memory().at(stage.index() * (across * self.tiles * TILE_WORDS));
            for (tile, rows) in (0..self.tiles).flat_map(|tile| (0..across).map(move |rows| (tile, rows))) {
                to.column((tile * across + rows) * TILE_COLUMNS)
                    .copy_scales(group, from.at((rows * self.tiles + tile) * TILE_WORDS));
            }
        };
        copy(&self.a, to, 1);
        copy(&self.b, of_b, self.across);
        [to, of_b]
    }
}
