//! Step 8: warp tiles, and shared memory without bank conflicts.
//!
//! ```text
//!   CTA 128 x 128           warp 32 x 64: 2 x 2 steps        a step 16 x 32: 4 x 8 lanes of 4 x 4
//!   +------+------+         +--------+--------+              lanes 0 1 of the first two rows, 2 3 beside them, ...
//!   | w0   | w1   |         | (0, 0) | (0, 1) |
//!   +------+------+         +--------+--------+
//!   | w2   | w3   | ...     | (1, 0) | (1, 1) |
//! ```
//!
//! A warp now needs 32 rows of A and 64 columns of B at each k; with 2 by 16 lanes it needed 16 and
//! 128. These are fewer words from shared memory for the same multiply-adds. A thread takes four
//! columns of each step instead of eight adjacent ones, so the eight lanes of a row read 128
//! contiguous bytes. Row r of A is stored, at k, at r ^ 8 (k / 4): the four lanes that hold
//! different k of one row store them to four different groups of eight banks.

use warpwright::prelude::*;

use warpwright_kernels::operations::Result;
use warpwright_kernels::sgemm::Product;
use warpwright_kernels::sgemm::device::copies::{KBlock, Spread, load_or_zero};
use warpwright_kernels::sgemm::device::fragments::{
    LaneOrder, Rows, ThreadPosition, exchange_at, multiply_k_block, zeros,
};
use warpwright_kernels::sgemm::tiles::Tiles;
use warpwright_kernels::vector::store_lanes;

/// C = alpha · A·B + beta · C, by warp tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpTile {
    /// The tiles.
    pub tiles: Tiles,
    /// Elements per access to A, and per access to B and C: 4, 2 or 1. They divide k, and n.
    pub widths: (u32, u32),
}

impl WarpTile {
    /// 8 x 8 elements per thread, in four quarters.
    pub const TILES: Tiles =
        Tiles { block: (128, 128, 16), warp: (32, 64), steps: (2, 2), thread: (4, 4), stages: 1 };

    /// Returns an error if the tiles break a rule.
    ///
    /// # Errors
    /// The broken rule.
    pub fn check(&self) -> Result<()> {
        self.tiles.check()?;
        self.tiles.check_exchange()?;
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
        launch::blocks_per_sm(2);
        let a_slice = shared_array::<f32>(bk * bm);
        let b_slice = shared_array::<f32>(bk * bn);
        let thread = thread_idx().x;
        let (tile_row, tile_column) = product.tile_of_block(block_idx().x, (bm, bn), 8);
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let a_offsets =
            KBlock { shape: (bm, bk), threads, width: a_width }.places(thread, Spread::Interleaved);
        let b_offsets =
            KBlock { shape: (bk, bn), threads, width: b_width }.places(thread, Spread::Interleaved);
        let position = ThreadPosition::of(thread, &tiles, LaneOrder::Pairs);
        let (a_rows, b_mine) = (Rows::new(a_slice, position.row), b_slice.at(position.column));
        let mut accumulators = zeros(tiles.accumulators());

        for first in (0..product.k).step_by(bk) {
            for &(row, column) in &a_offsets {
                let at = (first_row + row, first + column);
                let values = load_or_zero(*a, (product.m, product.k), at, a_width);
                for (index, value) in values.iter().enumerate() {
                    let k = column + index as u32;
                    a_slice.at(k * bm + (row ^ exchange_at(k))).store(*value);
                }
            }
            for &(row, column) in &b_offsets {
                let at = (first + row, first_column + column);
                let values = load_or_zero(*b, (product.k, product.n), at, b_width);
                store_lanes(b_slice.at(row * bn + column), &values, Access::new());
            }
            sync_threads();
            multiply_k_block(&tiles, &mut accumulators, (a_rows, b_mine), 0..bk);
            sync_threads();
        }

        let mine = (first_row + position.row, first_column + position.column);
        let within = (|row| tiles.row_at(row), |column| tiles.column_at(column));
        product.store_accumulators(*c, mine, &accumulators, within, b_width);
    }
}
