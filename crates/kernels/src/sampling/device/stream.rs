//! One pass over a row that nothing keeps: its highest logit, the candidates of filters, and sums.
//!
//! ```text
//! tiles 1 to 4          the k-th highest of the threads' highest keys bounds the k-th highest key of the row
//! after 8, 16, 32 ..    the bound rises, and the candidates below it are dropped
//! each tile             keys from the bound on are candidates; the next ones are being copied
//! each segment          of 256 tokens: the sum of the masses relative to its own highest key
//! ```
//!
//! A thread copies its own part of a tile to shared memory that no other thread reads: it waits for
//! nothing but its own copies. The part of a warp is consecutive, and has whole segments.
//!
//! (H200: shared memory holds 24 to 30 rows of 1 MiB at a time, each for 14 to 19 us, which is longer
//! than its load. Without keeping rows, 128 of them took 49 us instead of 98. With 64 KiB in flight on an
//! SM, in registers, the highest logits alone took 44 us: 2.9 TB/s.)

use warpwright::lang::async_copy::{commit_async_copies, copy_async_or_zero, wait_async_copies};
use warpwright::prelude::*;

use super::candidates::Candidates;
use super::kernel::Sample;
use super::mass::{NEGATIVE_INFINITY, RelativeMasses, key_of, logit_of};
use super::search::KeysOfLogits;
use super::segments::{Segments, relative_word};
use crate::rows::{Chunk, RowElement};
use crate::sampling::reference::SEGMENT;

/// Bytes of a tile that a thread loads.
const THREAD_BYTES: u32 = 32;
/// Vectors of a tile that a thread loads, at most.
const MAX_VECTORS: u32 = 8;
/// Tiles that give the first bound.
pub(in super::super) const FIRST_TILES: u32 = 4;
/// Candidates up to which a sort takes less time than to find a last bound: 0.7 us. (H200)
const FEW_CANDIDATES: u32 = 128;

/// The tiles that are being copied, a stage of shared memory for each.
pub(super) struct Tiles<T: RowElement> {
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

    /// Elements of a tile.
    fn tile<T: RowElement>(&self) -> u32 {
        self.stage_bytes::<T>() / T::BYTES
    }
}

/// What a pass over a row finds beside its highest key.
pub(super) struct Wanted<'l> {
    /// Where the highest keys of the row are sent, some more than `count`; 0: none.
    pub(super) candidates: &'l Candidates,
    pub(super) count: Reg<u32>,
    /// Where sums of masses are stored, if they are wanted.
    pub(super) segments: &'l Segments,
    pub(super) masses: RelativeMasses,
    pub(super) has_sums: Reg<bool>,
}

#[device]
impl Sample {
    /// Starts the copies of a row's first tiles.
    pub(super) fn open<T: RowElement>(&self, row: KeysOfLogits<T>) -> Tiles<T> {
        let (lanes, vectors) = (self.lanes, self.tile_vectors::<T>());
        let memory = dynamic_shared_aligned::<T>(self.stages * self.tile::<T>(), 16);
        let first = self.first::<T>();
        let tiles = Tiles { row, own: memory.at(first), lanes, vectors, stride: 32 * lanes };
        self.begin(&tiles);
        tiles
    }

    /// Starts the copies of the first tiles.
    fn begin<T: RowElement>(&self, tiles: &Tiles<T>) {
        for stage in (0..self.stages).map(|stage| stage * self.tile::<T>()) {
            tiles.copy(constant(stage), self.first::<T>() + stage);
        }
    }

    /// Waits for this thread's logits of the tile in `stage`, and starts the copies of another tile to it: those
    /// logits, and the next stage.
    fn take<T: RowElement>(
        &self,
        tiles: &Tiles<T>,
        stage: Reg<u32>,
        first: Reg<u32>,
    ) -> (Vec<Vec<Reg<f32>>>, Reg<u32>) {
        wait_async_copies(self.stages - 1);
        let here = tiles.load(stage, first);
        tiles.copy(stage, first + self.stages * self.tile::<T>());
        let next = stage + self.tile::<T>();
        let next = next.eq(self.stages * self.tile::<T>()).select(0u32, next);
        (here.iter().map(Chunk::values).collect(), next)
    }

    /// Reads a row again. `work` of a warp has the number of a segment, and of each of this lane's logits of it,
    /// whether it is in the row, its column, and the logit.
    pub(super) fn read_again<T: RowElement>(
        &self,
        tiles: &Tiles<T>,
        work: impl Fn(Reg<u32>, &[(Reg<bool>, Reg<u32>, Reg<f32>)]),
    ) {
        let (tile, stride) = (self.tile::<T>(), tiles.stride);
        self.begin(tiles);
        let mut first = self.first::<T>();
        let mut stage = constant(0u32);
        for _ in constant(0u32)..self.vocabulary.div_ceil(tile) {
            let (logits, next) = self.take(tiles, stage, first);
            stage = next;
            for (part, of_segment) in (0u32..).zip(logits.chunks((SEGMENT / stride) as usize)) {
                let column = first + part * SEGMENT;
                let segment = warp::broadcast(column / SEGMENT, 0);
                if segment < self.vocabulary.div_ceil(SEGMENT) {
                    let mut own = vec![];
                    for (vector, logits) in (0u32..).zip(of_segment) {
                        let column = column + vector * stride;
                        for (lane, logit) in (0u32..).zip(logits) {
                            own.push((column.lt(self.vocabulary), column + lane, *logit));
                        }
                    }
                    work(segment, &own);
                }
            }
            first = first + tile;
        }
        wait_async_copies(0);
        sync_threads();
    }

