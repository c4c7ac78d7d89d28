//! Lesson 5: a tile of 128 x 256 for two consumer warpgroups, and registers moved to them.
//!
//! ```text
//! a CTA: three warpgroups           C's tile (128, 256)
//! producer   40 registers per thread  +----------------+
//! consumer 0  232                   | 0              |  64 x 256: m64n256k16, 128 f32 accumulators per thread
//! consumer 1  232                   +----------------+
//!                                   | 1              |
//!                                   +----------------+
//! ```
//!
//! The larger the tile, the fewer bytes are read per product: 128 x 256 reads three quarters of
//! what 128 x 128 does. One warpgroup cannot hold its 32,768 accumulators, but two can, and both
//! read the same tile of B. The launch gives each of the 384 threads an equal share of the 65,536
//! registers, 168. The producer releases most of its registers (`setmaxnreg.dec`), and the
//! consumers acquire them (`.inc`): 40 + 2 * 232 = 3 * 168.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `two-consumers` 562 TFLOP/s, 79.0 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::{DEPTH, SharedTiles, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

/// Rows and columns of the tile.
pub const TILE: (u32, u32) = (128, 256);

/// Stages of the queue: four of 48 KiB.
pub(super) const STAGES: u32 = 4;

/// Consumer warpgroups.
pub(super) const WARPGROUPS: u32 = 2;

/// Threads per CTA.
pub const THREADS: u32 = 128 * (1 + WARPGROUPS);

/// Registers per thread of the producer and of the consumers.
pub(super) const REGISTERS: (u32, u32) = (40, 232);

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct TwoConsumers<C> {
    /// Data type of C.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> TwoConsumers<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major. The grid has one CTA per tile, row by
    /// row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        launch::blocks_per_sm(1);
        let (tile_m, tile_n) = TILE;
        // A launch refuses tensor maps of other boxes.
        a.boxes(tile(tile_m));
        b.boxes(tile(tile_n));
        let (a_tiles, b_tiles) = (SharedTiles::new(tile_m, STAGES), SharedTiles::new(tile_n, STAGES));
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;
        // The shuffle makes the value warp-uniform for the compiler, so descriptors stay in uniform
        // registers.
        let warpgroup = (thread_idx().x / 128).shuffle(0);

        if thread_idx().x == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(128 * WARPGROUPS + 1);
            }
            fence_mbarrier_init();
        }
        sync_threads();

        let mut stage = constant(0u32);
        if warpgroup == 0 {
            decrease_registers(REGISTERS.0);
            if thread_idx().x == 0 {
                for k_block in 0..k_blocks {
                    let (full, empty) = (full.at(stage), empty.at(stage));
                    empty.wait(empty.arrive());
                    full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
                    tma::load(*a, [k_block * DEPTH, row], a_tiles.at(stage), full);
                    tma::load(*b, [k_block * DEPTH, column], b_tiles.at(stage), full);
                    stage = (stage + 1) % STAGES;
                }
            }
        } else {
            increase_registers(REGISTERS.1);
            let consumer = warpgroup - 1;
            let thread = thread_idx().x % 128;
            let mma = TiledMma::warpgroups(wgmma(tile_n), WARPGROUPS);
            let a_operand = mma.a_operand(a_tiles.tensor(), consumer);
            let b_operand = mma.b_operand(b_tiles.tensor());
            let mut accumulators: Fragment<f32> =
                mma.thread(thread_idx().x - 128).c_fragment((tile_m, tile_n));
            accumulators.clear();
            for empty in empty.iter() {
                empty.arrive();
            }
            for _ in 0..k_blocks {
                let full = full.at(stage);
                full.wait(full.arrive());
                let at = (All, All, stage);
                multiply(
                    &mma,
                    &mut accumulators,
                    &a_operand.slice(at),
                    &b_operand.slice(at),
                    Accumulate::Yes,
                );
                wait_multiplications(0);
                empty.at(stage).arrive();
                stage = (stage + 1) % STAGES;
            }
            store_elements(c, (m, n), &accumulators, tile_n, thread, (row + consumer * 64, column));
        }
    }
}
