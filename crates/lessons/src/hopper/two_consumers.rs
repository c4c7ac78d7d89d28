//! Lesson 5: a tile of 128 x 256 for two consumer warpgroups, and registers moved to those that
//! need them.
//!
//! ```text
//! a CTA: three warpgroups           C's tile (128, 256)
//! producer   40 registers a thread  +----------------+
//! consumer 0  232                   | 0              |  64 x 256: m64n256k16, 128 f32 sums a thread
//! consumer 1  232                   +----------------+
//!                                   | 1              |
//!                                   +----------------+
//! ```
//!
//! The larger the tile, the fewer bytes each product reads: 128 x 256 reads three quarters of what
//! 128 x 128 does. One warpgroup cannot hold its 32,768 sums, two can, and both read the same tile
//! of B. The launch gives all 384 threads an equal share of the 65,536 registers:
//! 168. The producer gives most of its own back (`setmaxnreg.dec`), the consumers take them
//!      (`.inc`): 40 + 2 * 232 = 3 * 168.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `two-consumers` 562 TFLOP/s,
//! 79.0 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::{DEPTH, SharedTiles, wgmma};
use warpwright_kernels::gemm::GemmOutput;

/// The tile's rows and columns.
pub const TILE: (u32, u32) = (128, 256);

/// Slots of the queue: four of 48 KiB.
pub(super) const STAGES: u32 = 4;

/// Consumer warpgroups.
pub(super) const WARPGROUPS: u32 = 2;

/// Threads of a CTA.
pub const THREADS: u32 = 128 * (1 + WARPGROUPS);

/// Registers of a producer's and of a consumer's thread.
pub(super) const REGISTERS: (u32, u32) = (40, 232);

/// C = A·Bᵀ, a tile a CTA.
#[derive(Clone, Copy, Debug)]
pub struct TwoConsumers<C> {
    /// What C is stored as.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> TwoConsumers<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; the grid has a CTA for each tile, row
    /// by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        launch::blocks_per_sm(1);
        let (high, wide) = TILE;
        let (a_tiles, b_tiles) = (SharedTiles::new(high, STAGES), SharedTiles::new(wide, STAGES));
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        let columns = (n + (wide - 1)) / wide;
        let (row, column) = (block_idx().x / columns * high, block_idx().x % columns * wide);
        let steps = (k + (DEPTH - 1)) / DEPTH;
        // The shuffle tells the compiler that all lanes have the same number: descriptors then stay
        // in uniform registers.
        let warpgroup = (thread_idx().x / 128).shuffle(0);

        if thread_idx().x == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(128 * WARPGROUPS + 1);
            }
            fence_mbarrier_init();
        }
        sync_threads();

        let mut slot = constant(0u32);
        if warpgroup == 0 {
            decrease_registers(REGISTERS.0);
            if thread_idx().x == 0 {
                for step in 0..steps {
                    let (full, empty) = (full.at(slot), empty.at(slot));
                    empty.wait(empty.arrive());
                    full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
                    tma::load(*a, [step * DEPTH, row], a_tiles.at(slot), full);
                    tma::load(*b, [step * DEPTH, column], b_tiles.at(slot), full);
                    slot = (slot + 1) % STAGES;
                }
            }
        } else {
            increase_registers(REGISTERS.1);
            let part = warpgroup - 1;
            let thread = thread_idx().x % 128;
            let mma = TiledMma::warpgroups(wgmma(wide), WARPGROUPS);
            let a_operand = mma.a_operand(a_tiles.tensor(), part);
            let b_operand = mma.b_operand(b_tiles.tensor());
            let mut sums: Fragment<f32> = mma.thread(thread_idx().x - 128).c_fragment((high, wide));
            sums.clear();
            for empty in empty.iter() {
                empty.arrive();
            }
            for _ in 0..steps {
                let full = full.at(slot);
                full.wait(full.arrive());
                let at = (All, All, slot);
                multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                wait_multiplications(0);
                empty.at(slot).arrive();
                slot = (slot + 1) % STAGES;
            }
            store_elements(c, (m, n), &sums, wide, thread, (row + part * 64, column));
        }
    }
}
