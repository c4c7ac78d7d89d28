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

use std::marker::PhantomData;

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::operand::WarpgroupInput;
use super::tiles::Tiles;
use super::{GemmOutput, Order};

/// How the two consumer warpgroups share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumers {
    /// Both compute one tile, half of its rows each.
    Cooperate,
    /// Each computes every other tile.
    Alternate,
}

/// Consumer warpgroups of a CTA.
const CONSUMERS: u32 = 2;

/// Threads of a CTA: a producer warpgroup and the consumers.
pub const THREADS: u32 = 128 * (1 + CONSUMERS);

/// C = A·B; A is (m, k), B is (k, n), C is (m, n) and row-major. `T` is multiplied, `C` stored, `f32` accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopperGemm<T, C> {
    /// The order of A.
    pub a: Order,
    /// The order of B.
    pub b: Order,
    /// The tile of C, and how deep one slot is: (m, n, k).
    pub tile: (i64, i64, i64),
    /// How the consumers share the tiles.
    pub consumers: Consumers,
    /// CTAs of a cluster along m and n.
    pub cluster: (u32, u32),
    /// Slots of the ring.
    pub stages: u32,
    /// Rows of clusters' tiles that are walked together, so that what they share stays in L2.
    pub raster: u32,
    /// What is multiplied and stored.
    pub types: PhantomData<(T, C)>,
}

/// A tile whose sums a consumer has finished.
struct Finished<'a> {
    sums: &'a Fragment<f32>,
    role: Role,
    /// Whether this thread acts for its warpgroup.
    leads: Reg<bool>,
    /// Where the tile begins in C.
    at: (Reg<u32>, Reg<u32>),
}

impl<T: WarpgroupInput, C: GemmOutput> HopperGemm<T, C> {
    /// The tile of A in shared memory.
    pub fn a_tile(&self) -> Result<TmaTile, Error> {
        let major = if self.a == Order::RowMajor { Major::K } else { Major::Mn };
        Ok(TmaTile::new::<T>((self.tile.0, self.tile.2), major)?.sliced(self.cluster.1))
    }

    /// The tile of B in shared memory, as (n, k).
    pub fn b_tile(&self) -> Result<TmaTile, Error> {
        let major = if self.b == Order::ColumnMajor { Major::K } else { Major::Mn };
        Ok(TmaTile::new::<T>((self.tile.1, self.tile.2), major)?.sliced(self.cluster.0))
    }

