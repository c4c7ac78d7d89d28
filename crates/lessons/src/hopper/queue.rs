//! Lesson 4: a queue of five stages between a producer and a consumer.
//!
//! ```text
//! stage          0      1      2      3      4
//! producer    ...........................>fill      one thread: waits until a stage is empty, starts its copies, continues
//! consumer    read>                                 128 threads: wait until it is full, multiply, say that it is empty
//! ```
//!
//! So far one warpgroup did both, and the tensor cores idled while a tile was loaded. Now TMA runs
//! up to five tiles ahead. Each stage has two barriers: `full` (the consumer may read it) and
//! `empty` (the producer may overwrite it). Every participating thread arrives at both barriers and
//! waits for the phase in which it arrived, like `arrive` and `wait` of C++'s `barrier`: 129
//! arrivals per phase. This is easy to understand but slow; lesson 7 needs three arrivals.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `queue` 477 TFLOP/s, 67.3 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::{DEPTH, SharedTiles, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

/// Rows and columns of the tile.
pub const TILE: (u32, u32) = (128, 128);

/// Stages of the queue: five of 32 KiB.
const STAGES: u32 = 5;

/// Threads of the consumer warpgroup. In the producer warpgroup, one thread issues the copies.
const CONSUMERS: u32 = 128;

/// Threads per CTA.
pub const THREADS: u32 = 128 + CONSUMERS;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct Queue<C> {
    /// Data type of C.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> Queue<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major. The grid has one CTA per tile, row by
    /// row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (tile_m, tile_n) = TILE;
        // A launch refuses tensor maps of other boxes.
        a.boxes(tile(tile_m));
        b.boxes(tile(tile_n));
        let (a_tiles, b_tiles) = (SharedTiles::new(tile_m, STAGES), SharedTiles::new(tile_n, STAGES));
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;

        if thread_idx().x == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(CONSUMERS + 1);
            }
            fence_mbarrier_init();
        }
        sync_threads();

        let mut stage = constant(0u32);
        if thread_idx().x < 128 {
            if thread_idx().x == 0 {
                // ANCHOR: producer
                for k_block in 0..k_blocks {
                    let (full, empty) = (full.at(stage), empty.at(stage));
                    empty.wait(empty.arrive());
                    full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
                    tma::load(*a, [k_block * DEPTH, row], a_tiles.at(stage), full);
                    tma::load(*b, [k_block * DEPTH, column], b_tiles.at(stage), full);
                    stage = (stage + 1) % STAGES;
                }
                // ANCHOR_END: producer
            }
        } else {
            let thread = thread_idx().x - 128;
            let mma = TiledMma::warpgroups(wgmma(tile_n), 1);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), 0), mma.b_operand(b_tiles.tensor()));
            let mut accumulators: Fragment<f32> = mma.thread(thread).c_fragment((tile_m, tile_n));
            accumulators.clear();
            // Initially all stages are empty.
            for empty in empty.iter() {
                empty.arrive();
            }
            // ANCHOR: consumer
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
            // ANCHOR_END: consumer
            store_elements(c, (m, n), &accumulators, tile_n, thread, (row, column));
        }
    }
}
