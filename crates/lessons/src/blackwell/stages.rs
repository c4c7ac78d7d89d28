//! Version 3: two stages, so that TMA loads while the tensor core multiplies.
//!
//! ```text
//! k-block      0    1    2    3    4
//! loads        S0   S1   S0   S1   S0 ..            one k-block ahead
//! multiplies   S0   S1   S0 ..                      one at a time; its stage is then loaded again
//! ```
//!
//! A stage holds a k-block of A and of B: 96 KiB, of which two fit. Each has a barrier of its own
//! for TMA, because two loads are in flight. One thread still does everything: it starts a load
//! one k-block ahead, waits for the load of this k-block, multiplies, and waits for the MMAs,
//! whose stage the next load overwrites.
//!
//! TMA no longer waits for the tensor core. But the tensor core waits for the thread: between two
//! k-blocks it is idle while the thread learns of its completion and issues the next MMAs.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::swizzled::SPAN;
use super::{SharedTiles, TILE, mma, store_row, tile};
use warpwright_kernels::gemm::GemmOutput;

pub use super::scalar::THREADS;

/// Elements of a k-block: two spans of the swizzle.
pub(super) const DEPTH: u32 = 128;

/// Stages, of 96 KiB each.
const STAGES: u32 = 2;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct Staged<T> {
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> Staged<T> {
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
        let (loaded, multiplied) = (Mbarriers::new(STAGES), Mbarrier::new());
        let holder = shared_array::<u32>(1);
        let thread = thread_idx().x;
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);

        if thread == 0 {
            for barrier in loaded.iter() {
                barrier.init(1);
            }
            multiplied.init(1);
            fence_mbarrier_init();
        }
        if thread < 32 {
            allocate_tensor_memory(CtaGroup::One, tile_n, holder);
        }
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let product = TensorMemory::at(holder);

        let mma = mma::<T>(CtaGroup::One, tile_n);
        let (a_operand, b_operand) = (mma.a_operand(a_tiles.tensor()), mma.b_operand(b_tiles.tensor()));
        if thread == 0 {
            let k_blocks = (k + (DEPTH - 1)) / DEPTH;
            let tiles = (&a_tiles, &b_tiles);
            for k_block in 0..STAGES - 1 {
                if k_blocks > k_block {
                    load((a, b), tiles, loaded, (row, column), constant(k_block));
                }
            }
            for k_block in 0..k_blocks {
                let ahead = k_block + (STAGES - 1);
                if ahead < k_blocks {
                    load((a, b), tiles, loaded, (row, column), ahead);
                }
                let stage = k_block % STAGES;
                // A stage's barrier has one phase in every round through the stages.
                loaded.at(stage).wait_parity(k_block / STAGES % 2);
                let at = (All, All, stage);
                let accumulate = Accumulate::If(k_block.ne(0));
                mma.issue(product, &a_operand.slice(at), &b_operand.slice(at), accumulate);
                commit_tensor_core(CtaGroup::One, multiplied);
                multiplied.wait_parity(k_block % 2);
                tensor_fence_after_sync();
            }
        }
        // The thread has waited for its MMAs; the others wait for the thread.
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let quarter = thread / 32 * 32;
        store_row(c, (m, n), product.row(quarter), (row + thread, column), tile_n);

        tensor_fence_before_sync();
        sync_threads();
        if thread < 32 {
            product.free(CtaGroup::One, tile_n);
        }
    }
}

/// Starts the load of a k-block into its stage.
#[device]
fn load<T: GemmOutput>(
    (a, b): (&TensorMap, &TensorMap),
    (a_tiles, b_tiles): (&SharedTiles<T>, &SharedTiles<T>),
    loaded: Mbarriers,
    (row, column): (Reg<u32>, Reg<u32>),
    k_block: Reg<u32>,
) {
    let stage = k_block % STAGES;
    let loaded = loaded.at(stage);
    loaded.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
    for step in (0..DEPTH).step_by(SPAN as usize) {
        let depth = k_block * DEPTH + step;
        tma::load(*a, [depth, row], a_tiles.at(stage).at(step * TILE.0), loaded);
        tma::load(*b, [depth, column], b_tiles.at(stage).at(step * TILE.1), loaded);
    }
}
