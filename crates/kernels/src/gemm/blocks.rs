//! A product of narrow floats whose blocks have scales, on Hopper's tensor cores: C = Σ over blocks of k of (A·B of the block) · scales.
//!
//! ```text
//! k      0..128              128..256            ..
//! sums   wgmma, from zero    wgmma, from zero        tensor cores: 13 bits of the largest term survive, so sums stay short
//!            \                   \
//! totals      + sums · sa · sb    + sums · sa · sb    f32, in the consumer's registers: "promoted"
//! ```
//!
//! The frame is that of [`HopperGemm`]: a producer fills the slots of a ring, here with the scales beside the tiles,
//! and two consumers multiply 64 rows of a tile each. A consumer has two sets of sums where registers allow: the tensor cores fill
//! one while it promotes the other. (The scheme: DeepSeek-V3's report, "Increasing Accumulation Precision", 2024.)

use warpwright::prelude::*;

use super::hopper::{CONSUMERS, HopperGemm, role_sizes};
use super::kinds::ScaleMaps;
use super::operand::{WarpgroupInput, warpgroup_atom};
use super::products::Products;
use super::scales::{BLOCK, ScaledRows, StagedScales, TileScales};
use super::schedule::Schedule;
use super::split::Exchange;
use super::store::Finished;
use super::warpgroups::WarpgroupGemm;

/// C = A·B with a scale for each block of A and of B, whose types may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledGemm {
    /// Tiles, cluster, ring and order of the walk; its consumers cooperate, and a slot is one block of k deep.
    pub gemm: HopperGemm,
    /// The scales of A.
    pub rows: TileScales,
    /// The scales of B.
    pub columns: TileScales,
    /// Sets of sums of a consumer: 1, or 2 to multiply one block while another is promoted.
    pub in_flight: u32,
}

#[device]
impl WarpgroupGemm for ScaledGemm {
    type Scales = ScaleMaps;

    fn frame(&self) -> &HopperGemm {
        &self.gemm
    }

    fn compute<A: WarpgroupInput, B: WarpgroupInput>(
        &self,
        products: &Products,
        scales: ScaleMaps,
        workspace: (&Global<f32>, &Global<u32>),
        finish: impl Fn(&mut Finished),
    ) {
        let HopperGemm { tile, stages, raster, split, .. } = self.gemm;
        let (tile_m, tile_n, _) = tile;
        let [producer, consumer] =
            roles(role_sizes((1 + self.in_flight) * tile_m * tile_n / (128 * CONSUMERS)));
        let cluster = ClusterGrid::new(self.gemm.cluster);
        let mut stages = Pipeline::stages(stages);
        let a_tiles = stages.operand::<A>(self.gemm.a_tile::<A>());
        let b_tiles = stages.operand::<B>(self.gemm.b_tile::<B>());
        let a_scale_tiles = StagedScales::new(self.rows, tile.0, &mut stages);
        let b_scale_tiles = StagedScales::new(self.columns, tile.1, &mut stages);
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        let mut schedule = Schedule::new(cluster, (tile_m, tile_n, BLOCK), raster, products, split);
        if producer.leads() {
            products.prefetch(&[scales.a, scales.b]);
        }
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        schedule.count_tiles();
        let exchange = split.then(|| Exchange::new(workspace, CONSUMERS, CONSUMERS, cluster));

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for index in 0..schedule.count {
                    let piece = schedule.piece(index);
                    let (row, column) = schedule.place(piece);
                    let (row, column) = (row * tile_m, column * tile_n);
                    let (a, b) = products.factors(piece.product);
                    let (a_scales, b_scales) = products.scales(piece.product, (scales.a, scales.b));
                    let (a_before, b_before) = products.rows_before(piece.product);
                    let a_rows = a_scale_tiles.rows(a_before, row);
                    let b_rows = b_scale_tiles.rows(b_before, column);
                    for block in piece.first..piece.first + piece.steps {
                        pipeline.load([
                            a_tiles.load(a, (row, block * BLOCK), cluster.multicast_a()),
                            b_tiles.load(b, (column, block * BLOCK), cluster.multicast_b()),
                            a_scale_tiles.load(a_scales, a_rows, block),
                            b_scale_tiles.load(b_scales, b_rows, block),
                        ]);
                    }
                }
                pipeline.tail();
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups(&warpgroup_atom::<A, B>(tile_n), CONSUMERS);
            let part = consumer.warpgroup();
            let thread = mma.thread(consumer.thread());
            let totals: Fragment<f32> = thread.c_fragment((tile.0, tile.1));
            let mut blocks = Blocks {
                a: mma.a_operand(a_tiles.tensor(), part),
                b: mma.b_operand(b_tiles.tensor()),
                a_scales: a_scale_tiles,
                b_scales: b_scale_tiles,
                sums: (0..self.in_flight).map(|_| thread.c_fragment((tile.0, tile.1))).collect(),
                mma,
            };
            for sums in &mut blocks.sums {
                sums.clear();
            }
            let leads = consumer.leads_warpgroup();
            for index in 0..schedule.count {
                let piece = schedule.piece(index);
                let (row, column) = schedule.place(piece);
                let (row, column) = (row * tile_m, column * tile_n);
                let at = (row + part * 64, column);
                let mut tile = Finished::new(&totals, (consumer, leads), piece, at, tile.1, 64 * CONSUMERS);
                let (a_before, b_before) = products.rows_before(piece.product);
                let rows = (blocks.a_scales.rows(a_before, row), blocks.b_scales.rows(b_before, column));
                blocks.add_up(&mut pipeline, &mut tile, rows, piece.steps);
                Exchange::finish(exchange.as_ref(), (&schedule, piece, part), &mut tile, &finish);
            }
        }
    }
}

