//! Step 7: four elements per instruction, from global memory to registers and back.
//!
//! ```text
//!   A (BM, BK) is read four along k and put down transposed     B (BK, BN) as it is
//!     A: row r    k k k k   ->   shared: k0  . . r . .            shared: k0  n n n n ...
//!                                        k1  . . r . .                    k1  n n n n ...
//!                                        k2  . . r . .
//! ```
//!
//! With A transposed, the TM rows of a thread are contiguous, like its TN columns: both are read by
//! 16-byte loads, two of each for a tile of 8 x 8. Two bank conflicts remain, which step 8 removes:
//! lanes that store the same row of A at different k use the same bank, and lanes with neighboring
//! tiles of 8 columns read 32 bytes apart, so that every fourth lane uses the same bank.

use warpwright::prelude::*;

use warpwright_kernels::operations::Result;
use warpwright_kernels::sgemm::Product;
use warpwright_kernels::sgemm::device::copies::{KBlock, Spread, load_or_zero};
use warpwright_kernels::sgemm::device::fragments::{LaneOrder, ThreadPosition, add_outer_product, zeros};
use warpwright_kernels::sgemm::tiles::Tiles;
use warpwright_kernels::vector::store_lanes;

/// C = alpha · A·B + beta · C, four elements per instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vectorized {
    /// The tiles, with a warp tile of one step.
    pub tiles: Tiles,
    /// Elements per access to A, and per access to B and C: 4, 2 or 1. They divide k, and n.
    pub widths: (u32, u32),
}

impl Vectorized {
    /// 8 x 8 elements per thread.
    pub const TILES: Tiles =
        Tiles { block: (128, 128, 16), warp: (16, 128), steps: (1, 1), thread: (8, 8), stages: 1 };

    /// Returns an error if the tiles break a rule.
    ///
    /// # Errors
    /// The broken rule.
    pub fn check(&self) -> Result<()> {
        self.tiles.check()?;
        self.tiles.check_copies(self.widths)
    }

    /// One CTA per tile of BM x BN.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product) {
        let tiles = self.tiles;
        let (bm, bn, bk) = tiles.block;
        let (a_width, b_width) = self.widths;
        let threads = tiles.threads();
        launch::threads(threads);
        let a_slice = shared_array::<f32>(bk * bm);
        let b_slice = shared_array::<f32>(bk * bn);
        let thread = thread_idx().x;
        let (tile_row, tile_column) = product.tile_of_block(block_idx().x, (bm, bn), 1);
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let a_offsets =
            KBlock { shape: (bm, bk), threads, width: a_width }.places(thread, Spread::Interleaved);
        let b_offsets =
            KBlock { shape: (bk, bn), threads, width: b_width }.places(thread, Spread::Interleaved);
        let position = ThreadPosition::of(thread, &tiles, LaneOrder::Rows);
        let mut accumulators = zeros(tiles.accumulators());

        for first in (0..product.k).step_by(bk) {
            for &(row, column) in &a_offsets {
                let at = (first_row + row, first + column);
                let values = load_or_zero(*a, (product.m, product.k), at, a_width);
                for (index, value) in values.iter().enumerate() {
                    a_slice.at((column + index as u32) * bm + row).store(*value);
                }
            }
            for &(row, column) in &b_offsets {
                let at = (first + row, first_column + column);
                let values = load_or_zero(*b, (product.k, product.n), at, b_width);
                store_lanes(b_slice.at(row * bn + column), &values, Access::new());
            }
            sync_threads();
            let (a_mine, b_mine) = (a_slice.at(position.row), b_slice.at(position.column));
            for depth in 0..bk {
                let vectors = |from: Shared<f32>, elements: u32| -> Vec<Reg<f32>> {
                    (0..elements).step_by(4).flat_map(|first| from.at(first).load_vector::<4>()).collect()
                };
                let a_column = vectors(a_mine.at(depth * bm), tiles.thread.0);
                let b_row = vectors(b_mine.at(depth * bn), tiles.thread.1);
                add_outer_product(&mut accumulators, &a_column, &b_row);
            }
            sync_threads();
        }

        let mine = (first_row + position.row, first_column + position.column);
        product.store_accumulators(*c, mine, &accumulators, (|row| row, |column| column), b_width);
    }
}
