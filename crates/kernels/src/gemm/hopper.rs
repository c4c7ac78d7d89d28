//! GEMM on Hopper's tensor cores: C = A·B by TMA, mbarriers and `wgmma`, with roles for the warps.
//!
//! ```text
//! C (m, n)                a cluster: 2 x 1 CTAs             a CTA: a tile of 128 x 256, cooperating consumers
//! +----+----+             +--------+                        +--------+
//! |    |    |     ->      | CTA 0  |  both need the         | cons 0 |  64 x 256: 128 f32 sums a thread
//! +----+----+             +--------+  same columns of B:    +--------+
//! |    |    |             | CTA 1  |  each loads half       | cons 1 |
//! +----+----+             +--------+  and sends it to both  +--------+
//!
//! producer (1 thread)    TMA: A (128, 64) and B (256, 64) into the next slot of the ring
//! consumers              wgmma: sums += A B from the oldest slot; the slot before it has been read and is released
//!                        then round, `stmatrix` to shared memory, TMA to C, while the producer fills slots for the next tile
//! ```
//!
//! Consumers that take turns (`Consumers::Alternate`, "pingpong") compute a tile each: one stores while the other multiplies.

use serde::{Deserialize, Serialize};
use warpwright::layout::Error;
use warpwright::prelude::*;

use super::epilogue::Epilogue;
use super::kinds::Nothing;
use super::operand::{WarpgroupInput, warpgroup_atom};
use super::products::Products;
use super::schedule::Schedule;
use super::split::Exchange;
use super::store::{BoxStore, Finished};
use super::warpgroups::WarpgroupGemm;
use super::{GemmOutput, Order};

/// How the two consumer warpgroups share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Consumers {
    /// Both compute one tile, half of its rows each.
    Cooperate,
    /// Each computes every other tile.
    Alternate,
}

/// Consumer warpgroups of a CTA.
pub(super) const CONSUMERS: u32 = 2;

/// Threads of a CTA: a producer warpgroup and the consumers.
pub const THREADS: u32 = 128 * (1 + CONSUMERS);

/// C = A·B; A is (m, k), B is (k, n), C is (m, n). The sums are `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopperGemm {
    /// The order of A.
    pub a: Order,
    /// The order of B.
    pub b: Order,
    /// The order of C.
    pub c: Order,
    /// The tile of C, and how deep one slot is: (m, n, k).
    pub tile: (u32, u32, u32),
    /// How the consumers share the tiles.
    pub consumers: Consumers,
    /// CTAs of a cluster along m and n.
    pub cluster: (u32, u32),
    /// Slots of the ring.
    pub stages: u32,
    /// Rows of clusters' tiles that are walked together, so that what they share stays in L2.
    pub raster: u32,
    /// Whether tiles of the last rounds are split along k, so that all SMs have the same work.
    pub split: bool,
}

impl HopperGemm {
    /// The tile of A in shared memory.
    pub fn a_tile<T: WarpgroupInput>(&self) -> Result<TmaTile, Error> {
        let major = if self.a == Order::RowMajor { Major::K } else { Major::Mn };
        Ok(TmaTile::new::<T>((self.tile.0, self.tile.2), major)?.sliced(self.cluster.1))
    }

    /// The tile of B in shared memory, as (n, k).
    pub fn b_tile<T: WarpgroupInput>(&self) -> Result<TmaTile, Error> {
        let major = if self.b == Order::ColumnMajor { Major::K } else { Major::Mn };
        Ok(TmaTile::new::<T>((self.tile.1, self.tile.2), major)?.sliced(self.cluster.0))
    }

    /// The piece of C that a warpgroup stores at once.
    pub fn c_tile<C: GemmOutput>(&self) -> Result<TmaTile, Error> {
        BoxStore::<C>::piece(self.tile.1, self.c)
    }

    /// C = A·B, each sum through an epilogue, stored by TMA, which C's contiguous extent must be a multiple of 16 bytes for.
    #[device]
    pub fn store_boxes<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        products: &Products,
        c: &TensorMap,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &impl Epilogue,
    ) {
        let through = |tile: &mut Finished| tile.apply(epilogue, products);
        self.into_boxes::<A, B, C>((products, Nothing), (c, None), workspace, through);
    }

    /// Consumers that compute one tile.
    fn together(&self) -> u32 {
        match self.consumers {
            Consumers::Cooperate => CONSUMERS,
            Consumers::Alternate => 1,
        }
    }
}

