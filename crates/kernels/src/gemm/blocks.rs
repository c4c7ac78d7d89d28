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

use super::hopper::{CONSUMERS, HopperGemm, budgets};
use super::kinds::ScaleMaps;
use super::operand::{WarpgroupInput, warpgroup_atom};
use super::products::Products;
use super::scales::{BLOCK, ScaleRing, ScaledRows, TileScales};
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
        let (tile_m, tile_n) = (tile.0 as u32, tile.1 as u32);
        let [producer, consumer] = roles(budgets((1 + self.in_flight) * tile_m * tile_n / (128 * CONSUMERS)));
        let cluster = ClusterGrid::new(self.gemm.cluster);
        let a_ring = TileRing::<A>::new(self.gemm.a_tile::<A>(), stages);
        let b_ring = TileRing::<B>::new(self.gemm.b_tile::<B>(), stages);
        let a_scale_ring = ScaleRing::new(self.rows, tile.0, stages);
        let b_scale_ring = ScaleRing::new(self.columns, tile.1, stages);
        let slots = Pipeline::new(stages, consumer, CONSUMERS, cluster);
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
                let mut slots = slots.producer();
                for index in 0..schedule.count {
                    let piece = schedule.piece(index);
                    let (row, column) = schedule.place(piece);
                    let (row, column) = (row * tile_m, column * tile_n);
                    let (a, b) = products.factors(piece.product);
                    let (a_scales, b_scales) = products.scales(piece.product, (scales.a, scales.b));
                    let (a_before, b_before) = products.rows_before(piece.product);
                    let a_rows = a_scale_ring.rows(a_before, row);
                    let b_rows = b_scale_ring.rows(b_before, column);
                    for block in piece.first..piece.first + piece.steps {
                        slots.fill([
                            a_ring.load(a, (row, block * BLOCK), cluster.share_a()),
                            b_ring.load(b, (column, block * BLOCK), cluster.share_b()),
                            a_scale_ring.load(a_scales, a_rows, block),
                            b_scale_ring.load(b_scales, b_rows, block),
                        ]);
                    }
                }
                slots.finish();
            }
        } else {
            consumer.begin();
            let mut slots = slots.consumer();
            let mma = TiledMma::warpgroups(&warpgroup_atom::<A, B>(tile_n), CONSUMERS.into());
            let part = consumer.warpgroup();
            let thread = mma.thread(consumer.thread());
            let totals: Fragment<f32> = thread.c_fragment((tile.0, tile.1));
            let mut blocks = Blocks {
                a: mma.a_operand(a_ring.tensor(), part),
                b: mma.b_operand(b_ring.tensor()),
                a_scales: a_scale_ring,
                b_scales: b_scale_ring,
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
                blocks.add_up(&mut slots, &mut tile, rows, piece.steps);
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
    a_scales: ScaleRing,
    b_scales: ScaleRing,
    /// Sets of the sums of one block.
    sums: Vec<Fragment<f32>>,
}

#[device]
impl Blocks {
    /// Leaves in `tile`, whose scales are those of `rows`, the scaled sums of the next `count` slots.
    fn add_up(
        &mut self,
        slots: &mut Consumer,
        tile: &mut Finished,
        rows: (ScaledRows, ScaledRows),
        count: Reg<u32>,
    ) {
        tile.sums.clear();
        if self.sums.len() == 1 {
            for _ in 0..count {
                self.begin(slots, 0);
                self.promote(slots, tile, rows, 0, 0);
            }
        } else {
            // The sets take turns: while one is promoted, the next block is multiplied into the other.
            self.begin(slots, 0);
            for _ in 0..(count - 1u32) / 2u32 {
                for set in [1, 0] {
                    self.begin(slots, set);
                    self.promote(slots, tile, rows, 1 - set, 1);
                }
            }
            if (count % 2u32).eq(0u32) {
                self.begin(slots, 1);
                self.promote(slots, tile, rows, 0, 1);
                self.promote(slots, tile, rows, 1, 0);
            } else {
                self.promote(slots, tile, rows, 0, 0);
            }
        }
    }

    /// Begins to multiply the block in the next slot into a set of sums.
    fn begin(&mut self, slots: &mut Consumer, set: usize) {
        let at = (All, All, slots.wait());
        multiply(&self.mma, &mut self.sums[set], &self.a.slice(at), &self.b.slice(at), false);
    }

    /// Waits until only the latest `in_flight` blocks are being multiplied, and promotes the set of sums of the one before: adds them,
    /// scaled, to the tile's.
    fn promote(
        &self,
        slots: &mut Consumer,
        tile: &mut Finished,
        (rows, columns): (ScaledRows, ScaledRows),
        set: usize,
        in_flight: u32,
    ) {
        wait_multiplications(in_flight);
        let slot = slots.oldest();
        let sums = &self.sums[set];
        let groups = tile.columns / 8;
        let run = self.b_scales.run() / 8;
        for block in 0..sums.len() as i64 / (4 * groups) {
            // Of every eight columns a thread has two neighbours, in two rows. (See `Finished::place`.)
            let index = |group: i64, half: i64, side: i64| ((block * groups + group) * 2 + half) * 2 + side;
            let row_scales =
                [0, 1].map(|half| self.a_scales.get(slot, rows, tile.place(index(0, half, 0)).0));
            for first in (0..groups).step_by(run as usize) {
                let (_, at) = tile.place(index(first, 0, 0));
                let scales = self.b_scales.pair(slot, columns, at);
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
        slots.release();
    }
}
