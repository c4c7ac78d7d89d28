//! One pass over a row that nothing keeps: its highest logit, and the candidates of top-k.
//!
//! ```text
//! tiles 1 to 4          the k-th highest of the threads' highest keys bounds the k-th highest key of the row
//! after 8, 16, 32 ..    the bound rises
//! each tile             keys from the bound on are candidates; the next ones are being copied
//! ```
//!
//! A thread copies its own part of a tile to shared memory that no other thread reads: it waits for
//! nothing but its own copies.
//!
//! (H200: shared memory holds 24 to 30 rows of 1 MiB at a time, each for 14 to 19 us, which is longer
//! than its load. Without keeping rows, 128 of them took 49 us instead of 98. With 64 KiB in flight on an
//! SM, in registers, the highest logits alone took 44 us: 2.9 TB/s.)

use warpwright::lang::async_copy::{commit_async_copies, copy_async_or_zero, wait_async_copies};
use warpwright::prelude::*;

use super::candidates::Candidates;
use super::kernel::Sample;
use super::mass::{NEGATIVE_INFINITY, key_of, logit_of};
use super::search::{Keys, KeysOfLogits};
use crate::rows::{Chunk, RowElement};

/// Bytes of a tile that a thread loads.
const THREAD_BYTES: u32 = 32;
/// Vectors of a tile that a thread loads, at most.
const MAX_VECTORS: u32 = 8;
/// Tiles that give the first bound.
pub(in super::super) const FIRST_TILES: u32 = 4;

/// The tiles that are being copied, a stage of shared memory for each.
struct Tiles<T: RowElement> {
    row: KeysOfLogits<T>,
    /// This thread's vectors.
    own: Shared<T>,
    /// Elements of a vector, vectors of a thread, and elements from vector to vector.
    lanes: u32,
    vectors: u32,
    stride: u32,
}

#[device]
impl<T: RowElement> Tiles<T> {
    /// Starts the copies of this thread's part of the tile that begins with `first` for this thread,
    /// to the stage that begins with element `to`; zeros past the end of the row. (H200, 128 rows of 248,320:
    /// copies of the row's last vector in their place, by all threads, take 50.7 us instead of 39.4.)
    fn copy(&self, to: Reg<u32>, first: Reg<u32>) {
        if self.is_copied() {
            let own = self.own.at(to);
            for vector in (0..self.vectors).map(|vector| vector * self.stride) {
                let (column, to) = (first + vector, own.at(vector));
                let is_inside = column.lt(self.row.vocabulary);
                copy_async_or_zero(to, self.row.inside(column, self.lanes), self.lanes, is_inside);
            }
            commit_async_copies();
        }
    }

    /// This thread's part of a tile that has arrived.
    fn load(&self, from: Reg<u32>, first: Reg<u32>) -> Vec<Chunk<T>> {
        let own = self.own.at(from);
        let load = |vector: u32| match self.is_copied() {
            true => Chunk::load(own.at(vector), self.lanes, Access::new()),
            false => self.row.load(first + vector, self.lanes),
        };
        (0..self.vectors).map(|vector| load(vector * self.stride)).collect()
    }
}

impl<T: RowElement> Tiles<T> {
    /// Whether asynchronous copies take vectors of this size: from 4 bytes on.
    fn is_copied(&self) -> bool {
        self.lanes * T::BYTES >= 4
    }
}

impl Sample {
    /// Vectors of a tile that a thread loads.
    fn tile_vectors<T: RowElement>(&self) -> u32 {
        (THREAD_BYTES / (self.lanes * T::BYTES)).clamp(1, MAX_VECTORS)
    }

    /// Bytes of a stage: a tile.
    pub(in super::super) fn stage_bytes<T: RowElement>(&self) -> u32 {
        self.threads * self.lanes * self.tile_vectors::<T>() * T::BYTES
    }
}

#[device]
impl Sample {
    /// This thread's highest key. With `wanted` above 0, all keys that are among the `wanted` highest of
    /// the row, and some more, are sent to the candidates.
    pub(super) fn stream<T: RowElement>(
        &self,
        keys: &Keys<KeysOfLogits<T>>,
        candidates: &Candidates,
        wanted: Reg<u32>,
    ) -> Reg<u32> {
        let (lanes, stride) = (self.lanes, self.threads * self.lanes);
        let vectors = self.tile_vectors::<T>();
        let tile = stride * vectors;
        let memory = dynamic_shared_aligned::<T>(self.stages * tile, 16);
        let own = memory.at(thread_idx().x * lanes);
        let tiles = Tiles { row: keys.memory, own, lanes, vectors, stride };
        // The highest logit of a vector; past the end of the row, minus infinity.
        let highest_of = |column: Reg<u32>, logits: &[Reg<f32>]| {
            let highest = logits.iter().copied().reduce(|a, b| a.max_nan(b)).expect("a vector has elements");
            column.lt(self.vocabulary).select(highest, f32::NEG_INFINITY)
        };
        let mut first = thread_idx().x * lanes;
        for stage in 0..self.stages {
            tiles.copy(constant(stage * tile), first + stage * tile);
        }
        // A logit of NaN is none's bound.
        let mut bound = constant(f32::NAN);
        if wanted > 0 {
            let mut highest = constant(f32::NEG_INFINITY);
            wait_async_copies(self.stages - FIRST_TILES);
            for at in 0..FIRST_TILES {
                for (vector, chunk) in (0..).zip(tiles.load(constant(at * tile), first + at * tile)) {
                    let column = first + (at * tile + vector * stride);
                    highest = highest.max_nan(highest_of(column, &chunk.values()));
                }
            }
            bound = self.bound(candidates, highest, wanted);
        }
        let mut highest = constant(f32::NEG_INFINITY);
        let mut stage = constant(0u32);
        for number in constant(0u32)..self.vocabulary.div_ceil(FIRST_TILES * tile) {
            if wanted > 0 && number > 1 && (number & (number - 1)) == 0 {
                bound = self.bound(candidates, highest, wanted);
            }
            for _ in 0..FIRST_TILES {
                wait_async_copies(self.stages - 1);
                let here = tiles.load(stage, first);
                tiles.copy(stage, first + self.stages * tile);
                let next = stage + tile;
                stage = next.eq(self.stages * tile).select(0u32, next);
                for (vector, chunk) in (0..).zip(&here) {
                    let (column, logits) = (first + vector * stride, chunk.values());
                    let most = highest_of(column, &logits);
                    highest = highest.max_nan(most);
                    if most >= bound && column < self.vocabulary {
                        for (lane, logit) in (0..).zip(&logits) {
                            candidates.send(keys, logit.ge(bound), key_of(*logit), column + lane);
                        }
                    }
                }
                first = first + tile;
            }
        }
        wait_async_copies(0);
        sync_threads();
        key_of(highest)
    }

    /// A logit that `wanted` of the threads' highest ones reach.
    fn bound(&self, candidates: &Candidates, highest: Reg<f32>, wanted: Reg<u32>) -> Reg<f32> {
        logit_of(candidates.bound(key_of(highest), wanted).max(NEGATIVE_INFINITY))
    }
}