#[device]
impl WarpgroupGemm for HopperGemm {
    type Scales = Nothing;

    fn frame(&self) -> &HopperGemm {
        self
    }

    fn compute<A: WarpgroupInput, B: WarpgroupInput>(
        &self,
        products: &Products,
        _: Nothing,
        workspace: (&Global<f32>, &Global<u32>),
        finish: impl Fn(&mut Finished),
    ) {
        let (tile_m, tile_n, tile_k) = self.tile;
        let together = self.together();
        let [producer, consumer] = roles(role_sizes(tile_m * tile_n / (128 * together)));
        let cluster = ClusterGrid::new(self.cluster);
        let mut stages = Pipeline::stages(self.stages);
        let a_tiles = stages.operand::<A>(self.a_tile::<A>());
        let b_tiles = stages.operand::<B>(self.b_tile::<B>());
        let sharing = match self.consumers {
            Consumers::Cooperate => ConsumerSchedule::Cooperative,
            Consumers::Alternate => ConsumerSchedule::Pingpong,
        };
        let pipeline = stages.connect(consumer, sharing, cluster);
        let mut schedule = Schedule::new(cluster, self.tile, self.raster, products, self.split);
        if producer.leads() {
            products.prefetch(&[]);
        }
        // All this ran beside the end of the kernel before; from here on, that one's results are there.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        schedule.count_tiles();
        let exchange = self.split.then(|| Exchange::new(workspace, CONSUMERS, together, cluster));

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for index in 0..schedule.count {
                    let piece = schedule.piece(index);
                    let (row, column) = schedule.place(piece);
                    let (a, b) = products.factors(piece.product);
                    for step in piece.first..piece.first + piece.steps {
                        let a = a_tiles.load(a, (row * tile_m, step * tile_k), cluster.multicast_a());
                        let b = b_tiles.load(b, (column * tile_n, step * tile_k), cluster.multicast_b());
                        pipeline.load([a, b]);
                    }
                }
                pipeline.tail();
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups(&warpgroup_atom::<A, B>(tile_n), together);
            // This warpgroup's part of a tile, and its first piece; the others' pieces are skipped.
            let alternate = self.consumers == Consumers::Alternate;
            let (part, turn) = match self.consumers {
                Consumers::Cooperate => (consumer.warpgroup(), constant(0u32)),
                Consumers::Alternate => (constant(0u32), consumer.warpgroup()),
            };
            let a_operand = mma.a_operand(a_tiles.tensor(), part);
            let b_operand = mma.b_operand(b_tiles.tensor());
            let thread = mma.thread(consumer.thread() % (together * 128));
            let mut sums: Fragment<f32> = thread.c_fragment((tile_m, tile_n));
            sums.clear();
            let leads = consumer.leads_warpgroup();
            if alternate {
                consumer.begin_turns();
                pipeline.skip(turn * schedule.piece(constant(0u32)).steps);
            }
            for index in (turn..schedule.count).step_by(CONSUMERS / together) {
                let piece = schedule.piece(index);
                if alternate {
                    consumer.wait_turn();
                }
                let at = (All, All, pipeline.wait());
                multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::No);
                for _ in 1..piece.steps {
                    let at = (All, All, pipeline.wait());
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                    // The batch before this one is done: its slot has been read.
                    wait_multiplications(1);
                    pipeline.release();
                }
                if alternate {
                    consumer.pass_turn();
                }
                wait_multiplications(0);
                pipeline.release();
                let (row, column) = schedule.place(piece);
                let at = (row * tile_m + part * 64, column * tile_n);
                let mut tile = Finished::new(&sums, (consumer, leads), piece, at, self.tile.1, 64 * together);
                Exchange::finish(exchange.as_ref(), (&schedule, piece, part), &mut tile, &finish);
                if alternate {
                    pipeline.skip(schedule.piece(index + 1u32).steps);
                }
            }
        }
    }
}

/// The producer and the consumers. With at most 128 accumulator registers per thread, an equal share is enough.
pub(super) fn role_sizes(accumulators: u32) -> [RoleSize; 2] {
    let (producer, consumer) = (warpgroups(1), warpgroups(CONSUMERS));
    if accumulators <= 128 { [producer, consumer] } else { [producer.registers(40), consumer.registers(232)] }
}
