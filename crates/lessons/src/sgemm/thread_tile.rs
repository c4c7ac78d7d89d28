//! Steps 4 to 6: a thread computes a column of TM, then a tile of TM x TN elements; its loads from
//! shared memory serve more than one multiply-add.
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
//! The CTA's threads copy a slice of A (BM, BK) and one of B (BK, BN), element by element. First
//! each thread copies a run of its own, so that the lanes of a warp are far apart; then
//! ([`Spread::Interleaved`]) neighboring threads copy neighboring elements: step 6, no other
//! change.

use warpwright::prelude::*;

use warpwright_kernels::sgemm::Product;
use warpwright_kernels::sgemm::device::copies::{Slice, Spread, load_or_zero};
use warpwright_kernels::sgemm::device::fragments::{LaneOrder, Place, add_outer_product, zeros};
use warpwright_kernels::sgemm::tiles::{Tiles, TilesError};

/// C = alpha · A·B + beta · C, a tile of C a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadTile {
    /// The tiles: one step, and as many lanes across as the CTA is wide, which is the notes' flat
    /// grid of threads.
    pub tiles: Tiles,
    /// Who copies what.
    pub spread: Spread,
}

impl ThreadTile {
    /// A column of 8 elements a thread.
    pub const COLUMN: Self = Self {
        tiles: Tiles { block: (64, 64, 8), warp: (8, 32), steps: (1, 1), thread: (8, 1), stages: 1 },
        spread: Spread::Runs,
    };
    /// A tile of 8 x 8 elements a thread.
    pub const SQUARE: Self = Self {
        tiles: Tiles { block: (128, 128, 8), warp: (16, 128), steps: (1, 1), thread: (8, 8), stages: 1 },
        spread: Spread::Runs,
    };
    /// The same, copied side by side.
    pub const COALESCED: Self = Self { spread: Spread::Interleaved, ..Self::SQUARE };

    /// Refuses tiles that break a rule.
    ///
    /// # Errors
    /// The rule.
    pub fn check(&self) -> Result<(), TilesError> {
        self.tiles.check()?;
        self.tiles.check_copies((1, 1))
    }

    /// One CTA a tile of BM x BN.
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
        let a_places = Slice { shape: (bm, bk), threads, width: 1 }.places(thread, self.spread);
        let b_places = Slice { shape: (bk, bn), threads, width: 1 }.places(thread, self.spread);
        let place = Place::of(thread, &tiles, LaneOrder::Rows);
        let mut sums = zeros(tiles.sums());

        for first in (0..product.k).step_by(bk) {
            for &(row, column) in &a_places {
                let at = (first_row + row, first + column);
                a_slice.at(row * bk + column).store(load_or_zero(*a, (product.m, product.k), at, 1)[0]);
            }
            for &(row, column) in &b_places {
                let at = (first + row, first_column + column);
                b_slice.at(row * bn + column).store(load_or_zero(*b, (product.k, product.n), at, 1)[0]);
            }
            sync_threads();
            for depth in 0..bk {
                let a_place = a_slice.at(place.row * bk + depth);
                let b_place = b_slice.at(place.column + depth * bn);
                let a_column: Vec<_> = (0..tiles.thread.0).map(|row| a_place.at(row * bk).load()).collect();
                let b_row: Vec<_> = (0..tiles.thread.1).map(|column| b_place.at(column).load()).collect();
                add_outer_product(&mut sums, &a_column, &b_row);
            }
            sync_threads();
        }

        let mine = (first_row + place.row, first_column + place.column);
        product.store_sums(*c, mine, &sums, (|row| row, |column| column), 1);
    }
}
