//! Step 1: one thread per element of C; neighboring threads compute neighboring *rows*.
//!
//! ```text
//!   a warp at one k     A           B           C
//!   lane 0              row 0       the same    row 0
//!   lane 1              row 1       element     row 1     a sector of 32 bytes each, of which 4 are used
//!   ...                 ...                     ...
//! ```
//!
//! Each load of A by a warp accesses 32 sectors, and so does each store of C.

use warpwright::prelude::*;

use warpwright_kernels::sgemm::Product;
use warpwright_kernels::vector::element;

/// Rows and columns of C that a CTA computes.
pub(super) const SIDE: u32 = 32;

/// C = alpha · A·B + beta · C, directly from the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Naive;

impl Naive {
    /// One CTA of 32 x 32 threads for 32 x 32 elements.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product) {
        launch::threads(SIDE * SIDE);
        let (tile_row, tile_column) = product.tile_of_block(block_idx().x, (SIDE, SIDE), 1);
        let row = tile_row * SIDE + thread_idx().x % SIDE;
        let column = tile_column * SIDE + thread_idx().x / SIDE;
        if row < product.m && column < product.n {
            let mut sum = constant(0.0f32);
            for depth in 0..product.k {
                let a = element(*a, product.k, row, depth).load();
                let b = element(*b, product.n, depth, column).load();
                sum = a.mul_add(b, sum);
            }
            product.store(*c, row, column, sum);
        }
    }
}
