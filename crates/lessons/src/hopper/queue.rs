//! Lesson 4: a queue of five tiles between a producer and a consumer.
//!
//! ```text
//! slot           0      1      2      3      4
//! producer    ...........................>fill      one thread: waits until a slot is empty, starts its copies, goes on
//! consumer    read>                                 128 threads: wait until it is full, multiply, say that it is empty
//! ```
//!
//! Until now one warpgroup did both, and the tensor cores stood still while a tile was on its way.
//! Now TMA runs up to five tiles ahead. Each slot has two barriers, for two questions: `full` (may
//! I read it?) and `empty` (may I overwrite it?). Here every thread that takes part arrives at both
//! and waits for the phase that it arrived in, as `arrive` and `wait` of C++'s `barrier` do: 129
//! arrivals a phase. That is easily understood, and costs; lesson 7 does with three.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `queue` 477 TFLOP/s, 67.3 %
//! of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::{DEPTH, SharedTiles, wgmma};
use warpwright_kernels::gemm::GemmOutput;

/// The tile's rows and columns.
pub const TILE: (u32, u32) = (128, 128);

/// Slots of the queue: five of 32 KiB.
const STAGES: u32 = 5;

/// Threads that multiply, one warpgroup; those of a second one, of which one thread works, start
/// the copies.
const CONSUMERS: u32 = 128;

/// Threads of a CTA.
pub const THREADS: u32 = 128 + CONSUMERS;

/// C = A·Bᵀ, a tile a CTA.
#[derive(Clone, Copy, Debug)]
pub struct Queue<C> {
    /// What C is stored as.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> Queue<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; the grid has a CTA for each tile, row
    /// by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (high, wide) = TILE;
        let (a_tiles, b_tiles) = (SharedTiles::new(high, STAGES), SharedTiles::new(wide, STAGES));
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        let columns = (n + (wide - 1)) / wide;
        let (row, column) = (block_idx().x / columns * high, block_idx().x % columns * wide);
        let steps = (k + (DEPTH - 1)) / DEPTH;

        if thread_idx().x == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(CONSUMERS + 1);
            }
            fence_mbarrier_init();
        }
        sync_threads();

        let mut slot = constant(0u32);
        if thread_idx().x < 128 {
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
            let thread = thread_idx().x - 128;
            let mma = TiledMma::warpgroups(wgmma(wide), 1);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), 0), mma.b_operand(b_tiles.tensor()));
            let mut sums: Fragment<f32> = mma.thread(thread).c_fragment((high, wide));
            sums.clear();
            // In the beginning all slots are empty.
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
            store_elements(c, (m, n), &sums, wide, thread, (row, column));
        }
    }
}
