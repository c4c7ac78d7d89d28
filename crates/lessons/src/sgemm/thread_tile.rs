//! Steps 4 to 6: a thread computes a column of TM, then a tile of TM x TN elements, so that each
//! load from shared memory serves several multiply-adds.
//!
//! ```text
//!   at each k:   TM elements of A's column and TN of B's row into registers, TM x TN multiply-adds
//!
//!                  b0 b1 b2 ...          loads a multiply-add:  TM = TN = 1   2
//!              a0  +  +  +               (shared memory)        TM = 8, TN = 1  1.125
//!              a1  +  +  +                                      TM = TN = 8   0.25
//!              ..
//! ```
//!
//! The threads of the CTA copy a k-block of A (BM, BK) and of B (BK, BN), element by element. At
//! first each thread copies a contiguous run, so that the lanes of a warp are far apart. In step 6
//! ([`Spread::Interleaved`]) neighboring threads copy neighboring elements; nothing else changes.

use warpwright::prelude::*;

use warpwright_kernels::operations::Result;
use warpwright_kernels::sgemm::Product;
use warpwright_kernels::sgemm::device::copies::{KBlock, Spread, load_or_zero};
use warpwright_kernels::sgemm::device::fragments::{LaneOrder, ThreadPosition, add_outer_product, zeros};
use warpwright_kernels::sgemm::tiles::Tiles;

/// C = alpha · A·B + beta · C, a tile of C per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadTile {
    /// The tiles: a warp tile of one step, as wide as the CTA tile, so that the threads form a flat
    /// grid.
    pub tiles: Tiles,
    /// How the copies are distributed over the threads.
    pub spread: Spread,
}

impl ThreadTile {
    /// A column of 8 elements per thread.
    pub const COLUMN: Self = Self {
        tiles: Tiles { block: (64, 64, 8), warp: (8, 32), steps: (1, 1), thread: (8, 1), stages: 1 },
        spread: Spread::Runs,
    };
    /// A tile of 8 x 8 elements per thread.
    pub const SQUARE: Self = Self {
        tiles: Tiles { block: (128, 128, 8), warp: (16, 128), steps: (1, 1), thread: (8, 8), stages: 1 },
        spread: Spread::Runs,
    };
    /// The same, with interleaved copies.
    pub const COALESCED: Self = Self { spread: Spread::Interleaved, ..Self::SQUARE };

    /// Returns an error if the tiles break a rule.
    ///
    /// # Errors
    /// The broken rule.
    pub fn check(&self) -> Result<()> {
        self.tiles.check()?;
        self.tiles.check_copies((1, 1))
    }

    /// One CTA per tile of BM x BN.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product) {
        let tiles = self.tiles;
        let (bm, bn, bk) = tiles.block;
        let threads = tiles.threads();
        launch::threads(threads);
        let a_slice = shared_array::<f32>(bm * bk);
        let b_slice = shared_array::<f32>(bk * bn);
        let thread = thread_idx().x;
        let (tile_row, tile_column) = product.tile_of_block(block_idx().x, (bm, bn), 1);
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let a_offsets = KBlock { shape: (bm, bk), threads, width: 1 }.places(thread, self.spread);
        let b_offsets = KBlock { shape: (bk, bn), threads, width: 1 }.places(thread, self.spread);
        let position = ThreadPosition::of(thread, &tiles, LaneOrder::Rows);
        let mut accumulators = zeros(tiles.accumulators());

        for first in (0..product.k).step_by(bk) {
            for &(row, column) in &a_offsets {
                let at = (first_row + row, first + column);
                a_slice.at(row * bk + column).store(load_or_zero(*a, (product.m, product.k), at, 1)[0]);
            }
            for &(row, column) in &b_offsets {
                let at = (first + row, first_column + column);
                b_slice.at(row * bn + column).store(load_or_zero(*b, (product.k, product.n), at, 1)[0]);
            }
            sync_threads();
            for depth in 0..bk {
                let a_start = a_slice.at(position.row * bk + depth);
                let b_start = b_slice.at(position.column + depth * bn);
                let a_column: Vec<_> = (0..tiles.thread.0).map(|row| a_start.at(row * bk).load()).collect();
                let b_row: Vec<_> = (0..tiles.thread.1).map(|column| b_start.at(column).load()).collect();
                add_outer_product(&mut accumulators, &a_column, &b_row);
            }
            sync_threads();
        }

        let mine = (first_row + position.row, first_column + position.column);
        product.store_accumulators(*c, mine, &accumulators, (|row| row, |column| column), 1);
    }
}
