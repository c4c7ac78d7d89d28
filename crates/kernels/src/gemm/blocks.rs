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

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::GemmOutput;
use super::epilogue::Epilogue;
use super::hopper::{CONSUMERS, HopperGemm, budgets};
use super::operand::{WarpgroupInput, warpgroup_atom};
use super::products::Products;
use super::scales::{BLOCK, Granularity, ScaleRing};
use super::schedule::Schedule;
use super::split::Exchange;
use super::store::{BoxStore, ElementStore, Finished};

/// C = A·B with a scale for each block of A and of B, whose types may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledGemm {
    /// Tiles, cluster, ring and order of the walk; its consumers cooperate, and a slot is one block of k deep.
    pub gemm: HopperGemm,
    /// What has a scale of A.
    pub rows: Granularity,
    /// What has a scale of B.
    pub columns: Granularity,
    /// Sets of sums of a consumer: 1, or 2 to multiply one block while another is promoted.
    pub in_flight: u32,
}

impl ScaledGemm {
    /// The scales of a tile of A in shared memory.
    pub fn a_scales_tile(&self) -> Result<TmaTile, Error> {
        self.rows.tile(self.gemm.tile.0)
    }

    /// The scales of a tile of B in shared memory.
    pub fn b_scales_tile(&self) -> Result<TmaTile, Error> {
        self.columns.tile(self.gemm.tile.1)
    }

    /// C = A·B, stored by TMA: its contiguous extent is a multiple of 16 bytes.
    #[device]
    pub fn store_boxes<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        products: &Products,
        scales: (&TensorMap, &TensorMap),
        c: &TensorMap,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &impl Epilogue,
    ) {
        let way = BoxStore::<C>::new(self.gemm.tile.1, self.gemm.c, CONSUMERS);
        self.compute::<A, B>(products, scales, workspace, |tile| {
            tile.apply(epilogue, products);
            way.store(products.boxes(c, tile.product), tile);
        });
        bulk_wait_read(0);
    }

    /// C = A·B, stored from registers: any C.
    #[device]
    pub fn store_elements<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        products: &Products,
        scales: (&TensorMap, &TensorMap),
        c: &Global<C>,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &impl Epilogue,
    ) {
        self.compute::<A, B>(products, scales, workspace, |tile| {
            tile.apply(epilogue, products);
            let (c, extents) = (products.elements(c, tile.product), products.extents_of(tile.product));
            ElementStore { c, extents, order: self.gemm.c }.store(tile);
        });
    }

    /// Computes this CTA's tiles, and hands each to `finish`. Where tiles are split, their parts meet in `workspace`.
    #[device]
    fn compute<A: WarpgroupInput, B: WarpgroupInput>(
        &self,
        products: &Products,
        (a_scales, b_scales): (&TensorMap, &TensorMap),
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
        let schedule = Schedule::new(cluster, (tile_m, tile_n, BLOCK), raster, products, split);
        if producer.leads() {
            products.prefetch();
            a_scales.prefetch();
            b_scales.prefetch();
        }
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
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
                    for block in piece.first..piece.first + piece.steps {
                        slots.fill([
                            a_ring.load(a, (row, block * BLOCK), cluster.share_a()),
                            b_ring.load(b, (column, block * BLOCK), cluster.share_b()),
                            a_scale_ring.load(a_scales, row, block),
                            b_scale_ring.load(b_scales, column, block),
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
            blocks.sums.iter_mut().for_each(Fragment::clear);
            let leads = consumer.leads_warpgroup();
            for index in 0..schedule.count {
                let piece = schedule.piece(index);
                let (row, column) = schedule.place(piece);
                let (row, column) = (row * tile_m, column * tile_n);
                let at = (row + part * 64, column);
                let mut tile = Finished::new(&totals, (consumer, leads), piece, at, tile.1, 64 * CONSUMERS);
                blocks.add_up(&mut slots, &mut tile, (row, column), piece.steps);
                match &exchange {
                    None => finish(&mut tile),
                    Some(exchange) => {
                        let is_whole = exchange.complete(&schedule, piece, part, &mut tile);
                        if is_whole {
                            finish(&mut tile);
                        }
                    }
                }
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
    /// Leaves in `tile`, which begins at `first`, the scaled sums of the next `count` slots.
    fn add_up(
        &mut self,
        slots: &mut Consumer,
        tile: &mut Finished,
        first: (Reg<u32>, Reg<u32>),
        count: Reg<u32>,
    ) {
        tile.sums.clear();
        if self.sums.len() == 1 {
            for _ in 0..count {
                self.begin(slots, 0);
                self.promote(slots, tile, first, 0, 0);
            }
        } else {
            // The sets take turns: while one is promoted, the next block is multiplied into the other.
            self.begin(slots, 0);
            for _ in 0..(count - 1u32) / 2u32 {
                for set in [1, 0] {
                    self.begin(slots, set);
                    self.promote(slots, tile, first, 1 - set, 1);
                }
            }
            if (count % 2u32).eq(0u32) {
                self.begin(slots, 1);
                self.promote(slots, tile, first, 0, 1);
                self.promote(slots, tile, first, 1, 0);
            } else {
                self.promote(slots, tile, first, 0, 0);
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
        (row, column): (Reg<u32>, Reg<u32>),
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
            let row_scales = [0, 1].map(|half| self.a_scales.get(slot, row, tile.place(index(0, half, 0)).0));
            for first in (0..groups).step_by(run as usize) {
                let (_, at) = tile.place(index(first, 0, 0));
                let scales = self.b_scales.pair(slot, column, at);
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
