//! Version 4: one warp loads, another multiplies.
//!
//! ```text
//! warp 0, one thread:  wait empty -> expect, load A and B -> full      the next stage
//! warp 1, one thread:  wait full  -> tcgen05.mma, commit -> empty      the next stage
//! all four warps:      wait done  -> tcgen05.ld -> C
//! ```
//!
//! The thread that multiplies no longer waits for its MMAs: it commits them to the barrier `empty`
//! of their stage and issues the next ones, so MMAs queue in the tensor core. The thread that loads
//! waits for that barrier before it overwrites the stage. Both loops are the same sequence of
//! stages and parities, one as the producer and one as the consumer.
//!
//! A barrier of the CTA does not say that MMAs are complete, only that they are issued. A last
//! commit, to `done`, does.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::{DEPTH, SharedTiles, mma, store_row, tile};
use warpwright_kernels::gemm::GemmOutput;

pub use super::scalar::THREADS;

/// The tile of C that a CTA computes: with half of the columns, more stages fit.
pub(super) const TILE: (u32, u32) = (128, 128);

/// Stages, of 32 KiB each.
const STAGES: u32 = 7;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct Specialized<T> {
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> Specialized<T> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8. The grid
    /// has one CTA per tile, row by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<T>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (tile_m, tile_n) = TILE;
        // A launch refuses tensor maps of other boxes.
        a.boxes(tile::<T>(tile_m, DEPTH));
        b.boxes(tile::<T>(tile_n, DEPTH));
        let a_tiles = SharedTiles::<T>::new(tile::<T>(tile_m, DEPTH), STAGES);
        let b_tiles = SharedTiles::<T>::new(tile::<T>(tile_n, DEPTH), STAGES);
        let (full, empty, done) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES), Mbarrier::new());
        let holder = shared_array::<u32>(1);
        let thread = thread_idx().x;
        let warp = (thread / 32).shuffle(0);
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;

        if thread == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(1);
            }
            done.init(1);
            fence_mbarrier_init();
        }
        if warp == 1 {
            allocate_tensor_memory(CtaGroup::One, tile_n, holder);
        }
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let product = TensorMemory::at(holder);

        if warp == 0 {
            if elect(ALL_LANES) {
                for k_block in 0..k_blocks {
                    let (stage, parity) = (k_block % STAGES, k_block / STAGES % 2);
                    let full = full.at(stage);
                    // The first wait of a stage returns at once: no phase has begun.
                    empty.at(stage).wait_parity(parity ^ 1);
                    full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
                    tma::load(*a, [k_block * DEPTH, row], a_tiles.at(stage), full);
                    tma::load(*b, [k_block * DEPTH, column], b_tiles.at(stage), full);
                }
            }
        } else if warp == 1 {
            if elect(ALL_LANES) {
                let mma = mma::<T>(CtaGroup::One, tile_n);
                let (a_operand, b_operand) =
                    (mma.a_operand(a_tiles.tensor()), mma.b_operand(b_tiles.tensor()));
                for k_block in 0..k_blocks {
                    let (stage, parity) = (k_block % STAGES, k_block / STAGES % 2);
                    full.at(stage).wait_parity(parity);
                    let at = (All, All, stage);
                    let accumulate = Accumulate::If(k_block.ne(0));
                    mma.issue(product, &a_operand.slice(at), &b_operand.slice(at), accumulate);
                    commit_tensor_core(CtaGroup::One, empty.at(stage));
                }
                commit_tensor_core(CtaGroup::One, done);
            }
        }

        done.wait_parity(0);
        tensor_fence_after_sync();
        store_row(c, (m, n), product.row(warp * 32), (row + thread, column), tile_n);

        tensor_fence_before_sync();
        sync_threads();
        if warp == 1 {
            product.free(CtaGroup::One, tile_n);
        }
    }
}
