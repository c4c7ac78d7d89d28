//! Step 2: neighboring threads compute neighboring *columns*.
//!
//! ```text
//!   a warp at one k     A           B                C
//!   lane 0              the same    column 0         column 0
//!   lane 1              element     column 1         column 1     128 bytes in a row: 4 sectors, all used
//!   ...                             ...              ...
//! ```
//!
//! The only difference from [`naive`](super::naive) is that `row` and `column` are exchanged.

use warpwright::prelude::*;

use super::naive::SIDE;
use warpwright_kernels::sgemm::Product;
use warpwright_kernels::vector::element;

/// C = alpha · A·B + beta · C, with coalesced accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coalesced;

impl Coalesced {
    /// One CTA of 32 x 32 threads for 32 x 32 elements.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product) {
        launch::threads(SIDE * SIDE);
        let (tile_row, tile_column) = product.tile_of_block(block_idx().x, (SIDE, SIDE), 1);
        let row = tile_row * SIDE + thread_idx().x / SIDE;
        let column = tile_column * SIDE + thread_idx().x % SIDE;
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