    /// The piece of C that a warpgroup stores at once.
    pub fn c_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<C>((64, self.piece()), Major::K)
    }

    /// C = A·B, stored by TMA: C's type has 16 bits and its rows are multiples of 16 bytes.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &TensorMap, m: u32, n: u32, k: u32) {
        let buffers = TileRing::<C>::new(self.c_tile(), 2 * CONSUMERS);
        self.compute(a, b, (m, n, k), |tile| self.store_boxes(&buffers, c, tile));
        bulk_wait(0);
    }

    /// C = A·B, stored from registers: any C.
    #[kernel]
    pub fn run_any(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        self.compute(a, b, (m, n, k), |tile| self.store_elements(c, (m, n), tile));
    }

    /// Computes this CTA's tiles, and hands each to `finish`.
    #[device]
    fn compute(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        (m, n, k): (Reg<u32>, Reg<u32>, Reg<u32>),
        finish: impl Fn(&Finished<'_>),
    ) {
        let [producer, consumer] = roles(self.registers());
        let cluster = ClusterGrid::new(self.cluster);
        let (tile_m, tile_n, tile_k) = (self.tile.0 as u32, self.tile.1 as u32, self.tile.2 as u32);
        let together = self.together();
        let a_ring = TileRing::<T>::new(self.a_tile(), self.stages);
        let b_ring = TileRing::<T>::new(self.b_tile(), self.stages);
        let slots = Pipeline::new(self.stages, consumer, together, cluster);
        let tiles = Tiles::new(cluster, (tile_m, tile_n), self.raster, (m, n));
        let steps = (k + (tile_k - 1)) / tile_k;

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut slots = slots.producer();
                for tile in (tiles.first..tiles.count).step_by(tiles.step) {
                    let (row, column) = tiles.place(tile);
                    for step in 0..steps {
                        let a = a_ring.load(a, (row * tile_m, step * tile_k), cluster.share_a());
                        let b = b_ring.load(b, (column * tile_n, step * tile_k), cluster.share_b());
                        slots.fill([a, b]);
                    }
                }
                slots.finish();
            }
        } else {
            consumer.begin();
            let mut slots = slots.consumer();
            let atom = format!("SM90_64x{tile_n}x{}_{}_SS", T::DEPTH, T::TYPES);
            let mma = TiledMma::warpgroups(&atom, together.into());
            // This warpgroup's part of a tile, and its first tile; the others' tiles are skipped.
            let (part, turn) = match self.consumers {
                Consumers::Cooperate => (consumer.warpgroup(), constant(0u32)),
                Consumers::Alternate => (constant(0u32), consumer.warpgroup()),
            };
            let alternate = self.consumers == Consumers::Alternate;
            let a_operand = mma.a_operand(a_ring.tensor(), part);
            let b_operand = mma.b_operand(b_ring.tensor());
            let mut sums: Fragment<f32> =
                mma.thread(consumer.thread() % (together * 128)).c_fragment((self.tile.0, self.tile.1));
            sums.clear();
            let leads = consumer.leads_warpgroup();
            if alternate {
                consumer.begin_turns();
                slots.skip(turn * steps);
            }
            let stride = tiles.step * (CONSUMERS / together);
            for tile in (tiles.first + turn * tiles.step..tiles.count).step_by(stride) {
                if alternate {
                    consumer.wait_turn();
                }
                let slot = slots.wait();
                let at = (All, All, slot);
                multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), false);
                for _ in 1..steps {
                    let slot = slots.wait();
                    let at = (All, All, slot);
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), true);
                    // The batch before this one is done: its slot has been read.
                    wait_multiplications(1);
                    slots.release();
                }
                if alternate {
                    consumer.pass_turn();
                }
                wait_multiplications(0);
                slots.release();
                let (row, column) = tiles.place(tile);
                let at = (row * tile_m + part * 64, column * tile_n);
                finish(&Finished { sums: &sums, role: consumer, leads, at });
                if alternate {
                    slots.skip(steps);
                }
            }
        }
    }

    /// (warpgroups, registers a thread) of the producer and the consumers. Few sums need no more than an equal share.
    fn registers(&self) -> [(u32, u32); 2] {
        let sums = self.tile.0 * self.tile.1 / (128 * i64::from(self.together()));
        if sums <= 128 { [(1, 168), (CONSUMERS, 168)] } else { [(1, 40), (CONSUMERS, 232)] }
    }

    /// Columns of C in one piece of the epilogue: at most the widest swizzle's span of 16-bit elements.
    fn piece(&self) -> i64 {
        if self.tile.1 % 64 == 0 { 64 } else { 32 }
    }

    /// Consumers that compute one tile.
    fn together(&self) -> u32 {
        match self.consumers {
            Consumers::Cooperate => CONSUMERS,
            Consumers::Alternate => 1,
        }
    }

    /// Rows of C between one block of 64 rows of a warpgroup and its next.
    fn block_stride(&self) -> u32 {
        64 * self.together()
    }

    /// Rounds a tile's sums and sends them to C, a piece at a time through two buffers a warpgroup.
    #[device]
    fn store_boxes(&self, buffers: &TileRing<C>, c: &TensorMap, tile: &Finished<'_>) {
        let width = self.piece();
        let mma = TiledMma::warpgroups(&format!("SM90_64x{width}x{}_{}_SS", T::DEPTH, T::TYPES), 1);
        let copy = TiledCopy::from_c::<C>("SM90_U32x4_STSM_N", &mma).thread(tile.role.thread() % 128);
        let first = tile.role.warpgroup() * 2;
        let pieces = self.tile.1 / width;
        let blocks = tile.sums.len() as i64 / (self.tile.1 / 2);
        for index in 0..blocks * pieces {
            let (block, piece) = (index / pieces, index % pieces);
            let stage = first + (index % 2) as u32;
            let sums = tile
                .sums
                .window(width / 2 * (block * pieces + piece), Layout::column_major((width / 2, 1, 1)));
            let rounded: Fragment<C> = sums.packed(C::pair);
            if tile.leads {
                // The store before last has read this buffer.
                bulk_wait_read(1);
            }
            tile.role.sync_warpgroup();
            let target = copy.target(&buffers.tensor().slice((All, All, stage)));
            copy.store_matrix(&target, &copy.retile(&rounded));
            fence_proxy_async_shared();
            tile.role.sync_warpgroup();
            if tile.leads {
                let row = tile.at.0 + block as u32 * self.block_stride();
                buffers.store(c, (row, tile.at.1 + (piece * width) as u32), stage);
                bulk_commit();
            }
        }
    }

    /// Writes a tile's sums to C, each thread its own, where they are inside.
    #[device]
    fn store_elements(&self, c: &Global<C>, (m, n): (Reg<u32>, Reg<u32>), tile: &Finished<'_>) {
        let lane = tile.role.thread() % 128;
        // Each warp has 16 rows, of which a lane has two: lane/4 and 8 below; and of every 8 columns the pair at 2*(lane%4).
        let row = tile.at.0 + lane / 32 * 16 + lane % 32 / 4;
        let column = tile.at.1 + lane % 4 * 2;
        let c = Tensor::with_layout(*c, Layout::new((m, n), (n, 1)));
        let values = self.tile.1 / 2;
        for index in 0..tile.sums.len() as i64 {
            let (block, value) = (index / values, index % values);
            let row = row + (block as u32 * self.block_stride() + (value as u32 / 2) % 2 * 8);
            let column = column + (value as u32 / 4 * 8 + value as u32 % 2);
            if row < m && column < n {
                c.set((row, column), C::of(tile.sums.get(index)));
            }
        }
    }
}
