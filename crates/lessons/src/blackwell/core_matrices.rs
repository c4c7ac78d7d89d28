//! Versions 1a and 1b: TMA loads A and B, not swizzled.
//!
//! ```text
//! a tile in shared memory: columns of 16 bytes, one after another
//!
//!   row 0    | 16 bytes |   the next column
//!   row 1    | 16 bytes |   128 rows further on
//!   ..                      ------------------>  leading dimension: 128 rows x 16 bytes
//!   8 rows are a core matrix of 128 bytes; the next 8 rows follow: stride dimension 128 bytes
//! ```
//!
//! Without a swizzle `tcgen05.mma` reads *core matrices*: 8 rows of 16 bytes that are contiguous. A
//! box of TMA that is 16 bytes wide writes them one below another, so a tile is as many boxes as it
//! has columns of 16 bytes. Version 1a copies each by its own instruction. Version 1b adds an axis
//! to the tensor map, (k/8, rows, 8), and copies all of them by one instruction.
//!
//! One thread loads, waits, multiplies and waits. No thread touches an element of A or B. But TMA
//! moves rows of 16 bytes, half of a sector.

use std::marker::PhantomData;

use warpwright::arch::tensor_map::Requirement;
use warpwright::lang::tensor_map_boxes::element_type;
use warpwright::layout::atom::SharedSwizzle;
use warpwright::prelude::*;

use super::{SharedTiles, TILE, mma, store_row};
use warpwright_kernels::gemm::GemmOutput;

pub use super::scalar::THREADS;

/// Elements of a k-block: A and B take 192 KiB, so that a CTA has an SM for itself.
const DEPTH: u32 = 256;

/// Elements of 16 bytes: the width of a core matrix.
pub(super) const COLUMN: u32 = 8;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct CoreMatrices<T> {
    /// Whether one copy of three axes loads a tile (1b), or a copy for each column (1a).
    pub one_box: bool,
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> CoreMatrices<T> {
    /// A tile of core matrices.
    pub(super) fn tile(rows: u32) -> TmaTile {
        TmaTile::with_swizzle::<T>((rows, DEPTH), Major::K, SharedSwizzle::None)
            .expect("a lesson's rows are a multiple of 8")
    }

    /// The box of a copy of three axes: all columns of a tile, the contiguous axis first.
    pub(super) fn columns(rows: u32) -> Requirement {
        let element = element_type::<T>().expect("TMA copies elements of 16 bits");
        Requirement::tiled(element, &[COLUMN, rows, DEPTH / COLUMN])
    }

    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8. The grid
    /// has one CTA per tile, row by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<T>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (tile_m, tile_n) = TILE;
        // A launch refuses tensor maps of other boxes.
        if self.one_box {
            a.boxes(Self::columns(tile_m));
            b.boxes(Self::columns(tile_n));
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
                    tma::load(*a, [constant(0u32), row, depth / COLUMN], a_tile.at(0), loaded);
                    tma::load(*b, [constant(0u32), column, depth / COLUMN], b_tile.at(0), loaded);
                } else {
                    for step in (0..DEPTH).step_by(COLUMN as usize) {
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
