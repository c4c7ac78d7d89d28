//! Operands with blockwise scales: C = Σ over blocks of k of (A·B of the block) · scales.
//!
//! ```text
//! k              0..128              128..256            ..
//! accumulators   MMA, from zero      MMA, from zero          tensor cores keep 13 bits of the largest term: sums stay short
//!                    \                   \
//! totals             + acc · sa · sb     + acc · sa · sb     f32, in the consumer's registers: "promoted"
//! ```
//!
//! A consumer of `wgmma` has two sets of accumulators if its registers hold them: the tensor cores
//! fill one while it promotes the other. Tensor memory holds those of two k-blocks or more. (The scheme: DeepSeek-V3's report, "Increasing Accumulation
//! Precision", 2024.)

use warpwright::lang::tensor::MappedMatrix;
use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::gemm::device::problems::Problems;
use crate::gemm::device::store::AccumulatorTile;
use crate::gemm::problem::scales::{BLOCK, Granularity, SCALES_PER_16_BYTES};

/// The scales of an operand's tiles.
#[derive(Clone, Copy)]
pub(crate) struct TileScales {
    /// The elements that share a scale.
    pub(crate) granularity: Granularity,
    /// Whether tiles begin at any row of the operand, as those of groups along m do, or at
    /// multiples of 8.
    pub(crate) any_row: bool,
}

/// Scales of a stage are at least this many: tiles in shared memory are multiples of 128 bytes.
const MIN_SCALES: u32 = 32;

impl TileScales {
    /// The scales of a tile of `rows` rows in a stage.
    ///
    /// # Errors
    /// The tile has more than 256 rows.
    pub(crate) fn tile(self, rows: u32) -> Result<TmaTile, Error> {
        // 128x128 blocks have fewer than the least, those before the tile's first in its 16 bytes
        // included.
        let scales = match self.granularity {
            Granularity::Row if self.any_row => rows + SCALES_PER_16_BYTES - 1,
            Granularity::Row => rows,
            Granularity::Block => 1,
        };
        TmaTile::dense::<f32>((scales.next_multiple_of(MIN_SCALES), 1), Major::Mn)
    }
}

/// The scales of A's and B's tiles in the stages of the pipeline.
pub(crate) struct StagedScales {
    a: StagedOperandScales,
    b: StagedOperandScales,
}

/// The scales of one operand's tiles in the stages.
struct StagedOperandScales {
    scales: TileScales,
    tiles: StagedOperand<f32>,
    /// Rows of a tile.
    rows: u32,
}

/// The rows of a tile whose scales are read.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct ScaledRows {
    /// Rows of the operand before the problem's.
    before: Option<Reg<u32>>,
    /// The first scale in a stage.
    first: Reg<u32>,
}

impl StagedScales {
    #[track_caller]
    pub(crate) fn new([a, b]: [TileScales; 2], tile: (u32, u32, u32), stages: &mut PipelineStages) -> Self {
        let mut of = |scales: TileScales, rows: u32| StagedOperandScales {
            scales,
            tiles: stages.operand(scales.tile(rows)),
            rows,
        };
        Self { a: of(a, tile.0), b: of(b, tile.1) }
    }

    /// The scaled rows of A and B of the tile at (row, column) of a problem.
    #[track_caller]
    pub(crate) fn rows(
        &self,
        problems: &Problems,
        problem: Option<Reg<u32>>,
        (row, column): (Reg<u32>, Reg<u32>),
    ) -> (ScaledRows, ScaledRows) {
        let (a_before, b_before) = problems.rows_before(problem);
        (self.a.rows(a_before, row), self.b.rows(b_before, column))
    }

    /// The scales of the tile at (row, column) of a problem, for the thread that loads them.
    #[track_caller]
    pub(crate) fn of(
        &self,
        problems: &Problems,
        problem: Option<Reg<u32>>,
        origin: (Reg<u32>, Reg<u32>),
    ) -> ScaleSource<'_> {
        let maps = problems.scales(problem);
        ScaleSource { scales: self, maps, rows: self.rows(problems, problem, origin) }
    }
}

/// Where the scales of a tile are loaded from.
pub(crate) struct ScaleSource<'s> {
    scales: &'s StagedScales,
    maps: (MappedMatrix, MappedMatrix),
    rows: (ScaledRows, ScaledRows),
}

impl ScaleSource<'_> {
    /// The load of A's scales of a k-block.
    #[track_caller]
    pub(crate) fn load_a(&self, k_block: Reg<u32>) -> TileLoad {
        self.scales.a.tiles.load(self.maps.0, (self.rows.0.first, k_block), None)
    }

    /// The load of B's scales of a k-block.
    #[track_caller]
    pub(crate) fn load_b(&self, k_block: Reg<u32>) -> TileLoad {
        self.scales.b.tiles.load(self.maps.1, (self.rows.1.first, k_block), None)
    }
}

impl StagedOperandScales {
    /// The rows of the tile at `row` of a problem that has `before` rows of the operand before it.
    #[track_caller]
    fn rows(&self, before: Option<Reg<u32>>, row: Reg<u32>) -> ScaledRows {
        let row = before.map_or(row, |before| before + row);
        // TMA reads from a multiple of 16 bytes on.
        let first = row / (SCALES_PER_16_BYTES * self.scales.granularity.rows()) * SCALES_PER_16_BYTES;
        ScaledRows { before, first }
    }

    /// Neighboring rows, from the tile's first or a multiple of this after it on, that have the
    /// same scale for certain; 8 at least are read together.
    fn rows_of_one_scale(&self) -> u32 {
        match self.scales {
            TileScales { granularity: Granularity::Row, .. } | TileScales { any_row: true, .. } => 8,
            // The largest power of two that divides the tile's rows, and so where each tile begins.
            TileScales { granularity: Granularity::Block, .. } => {
                (1 << self.rows.trailing_zeros()).min(BLOCK)
            }
        }
    }

