//! Step 9: while a slice is multiplied, the next ones are on their way: `cp.async` and a ring of
//! slices.
//!
//! ```text
//!   time ->      copy 2    copy 3    copy 4    copy 5
//!                multiply 0          multiply 1          multiply 2     one barrier a slice
//!
//!   the ring     slot 0: slice 0, 3, ...   slot 1: slice 1, 4, ...   slot 2: slice 2, 5, ...
//! ```
//!
//! `cp.async` moves 16 bytes to where they shall lie, and cannot transpose. So A stays as it is, k
//! contiguous, and a thread reads it along k: 16 bytes serve four steps. Its rows are every fourth
//! (TM = 1, and a step for each row), so that the lanes of a warp read neighboring rows. Fragments
//! are read one step ahead of the multiply-adds: the assembler, which sees the whole slice as
//! straight-line code, sees to that.
//!
//! Copies past the matrices' ends bring zeros. Where k or n is odd, they move 8 or 4 bytes each.

use warpwright::arch::Capability;
use warpwright::prelude::*;

use super::super::product::{Product, at};
use super::super::tiles::{Tiles, TilesError};
use super::copies::{Slice, Spread};
use super::fragments::{LaneOrder, Place, Rows, exchange_at, multiply_slice, zeros};

/// C = alpha · A·B + beta · C, copying ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DoubleBuffered {
    /// The tiles; at least 2 stages, a thread's tile one row by four columns.
    pub tiles: Tiles,
    /// CTAs that an SM shall hold at once.
    pub ctas_per_sm: u32,
    /// Rows of tiles that are walked together, so that what they share stays in L2.
    pub raster: u32,
    /// Elements that one copy of B and one access to C moves: 4, 2 or 1, which divides n.
    pub width: u32,
}

/// A copy that a thread makes of each slice.
#[derive(Clone, Copy, DeviceValue)]
struct Copy {
    /// From where of the first slice, to where in the first slot.
    source: Global<f32>,
    target: Shared<f32>,
    /// Where in the slice along k.
    along: Reg<u32>,
    /// Elements.
    width: u32,
}

impl Copy {
    /// Starts it for the slice `from` elements further on in the matrix, into the slot `to`
    /// elements further on.
    #[track_caller]
    fn start(self, from: Reg<u64>, to: Reg<u32>) {
        copy_async(self.target.at(to), self.source.at(from), self.width);
    }

    /// The same, of a slice of which only `left` along k are there: beyond them it brings zeros.
    #[track_caller]
    fn start_last(self, from: Reg<u64>, to: Reg<u32>, left: Reg<u32>) {
        copy_async_or_zero(self.target.at(to), self.source.at(from), self.width, self.along.lt(left));
    }
}

/// How many neighboring k of A a warp copies together, 4 rows of them.
const TOGETHER: u32 = 8;

impl DoubleBuffered {
    /// Bytes of shared memory of a CTA.
    pub fn shared_bytes(&self) -> u32 {
        self.tiles.stages * self.tiles.stage_bytes()
    }

    /// Refuses tiles that break a rule.
    ///
    /// # Errors
    /// The rule.
    pub fn check(&self, limits: &Capability) -> Result<(), TilesError> {
        let tiles = self.tiles;
        tiles.check()?;
        tiles.check_exchange()?;
        // A is copied 8 k at a time, all rows.
        Tiles { block: (tiles.block.0, tiles.block.1, TOGETHER), ..tiles }.check_copies((1, 1))?;
        tiles.check_copies((1, self.width))?;
        if tiles.stages < 2 {
            return Err(TilesError::Stages { stages: tiles.stages, least: 2 });
        }
        Tiles::check_shared(self.shared_bytes(), limits.shared_bytes_per_cta_opt_in)
    }

