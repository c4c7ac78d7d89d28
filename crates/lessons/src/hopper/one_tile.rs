//! Lessons 2 and 3: one tile of C a CTA, by TMA and `wgmma`. First 64 x 64, then 128 x 128.
//!
//! ```text
//! C (m, n)             a CTA: 128 threads, one warpgroup         a step of 64 along k
//! +----+----+----+     A (64, 64) and B (64, 64) by TMA          wgmma m64n64k16   k  0..16
//! |    |CTA |    |     for each 64 rows of A: four wgmma    ->   wgmma m64n64k16   k 16..32
//! +----+----+----+     sums: 32 f32 a thread                     wgmma m64n64k16   k 32..48
//! |    |    |    |                                               wgmma m64n64k16   k 48..64
//! +----+----+----+
//! ```
//!
//! `wgmma` is a warpgroup's instruction: four warps together multiply a 64 x 16 piece of A by a 16
//! x n piece of B. Both stay in shared memory, where *matrix descriptors* say they are; the sums
//! are in registers, and the instruction returns before it is done. `multiply` makes one batch of
//! it: `wgmma.fence`, the instructions of all k-steps, `wgmma.commit_group`.
//!
//! Everything here waits for everything else: the tensor cores for TMA, TMA for the tensor cores.
//! What hides it is the other CTAs of the SM. A tile of 128 x 128 reads half as many bytes for each
//! product as one of 64 x 64 does, and that is what it wins.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `one-tile` 299 TFLOP/s, 41.4
//! % of cublas; `wide-tile` 521 TFLOP/s, 71.9 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::{DEPTH, SharedTiles, wgmma};
use warpwright_kernels::gemm::GemmOutput;

/// Threads of a CTA: one warpgroup.
pub const THREADS: u32 = 128;

/// C = A·Bᵀ, a tile a CTA.
#[derive(Clone, Copy, Debug)]
pub struct OneTile<C> {
    /// The tile's rows, a multiple of 64, and columns.
    pub tile: (u32, u32),
    /// What C is stored as.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> OneTile<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; the grid has a CTA for each tile, row
    /// by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (high, wide) = self.tile;
        let (a_tile, b_tile) = (SharedTiles::new(high, 1), SharedTiles::new(wide, 1));
        let full = Mbarrier::new();
        let thread = thread_idx().x;
        let columns = (n + (wide - 1)) / wide;
        let (row, column) = (block_idx().x / columns * high, block_idx().x % columns * wide);

        if thread == 0 {
            full.init(1);
            // Makes the barrier known to TMA; the other threads learn of it at the barrier below.
            fence_mbarrier_init();
        }
        sync_threads();

        let mma = TiledMma::warpgroups(wgmma(wide), 1);
        let a_operand = mma.a_operand(a_tile.tensor(), 0).slice((All, All, 0));
        let b_operand = mma.b_operand(b_tile.tensor()).slice((All, All, 0));
        let mut sums: Fragment<f32> = mma.thread(thread).c_fragment((high, wide));
        sums.clear();
        for step in 0..(k + (DEPTH - 1)) / DEPTH {
            if thread == 0 {
                full.arrive_and_expect(a_tile.bytes() + b_tile.bytes());
                tma::load(*a, [step * DEPTH, row], a_tile.at(0), full);
                tma::load(*b, [step * DEPTH, column], b_tile.at(0), full);
            }
            // A phase of the barrier is a step: their parities are the same.
            full.wait_parity(step % 2);
            multiply(&mma, &mut sums, &a_operand, &b_operand, Accumulate::Yes);
            wait_multiplications(0);
            // No load overwrites what a warp's part of `wgmma` has still to read.
            sync_threads();
        }
        store_elements(c, (m, n), &sums, wide, thread, (row, column));
    }
}

/// Writes a warpgroup's sums to C, each thread its own, where they are inside.
///
/// ```text
/// of 64 rows, warp w has 16 w .. 16 w + 16; lane l of it rows l/4 and l/4 + 8, and of every 8 columns the pair at 2 (l % 4)
///
///   value 0 1   row l/4      columns 2 (l % 4), + 1          value 4 5 6 7: the same, 8 columns further on
///   value 2 3   row l/4 + 8  columns 2 (l % 4), + 1
/// ```
///
/// So a warp writes 8 rows of 16 bytes at a time: half of each 32-byte sector that memory moves.
/// Lesson 10 does better.
#[device]
pub(super) fn store_elements<C: GemmOutput>(
    c: &Global<C>,
    (m, n): (Reg<u32>, Reg<u32>),
    sums: &Fragment<f32>,
    wide: u32,
    thread: Reg<u32>,
    (row, column): (Reg<u32>, Reg<u32>),
) {
    let (warp, lane) = (thread / 32, thread % 32);
    let (row, column) = (row + warp * 16 + lane / 4, column + lane % 4 * 2);
    let c = Tensor::with_layout(*c, Layout::new((m, n), (n, 1)));
    for index in 0..sums.len() as u32 {
        let (block, value) = (index / (wide / 2), index % (wide / 2));
        let row = row + (block * 64 + value / 2 % 2 * 8);
        let column = column + (value / 4 * 8 + value % 2);
        if row < m && column < n {
            c.set((row, column), C::of(sums.get(i64::from(index))));
        }
    }
}
