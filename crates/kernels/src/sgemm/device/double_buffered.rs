//! Step 9: a pipeline of k-blocks by `cp.async`. While one is multiplied, the next are in flight.
//!
//! ```text
//!   time ->      copy 2    copy 3    copy 4    copy 5
//!                multiply 0          multiply 1          multiply 2     one barrier per k-block
//!
//!   stages       0: k-block 0, 3, ...      1: k-block 1, 4, ...      2: k-block 2, 5, ...
//! ```
//!
//! `cp.async` moves 16 bytes to where they shall lie, and cannot transpose. So A stays as it is, k
//! contiguous, and a thread reads it along k: 16 bytes serve four steps. Its rows are every fourth
//! (TM = 1, and a step for each row), so that the lanes of a warp read neighboring rows. Fragments
//! are read one step ahead of the multiply-adds: the assembler, for which the whole k-block is
//! straight-line code, arranges that.
//!
//! Copies past the matrices' ends bring zeros. Where k or n is odd, they move 8 or 4 bytes each.

use warpwright::arch::Capability;
use warpwright::prelude::*;

use super::super::problem::Product;
use super::super::tiles::Tiles;
use super::copies::{KBlock, Spread};
use super::fragments::{LaneOrder, Rows, ThreadPosition, exchange_at, multiply_k_block, zeros};
use crate::operations::Result;
use crate::vector::element;

/// C = alpha · A·B + beta · C, copying ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DoubleBuffered {
    /// The tiles; at least 2 stages, a thread's tile one row by four columns.
    pub tiles: Tiles,
    /// Resident CTAs per SM.
    pub ctas_per_sm: u32,
    /// Rows of tiles that are rasterized together, so that what they share stays in L2.
    pub raster: u32,
    /// Elements that one copy of B and one access to C moves: 4, 2 or 1, which divides n.
    pub width: u32,
}

/// A copy that a thread makes of each k-block.
#[derive(Clone, Copy, DeviceValue)]
struct Copy {
    /// Its source in the first k-block, and its target in the first stage.
    source: Global<f32>,
    target: Shared<f32>,
    /// Its k in the k-block.
    along: Reg<u32>,
    /// Elements.
    width: u32,
}

impl Copy {
    /// Starts it for the k-block `from` elements further on in the matrix, into the stage `to`
    /// elements further on.
    #[track_caller]
    fn start(self, from: Reg<u64>, to: Reg<u32>) {
        copy_async(self.target.at(to), self.source.at(from), self.width);
    }

    /// The same, of a k-block of which only `left` k are inside the matrix: beyond them it copies
    /// zeros.
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
    pub fn check(&self, capability: &Capability) -> Result<()> {
        let tiles = self.tiles;
        tiles.check()?;
        tiles.check_exchange()?;
        // A is copied 8 k at a time, all rows.
        Tiles { block: (tiles.block.0, tiles.block.1, TOGETHER), ..tiles }.check_copies((1, 1))?;
        tiles.check_copies((1, self.width))?;
        tiles.check_pipeline(self.shared_bytes(), capability)
    }

    /// One CTA a tile of BM x BN and part of k.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, product: Product, part: u32) {
        let tiles = self.tiles;
        let (bm, bn, bk) = tiles.block;
        let (threads, stages) = (tiles.threads(), tiles.stages);
        launch::threads(threads);
        launch::blocks_per_sm(self.ctas_per_sm);
        let a_stages = dynamic_shared::<f32>(stages * bk * bm);
        let b_stages = dynamic_shared::<f32>(stages * bk * bn);
        let thread = thread_idx().x;
        let share = product.share_of_block((bm, bn, bk), self.raster, part);
        let (tile_row, tile_column) = share.tile;
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let (m, n, k) = (product.m, product.n, product.k);

        // Rows and columns past the ends are copies of the last ones: they cost no check, and
        // nothing of them is stored.
        let a_block = KBlock { shape: (bm, TOGETHER), threads, width: 1 };
        let b_block = KBlock { shape: (bk, bn), threads, width: self.width };
        let mut a_copies = Vec::new();
        for (row, along) in a_block.places(thread, Spread::Interleaved) {
            let source = element(*a, k, (first_row + row).min(m - 1), along);
            for further in (0..bk).step_by(TOGETHER as usize) {
                let k = along + further;
                let target = a_stages.at(k * bm + (row ^ exchange_at(k)));
                a_copies.push(Copy { source: source.at(further), target, along: k, width: 1 });
            }
        }
        let mut b_copies = Vec::new();
        for (along, column) in b_block.places(thread, Spread::Interleaved) {
            let source = element(*b, n, along, (first_column + column).min(n - self.width));
            let target = b_stages.at(along * bn + column);
            b_copies.push(Copy { source, target, along, width: self.width });
        }
        for stage in 0..stages - 1 {
            let k_block = share.first + stage;
            if k_block < share.end {
                self.copy((&a_copies, &b_copies), (n, k), constant(stage), k_block);
            }
            commit_async_copies();
        }

        let place = ThreadPosition::of(thread, &tiles, LaneOrder::Pairs);
        let (a_rows, b_mine) = (Rows::new(a_stages, place.row), b_stages.at(place.column));
        let mut accumulators = zeros(tiles.accumulators());
        let mut read = constant(0u32);
        let mut write = constant(stages - 1);
        for k_block in share.first..share.end {
            // The k-block has arrived for every thread, and the stage that is filled next is empty.
            wait_async_copies(stages - 2);
            sync_threads();
            let ahead = k_block + (stages - 1);
            if ahead < share.end {
                self.copy((&a_copies, &b_copies), (n, k), write, ahead);
            }
            commit_async_copies();
            let stage = (a_rows.in_stage(read * (bk * bm)), b_mine.at(read * (bk * bn)));
            multiply_k_block(&tiles, &mut accumulators, stage, 0..bk);
            read = self.after(read);
            write = self.after(write);
        }

        let mine = (first_row + place.row, first_column + place.column);
        let within = (|row| tiles.row_at(row), |column| tiles.column_at(column));
        product.store_accumulators(share.output(*c, product), mine, &accumulators, within, self.width);
    }

    /// Starts the copies of a k-block into a stage.
    #[device]
    fn copy(
        &self,
        (a, b): (&Vec<Copy>, &Vec<Copy>),
        (n, k): (Reg<u32>, Reg<u32>),
        stage: Reg<u32>,
        k_block: Reg<u32>,
    ) {
        let (bm, bn, bk) = self.tiles.block;
        let (a_stage, b_stage, first) = (stage * (bk * bm), stage * (bk * bn), k_block * bk);
        let (a_from, b_from) = (first.convert::<u64>(), first.convert::<u64>() * n.convert::<u64>());
        let left = k - first;
        if left >= bk {
            for copy in a {
                copy.start(a_from, a_stage);
            }
            for copy in b {
                copy.start(b_from, b_stage);
            }
        } else {
            for copy in a {
                copy.start_last(a_from, a_stage, left);
            }
            for copy in b {
                copy.start_last(b_from, b_stage, left);
            }
        }
    }

    /// The stage after `stage`.
    #[device]
    fn after(&self, stage: Reg<u32>) -> Reg<u32> {
        let next = stage + 1;
        next.eq(self.tiles.stages).select(0u32, next)
    }
}