    /// One CTA a tile of BM x BN and part of k.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product, part: u32) {
        let tiles = self.tiles;
        let (bm, bn, bk) = tiles.block;
        let (threads, stages) = (tiles.threads(), tiles.stages);
        launch::threads(threads);
        launch::blocks_per_sm(self.ctas_per_sm);
        let a_ring = dynamic_shared::<f32>(stages * bk * bm);
        let b_ring = dynamic_shared::<f32>(stages * bk * bn);
        let thread = thread_idx().x;
        let share = product.share_of_block((bm, bn, bk), self.raster, part);
        let (tile_row, tile_column) = share.tile;
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let (m, n, k) = (product.m, product.n, product.k);

        // Rows and columns past the ends are copies of the last ones: they cost no check, and
        // nothing of them is stored.
        let a_slice = Slice { shape: (bm, TOGETHER), threads, width: 1 };
        let b_slice = Slice { shape: (bk, bn), threads, width: self.width };
        let mut a_copies = Vec::new();
        for (row, along) in a_slice.places(thread, Spread::Interleaved) {
            let source = at(*a, k, (first_row + row).min(m - 1), along);
            for further in (0..bk).step_by(TOGETHER as usize) {
                let k = along + further;
                let target = a_ring.at(k * bm + (row ^ exchange_at(k)));
                a_copies.push(Copy { source: source.at(further), target, along: k, width: 1 });
            }
        }
        let mut b_copies = Vec::new();
        for (along, column) in b_slice.places(thread, Spread::Interleaved) {
            let source = at(*b, n, along, (first_column + column).min(n - self.width));
            let target = b_ring.at(along * bn + column);
            b_copies.push(Copy { source, target, along, width: self.width });
        }
        for stage in 0..stages - 1 {
            let slice = share.first + stage;
            if slice < share.end {
                self.copy((&a_copies, &b_copies), (n, k), constant(stage), slice);
            }
            commit_async_copies();
        }

        let place = Place::of(thread, &tiles, LaneOrder::Pairs);
        let (a_rows, b_mine) = (Rows::new(a_ring, place.row), b_ring.at(place.column));
        let mut sums = zeros(tiles.sums());
        let mut read = constant(0u32);
        let mut write = constant(stages - 1);
        for slice in share.first..share.end {
            // This slice is here for every thread, and every thread has done with the slot that is
            // filled next.
            wait_async_copies(stages - 2);
            sync_threads();
            let ahead = slice + (stages - 1);
            if ahead < share.end {
                self.copy((&a_copies, &b_copies), (n, k), write, ahead);
            }
            commit_async_copies();
            let slot = (a_rows.in_slot(read * (bk * bm)), b_mine.at(read * (bk * bn)));
            multiply_slice(&tiles, &mut sums, slot, 0..bk);
            read = self.after(read);
            write = self.after(write);
        }

        let mine = (first_row + place.row, first_column + place.column);
        let within = (|row| tiles.row_at(row), |column| tiles.column_at(column));
        product.store_sums(share.output(*c, product), mine, &sums, within, self.width);
    }

    /// Starts the copies of a slice into a slot.
    #[device]
    fn copy(
        &self,
        (a, b): (&Vec<Copy>, &Vec<Copy>),
        (n, k): (Reg<u32>, Reg<u32>),
        slot: Reg<u32>,
        slice: Reg<u32>,
    ) {
        let (bm, bn, bk) = self.tiles.block;
        let (a_slot, b_slot, first) = (slot * (bk * bm), slot * (bk * bn), slice * bk);
        let (a_from, b_from) = (first.convert::<u64>(), first.convert::<u64>() * n.convert::<u64>());
        let left = k - first;
        if left >= bk {
            for copy in a {
                copy.start(a_from, a_slot);
            }
            for copy in b {
                copy.start(b_from, b_slot);
            }
        } else {
            for copy in a {
                copy.start_last(a_from, a_slot, left);
            }
            for copy in b {
                copy.start_last(b_from, b_slot, left);
            }
        }
    }

    /// The slot after `slot`.
    #[device]
    fn after(&self, slot: Reg<u32>) -> Reg<u32> {
        let next = slot + 1;
        next.eq(self.tiles.stages).select(0u32, next)
    }
}