    /// The scales in a stage of an even row of the problem and the next.
    #[track_caller]
    fn pair(&self, stage: Stage, rows: ScaledRows, row: Reg<u32>) -> [Reg<f32>; 2] {
        match self.scales {
            TileScales { any_row: true, .. } => [row, row + 1u32].map(|row| self.get(stage, rows, row)),
            TileScales { granularity: Granularity::Row, .. } => {
                self.tiles.tensor().get_vector((row - rows.first, 0, stage))
            }
            TileScales { granularity: Granularity::Block, .. } => [self.get(stage, rows, row); 2],
        }
    }

    /// The scale in a stage of a row of the problem.
    #[track_caller]
    fn get(&self, stage: Stage, rows: ScaledRows, row: Reg<u32>) -> Reg<f32> {
        let row = rows.before.map_or(row, |before| before + row);
        let index = row / self.scales.granularity.rows() - rows.first;
        self.tiles.tensor().get((index, 0, stage))
    }
}

/// A consumer's accumulators of single k-blocks, and their scales.
pub(crate) struct Promotion<'s> {
    mma: TiledMma,
    pub(crate) scales: &'s StagedScales,
    sets: Vec<Fragment<f32>>,
}

#[device]
impl<'s> Promotion<'s> {
    /// With `sets` sets of accumulators: 2 multiply one k-block while another is promoted.
    pub(crate) fn new(
        scales: &'s StagedScales,
        sets: u32,
        mma: &TiledMma,
        thread: &ThreadMma,
        tile: (u32, u32, u32),
    ) -> Self {
        let mut sets: Vec<Fragment<f32>> = (0..sets).map(|_| thread.c_fragment((tile.0, tile.1))).collect();
        for set in &mut sets {
            set.clear();
        }
        Self { mma: mma.clone(), scales, sets }
    }

    /// Leaves in `tile`, whose scales are those of `rows`, the scaled accumulators of the next
    /// `k_blocks` stages.
    pub(crate) fn accumulate(
        &mut self,
        operands: (&MatrixOperand, &MatrixOperand),
        rows: (ScaledRows, ScaledRows),
        pipeline: &mut Consumer,
        k_blocks: Reg<u32>,
        tile: &mut AccumulatorTile,
    ) {
        tile.accumulators.clear();
        if self.sets.len() == 1 {
            for _ in 0..k_blocks {
                self.begin(operands, pipeline, 0);
                self.promote(pipeline, tile, rows, 0, 0);
            }
        } else {
            // The sets alternate: while one is promoted, the next k-block is multiplied into the
            // other.
            self.begin(operands, pipeline, 0);
            for _ in 0..(k_blocks - 1u32) / 2u32 {
                for set in [1, 0] {
                    self.begin(operands, pipeline, set);
                    self.promote(pipeline, tile, rows, 1 - set, 1);
                }
            }
            if (k_blocks % 2u32).eq(0u32) {
                self.begin(operands, pipeline, 1);
                self.promote(pipeline, tile, rows, 0, 1);
                self.promote(pipeline, tile, rows, 1, 0);
            } else {
                self.promote(pipeline, tile, rows, 0, 0);
            }
        }
    }

    /// Begins to multiply the next stage into a set of accumulators.
    fn begin(&mut self, (a, b): (&MatrixOperand, &MatrixOperand), pipeline: &mut Consumer, set: usize) {
        let at = (All, All, pipeline.wait());
        multiply(&self.mma, &mut self.sets[set], &a.slice(at), &b.slice(at), Accumulate::No);
    }

    /// Waits until `in_flight` k-blocks are being multiplied, and adds the set of accumulators of
    /// the one before them, scaled, to the tile's.
    fn promote(
        &self,
        pipeline: &mut Consumer,
        tile: &mut AccumulatorTile,
        rows: (ScaledRows, ScaledRows),
        set: usize,
        in_flight: u32,
    ) {
        wait_multiplications(in_flight);
        self.scales.add(pipeline.oldest(), rows, &self.sets[set], tile);
        pipeline.release();
    }
}

#[device]
impl StagedScales {
    /// Adds to the tile's accumulators those of the k-block in a stage, scaled.
    pub(crate) fn add(
        &self,
        stage: Stage,
        (a_rows, b_rows): (ScaledRows, ScaledRows),
        set: &Fragment<f32>,
        tile: &mut AccumulatorTile,
    ) {
        let Self { a, b, .. } = self;
        let groups = tile.columns / 8;
        let run = b.rows_of_one_scale() / 8;
        for block in 0..set.len() / (4 * groups) {
            // Of every eight columns a thread has two neighbors, in two rows:
            // `AccumulatorTile::coordinate`.
            let index = |group: u32, half: u32, side: u32| ((block * groups + group) * 2 + half) * 2 + side;
            let row_scales = [0, 1].map(|half| a.get(stage, a_rows, tile.coordinate(index(0, half, 0)).0));
            for first in (0..groups).step_by(run as usize) {
                let (_, column) = tile.coordinate(index(first, 0, 0));
                let column_scales = b.pair(stage, b_rows, column);
                let scales = row_scales.map(|row| column_scales.map(|column| row * column));
                for group in first..groups.min(first + run) {
                    for (half, side) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let index = index(group, half, side);
                        let scale = scales[half as usize][side as usize];
                        let total = set.get(index).mul_add(scale, tile.accumulators.get(index));
                        tile.accumulators.set(index, total);
                    }
                }
            }
        }
    }
}