/// A consumer's work on the blocks of k of a tile.
struct Blocks {
    mma: TiledMma,
    a: MatrixOperand,
    b: MatrixOperand,
    a_scales: StagedScales,
    b_scales: StagedScales,
    /// Sets of the sums of one block.
    sums: Vec<Fragment<f32>>,
}

#[device]
impl Blocks {
    /// Leaves in `tile`, whose scales are those of `rows`, the scaled sums of the next `count` slots.
    fn add_up(
        &mut self,
        pipeline: &mut Consumer,
        tile: &mut Finished,
        rows: (ScaledRows, ScaledRows),
        count: Reg<u32>,
    ) {
        tile.sums.clear();
        if self.sums.len() == 1 {
            for _ in 0..count {
                self.begin(pipeline, 0);
                self.promote(pipeline, tile, rows, 0, 0);
            }
        } else {
            // The sets take turns: while one is promoted, the next block is multiplied into the other.
            self.begin(pipeline, 0);
            for _ in 0..(count - 1u32) / 2u32 {
                for set in [1, 0] {
                    self.begin(pipeline, set);
                    self.promote(pipeline, tile, rows, 1 - set, 1);
                }
            }
            if (count % 2u32).eq(0u32) {
                self.begin(pipeline, 1);
                self.promote(pipeline, tile, rows, 0, 1);
                self.promote(pipeline, tile, rows, 1, 0);
            } else {
                self.promote(pipeline, tile, rows, 0, 0);
            }
        }
    }

    /// Begins to multiply the block in the next slot into a set of sums.
    fn begin(&mut self, pipeline: &mut Consumer, set: usize) {
        let at = (All, All, pipeline.wait());
        multiply(&self.mma, &mut self.sums[set], &self.a.slice(at), &self.b.slice(at), Accumulate::No);
    }

    /// Waits until only the latest `in_flight` blocks are being multiplied, and promotes the set of sums of the one before: adds them,
    /// scaled, to the tile's.
    fn promote(
        &self,
        pipeline: &mut Consumer,
        tile: &mut Finished,
        (rows, columns): (ScaledRows, ScaledRows),
        set: usize,
        in_flight: u32,
    ) {
        wait_multiplications(in_flight);
        let stage = pipeline.oldest();
        let sums = &self.sums[set];
        let groups = tile.columns / 8;
        let run = self.b_scales.run() / 8;
        for block in 0..sums.len() / (4 * groups) {
            // Of every eight columns a thread has two neighbours, in two rows. (See `Finished::place`.)
            let index = |group: u32, half: u32, side: u32| ((block * groups + group) * 2 + half) * 2 + side;
            let row_scales =
                [0, 1].map(|half| self.a_scales.get(stage, rows, tile.place(index(0, half, 0)).0));
            for first in (0..groups).step_by(run as usize) {
                let (_, at) = tile.place(index(first, 0, 0));
                let scales = self.b_scales.pair(stage, columns, at);
                let factors = row_scales.map(|row| scales.map(|column| row * column));
                for group in first..groups.min(first + run) {
                    for (half, side) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let index = index(group, half, side);
                        let factor = factors[half as usize][side as usize];
                        let total = sums.get(index).mul_add(factor, tile.sums.get(index));
                        tile.sums.set(index, total);
                    }
                }
            }
        }
        pipeline.release();
    }
}