    /// The highest key of this thread, and that of the row; and a bound: the row's keys from it on are
    /// candidates.
    pub(super) fn stream<T: RowElement>(
        &self,
        tiles: &Tiles<T>,
        wanted: &Wanted<'_>,
    ) -> (Reg<u32>, Reg<u32>, Reg<u32>) {
        let (tile, stride) = (self.tile::<T>(), tiles.stride);
        let mut first = self.first::<T>();
        // The highest logit of a vector; past the end of the row, minus infinity.
        let highest_of = |column: Reg<u32>, logits: &[Reg<f32>]| {
            let highest = logits.iter().copied().reduce(|a, b| a.max_nan(b)).expect("a vector has elements");
            column.lt(self.vocabulary).select(highest, f32::NEG_INFINITY)
        };
        // A logit of NaN is none's bound.
        let mut bound = constant(f32::NAN);
        if wanted.count > 0 {
            let mut highest = constant(f32::NEG_INFINITY);
            wait_async_copies(self.stages - FIRST_TILES);
            for at in 0..FIRST_TILES {
                for (vector, chunk) in (0..).zip(tiles.load(constant(at * tile), first + at * tile)) {
                    let column = first + (at * tile + vector * stride);
                    highest = highest.max_nan(highest_of(column, &chunk.values()));
                }
            }
            (bound, _) = self.bound(wanted, highest, constant(NEGATIVE_INFINITY));
        }
        let mut highest = constant(f32::NEG_INFINITY);
        let mut stage = constant(0u32);
        for number in constant(0u32)..self.vocabulary.div_ceil(FIRST_TILES * tile) {
            if wanted.count > 0 && number > 1 && (number & (number - 1)) == 0 {
                (bound, _) = self.bound(wanted, highest, key_of(bound));
            }
            for _ in 0..FIRST_TILES {
                let (logits, next) = self.take(tiles, stage, first);
                stage = next;
                let column = |vector: u32| first + vector * stride;
                let most: Vec<_> =
                    (0..).zip(&logits).map(|(vector, logits)| highest_of(column(vector), logits)).collect();
                let highest_here =
                    most.iter().copied().reduce(|a, b| a.max_nan(b)).expect("a tile has vectors");
                highest = highest.max_nan(highest_here);
                if highest_here >= bound {
                    let mut found = vec![];
                    for (vector, logits) in (0..).zip(&logits) {
                        for (lane, logit) in (0..).zip(logits) {
                            let is_one = logit.ge(bound) & column(vector).lt(self.vocabulary);
                            found.push((is_one, key_of(*logit), column(vector) + lane));
                        }
                    }
                    wanted.candidates.add(&found);
                }
                if wanted.has_sums {
                    let vectors = (SEGMENT / stride) as usize;
                    let segments = logits.chunks(vectors).zip(most.chunks(vectors));
                    for (segment, (logits, most)) in (0u32..).zip(segments) {
                        self.sum(wanted, first + segment * SEGMENT, logits, most);
                    }
                }
                first = first + tile;
            }
        }
        wait_async_copies(0);
        let top = block::reduce_max(key_of(highest));
        if wanted.candidates.count() > FEW_CANDIDATES {
            (bound, _) = self.bound(wanted, highest, key_of(bound));
        }
        sync_threads();
        (key_of(highest), top, key_of(bound))
    }

    /// This thread's first element of a tile.
    fn first<T: RowElement>(&self) -> Reg<u32> {
        thread_idx().x / 32 * (self.tile::<T>() / self.threads * 32) + lane_id() * self.lanes
    }

    /// A logit that the wanted number of the threads' highest ones reach, at least that of `least`, and the
    /// highest key. Candidates below are dropped.
    fn bound(&self, wanted: &Wanted<'_>, highest: Reg<f32>, least: Reg<u32>) -> (Reg<f32>, Reg<u32>) {
        let highest = key_of(highest);
        let most = block::reduce_max(highest);
        let bound = wanted.candidates.bound(highest, wanted.count, (least, most));
        wanted.candidates.keep_from(bound);
        (logit_of(bound), most)
    }

    /// Stores the sum of a segment: this lane's vectors, the first of which is at `column`, and their highest
    /// logits. A warp makes the call.
    fn sum(&self, wanted: &Wanted<'_>, column: Reg<u32>, logits: &[Vec<Reg<f32>>], most: &[Reg<f32>]) {
        let segment = warp::broadcast(column / SEGMENT, 0);
        if segment < wanted.segments.count {
            let highest = most.iter().copied().reduce(|a, b| a.max_nan(b)).expect("a segment has vectors");
            let highest = warp::reduce_max(key_of(highest));
            let maximum = logit_of(highest);
            let mut sum = constant(0u32);
            for (vector, logits) in (0u32..).zip(logits) {
                let is_inside = (column + vector * (32 * self.lanes)).lt(self.vocabulary);
                sum = sum + is_inside.select(wanted.masses.sum(logits, maximum), 0u32);
            }
            let sum = warp::reduce_sum(sum);
            if lane_id() == 0 {
                wanted.segments.words.at(segment).store(relative_word(highest, sum));
            }
        }
    }
}
