//! Lessons 2 and 3: one tile of C per CTA, with TMA and `wgmma`. First 64 x 64, then 128 x 128.
//!
//! ```text
//! C (m, n)             a CTA: 128 threads, one warpgroup         a step of 64 along k
//! +----+----+----+     A (64, 64) and B (64, 64) by TMA          wgmma m64n64k16   k  0..16
//! |    |CTA |    |     for each 64 rows of A: four wgmma    ->   wgmma m64n64k16   k 16..32
//! +----+----+----+     accumulators: 32 f32 a thread             wgmma m64n64k16   k 32..48
//! |    |    |    |                                               wgmma m64n64k16   k 48..64
//! +----+----+----+
//! ```
//!
//! `wgmma` is an instruction of a warpgroup: four warps together multiply a 64 x 16 tile of A by a
//! 16 x n tile of B. Both stay in shared memory, where *matrix descriptors* locate them. The
//! accumulators are in registers, and the instruction is asynchronous. `multiply` issues one batch:
//! `wgmma.fence`, the instructions for all of k, and `wgmma.commit_group`.
//!
//! Nothing overlaps inside a CTA: the tensor cores wait for TMA, and TMA waits for the tensor
//! cores. Only the other CTAs of the SM hide the latency. A tile of 128 x 128 reads half as many
//! bytes per product as one of 64 x 64; that is the gain.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `one-tile` 299 TFLOP/s, 41.4 % of cublas; `wide-tile` 521 TFLOP/s, 71.9 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::{DEPTH, SharedTiles, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

/// Threads of a CTA: one warpgroup.
pub const THREADS: u32 = 128;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct OneTile<C> {
    /// Rows (a multiple of 64) and columns of the tile.
    pub tile: (u32, u32),
    /// Data type of C.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> OneTile<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major. The grid has one CTA per tile, row by
    /// row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (tile_m, tile_n) = self.tile;
        // A launch refuses tensor maps of other boxes.
        a.boxes(tile(tile_m));
        b.boxes(tile(tile_n));
        let (a_tile, b_tile) = (SharedTiles::new(tile_m, 1), SharedTiles::new(tile_n, 1));
        let full = Mbarrier::new();
        let thread = thread_idx().x;
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);

        if thread == 0 {
            full.init(1);
            // Makes the barrier visible to TMA; `sync_threads` makes it visible to the other
            // threads.
            fence_mbarrier_init();
        }
        sync_threads();

        let mma = TiledMma::warpgroups(wgmma(tile_n), 1);
        let a_operand = mma.a_operand(a_tile.tensor(), 0).slice((All, All, 0));
        let b_operand = mma.b_operand(b_tile.tensor()).slice((All, All, 0));
        let mut accumulators: Fragment<f32> = mma.thread(thread).c_fragment((tile_m, tile_n));
        accumulators.clear();
        // ANCHOR: loop
        for k_block in 0..(k + (DEPTH - 1)) / DEPTH {
            if thread == 0 {
                full.arrive_and_expect(a_tile.bytes() + b_tile.bytes());
                tma::load(*a, [k_block * DEPTH, row], a_tile.at(0), full);
                tma::load(*b, [k_block * DEPTH, column], b_tile.at(0), full);
            }
            // Each k-block is one phase of the barrier, so they have the same parity.
            full.wait_parity(k_block % 2);
            multiply(&mma, &mut accumulators, &a_operand, &b_operand, Accumulate::Yes);
            wait_multiplications(0);
            // The next load must not overwrite what another warp's `wgmma` still reads.
            sync_threads();
        }
        // ANCHOR_END: loop
        store_elements(c, (m, n), &accumulators, tile_n, thread, (row, column));
    }
}

/// Stores a warpgroup's accumulators to C. Each thread stores its own elements that are in bounds.
///
/// ```text
/// of 64 rows, warp w has 16 w .. 16 w + 16; lane l of it rows l/4 and l/4 + 8, and of every 8 columns the pair at 2 (l % 4)
///
///   value 0 1   row l/4      columns 2 (l % 4), + 1          value 4 5 6 7: the same, 8 columns further on
///   value 2 3   row l/4 + 8  columns 2 (l % 4), + 1
/// ```
///
/// A warp therefore writes 8 rows of 16 bytes at a time: half of each 32-byte sector. Lesson 10
/// does better.
#[device]
pub(super) fn store_elements<C: GemmOutput>(
    c: &Global<C>,
    (m, n): (Reg<u32>, Reg<u32>),
    accumulators: &Fragment<f32>,
    tile_n: u32,
    thread: Reg<u32>,
    (row, column): (Reg<u32>, Reg<u32>),
) {
    let (warp, lane) = (thread / 32, thread % 32);
    let (row, column) = (row + warp * 16 + lane / 4, column + lane % 4 * 2);
    let c = Tensor::with_layout(*c, Layout::new((m, n), (n, 1)));
    for index in 0..accumulators.len() as u32 {
        let (block, value) = (index / (tile_n / 2), index % (tile_n / 2));
        let row = row + (block * 64 + value / 2 % 2 * 8);
        let column = column + (value / 4 * 8 + value % 2);
        if row < m && column < n {
            c.set((row, column), C::of(accumulators.get(i64::from(index))));
        }
    }
}
