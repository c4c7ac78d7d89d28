//! Step 3: a CTA copies 32 x 32 blocks of A and B to shared memory, where each element is used 32
//! times.
//!
//! ```text
//!   for each block along k:   A (32, 32)     B (32, 32)
//!     every thread copies one element of each, then all wait
//!     thread (row, column): sum += A[row][0..32] · B[0..32][column], then all wait
//!                           the warp's element of A is one word for all; its row of B is 32 banks
//! ```
//!
//! Global memory is read 32 times less often, but a multiply-add still needs two loads from shared
//! memory: that is now the limit.

use warpwright::prelude::*;

use super::naive::SIDE;
use warpwright_kernels::sgemm::Product;
use warpwright_kernels::sgemm::device::copies::load_or_zero;

/// C = alpha · A·B + beta · C through 32 x 32 blocks in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedBlock;

impl SharedBlock {
    /// One CTA of 32 x 32 threads for 32 x 32 elements.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product) {
        launch::threads(SIDE * SIDE);
        let a_block = shared_array::<f32>(SIDE * SIDE);
        let b_block = shared_array::<f32>(SIDE * SIDE);
        let (down, across) = (thread_idx().x / SIDE, thread_idx().x % SIDE);
        let (tile_row, tile_column) = product.tile_of_block(block_idx().x, (SIDE, SIDE), 1);
        let (row, column) = (tile_row * SIDE + down, tile_column * SIDE + across);

        let mut sum = constant(0.0f32);
        for first in (0..product.k).step_by(SIDE) {
            let a = load_or_zero(*a, (product.m, product.k), (row, first + across), 1);
            let b = load_or_zero(*b, (product.k, product.n), (first + down, column), 1);
            a_block.at(down * SIDE + across).store(a[0]);
            b_block.at(down * SIDE + across).store(b[0]);
            sync_threads();
            for depth in 0..SIDE {
                let a = a_block.at(down * SIDE + depth).load();
                let b = b_block.at(across + depth * SIDE).load();
                sum = a.mul_add(b, sum);
            }
            sync_threads();
        }
        product.store(*c, row, column, sum);
    }
}
