//! Versions 2a and 2b: rows of 128 bytes, swizzled.
//!
//! ```text
//! a tile in shared memory: spans of 128 bytes along k, one after another
//!
//!   row 0    | 0 1 2 3 4 5 6 7 |   16-byte chunks; the next span
//!   row 1    | 1 0 3 2 5 4 7 6 |   128 rows further on
//!   row 2    | 2 3 0 1 6 7 4 5 |
//!   ..        8 rows are 1024 bytes, after which the pattern repeats: stride dimension 1024 bytes
//! ```
//!
//! A box of TMA is now 128 bytes wide, which is four whole sectors of a row. The tensor map names the
//! swizzle, and so does the matrix descriptor; no address is computed. The next 16 elements along k are
//! 32 bytes further on in the span: the descriptor of a step is the first one plus a constant.
//!
//! A k-block of 256 elements is four spans. Version 2a copies each by its own instruction; version 2b
//! adds an axis to the tensor map, (k/64, rows, 64), so that one instruction copies both. The axis
//! divides rows of the matrix into whole spans, so k is a multiple of 64.
//!
//! Still one thread does everything in turn: while TMA loads, the tensor core waits.

use std::marker::PhantomData;

use warpwright::arch::tensor_map::{Requirement, Swizzle as MapSwizzle};
use warpwright::lang::tensor_map_boxes::element_type;
use warpwright::prelude::*;

use super::{SharedTiles, TILE, mma, store_row, tile};
use warpwright_kernels::gemm::GemmOutput;

pub use super::scalar::THREADS;

/// Elements of a k-block: A and B take 192 KiB, so that a CTA has an SM for itself.
const DEPTH: u32 = 256;

/// Elements of 128 bytes: the span of the swizzle.
pub(super) const SPAN: u32 = 64;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct Swizzled<T> {
    /// Whether one copy of three axes loads a tile (2b), or a copy for each span (2a).
    pub one_box: bool,
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> Swizzled<T> {
    /// A tile of spans.
    pub(super) fn tile(rows: u32) -> TmaTile {
        tile::<T>(rows, DEPTH)
    }

    /// The box of a copy of three axes: all spans of a tile, the contiguous axis first.
    pub(super) fn spans(rows: u32) -> Requirement {
        let element = element_type::<T>().expect("TMA copies elements of 16 bits");
        Requirement::tiled(element, &[SPAN, rows, DEPTH / SPAN]).swizzled(MapSwizzle::Bytes128)
    }

    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8 (k
    /// of 64 for one box). The grid has one CTA per tile, row by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<T>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (tile_m, tile_n) = TILE;
        // A launch refuses tensor maps of other boxes.
        if self.one_box {
            a.boxes(Self::spans(tile_m));
            b.boxes(Self::spans(tile_n));
        } else {
            a.boxes(Self::tile(tile_m));
            b.boxes(Self::tile(tile_n));
        }
        let a_tile = SharedTiles::<T>::new(Self::tile(tile_m), 1);
        let b_tile = SharedTiles::<T>::new(Self::tile(tile_n), 1);
        let (loaded, multiplied, holder) = (Mbarrier::new(), Mbarrier::new(), shared_array::<u32>(1));
        let thread = thread_idx().x;
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);

        if thread == 0 {
            loaded.init(1);
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
        let a_operand = mma.a_operand(a_tile.tensor()).slice((All, All, 0));
        let b_operand = mma.b_operand(b_tile.tensor()).slice((All, All, 0));
        if thread == 0 {
            for k_block in 0..(k + (DEPTH - 1)) / DEPTH {
                let depth = k_block * DEPTH;
                loaded.arrive_and_expect(a_tile.bytes() + b_tile.bytes());
                if self.one_box {
                    tma::load(*a, [constant(0u32), row, depth / SPAN], a_tile.at(0), loaded);
                    tma::load(*b, [constant(0u32), column, depth / SPAN], b_tile.at(0), loaded);
                } else {
                    for step in (0..DEPTH).step_by(SPAN as usize) {
                        tma::load(*a, [depth + step, row], a_tile.at(0).at(step * tile_m), loaded);
                        tma::load(*b, [depth + step, column], b_tile.at(0).at(step * tile_n), loaded);
                    }
                }
                // Each k-block is one phase of both barriers, so they have the same parity.
                loaded.wait_parity(k_block % 2);
                mma.issue(product, &a_operand, &b_operand, Accumulate::If(k_block.ne(0)));
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
