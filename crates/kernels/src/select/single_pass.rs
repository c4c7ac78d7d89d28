//! The selection in one launch: every element is read once, every selected one written once.
//!
//! CTAs process tile after tile from a pipeline in shared memory, and learn how many elements are
//! selected before each tile by the [look-back](crate::look_back) of the scan. In the
//! round of tile k:
//!
//! ```text
//! tile k + 1, ..  are loaded
//! tile k          is packed in place, by each warp its own segment; the count is published
//! tile k - 1      waits
//! tile k - 2      is stored: the selected elements of each warp, from its offset on
//! ```
//!
//! As in the scan, the counts that a look-back needs were published a whole round before. (H200:
//! looking back in the round in which tiles are published reaches 0.20 TB/s.)
//!
//! A warp packs 32 elements by one vote: the bits of the ballot below a lane count the selected
//! elements before its own.
//!
//! ```text
//! segment   a b c d | e f g h | ..        lanes 0 .. 3, row by row (4 lanes here, 32 in the kernel)
//! selected  1 0 0 1 | 1 0 1 0
//! packed    a d e g                       nothing is written beyond the row that was just read
//! ```

use std::hash::Hash;

use warpwright::arch::Capability;
use warpwright::lang::comparison::Equatable;
use warpwright::lang::fence::fence_proxy_async_shared;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

use crate::collective::{before_lane, scan_warp};
use crate::look_back::aggregates::Chain;
use crate::look_back::tickets::{Ticket, TileQueue};
use crate::look_back::tile_pipeline::{PipelineShape, Tile, TilePipeline, shift_in, shift_out};
use crate::monoid::Sum;

/// Selects elements. A predicate is build-time configuration, like a
/// [`Monoid`](crate::monoid::Monoid).
pub trait Predicate<T: Element>: Copy + Eq + Hash + Send + Sync + 'static {
    /// Whether `element` is selected.
    fn selects(&self, element: Reg<T>) -> Reg<bool>;
}

/// Which elements are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Selector<P> {
    /// Those that satisfy the predicate.
    If(P),
    /// Those whose flag is not 0.
    Flagged,
    /// Those that differ from the one before.
    Changed,
}

/// The selection in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Select<P> {
    selector: Selector<P>,
    /// Worker threads.
    threads: u32,
    /// Elements of a lane.
    rows: u32,
    /// Stages of the pipeline.
    stages: u32,
    /// Whether tiles are loaded by bulk copies: sm_90.
    is_bulk: bool,
}

/// Rounds from the publication of a tile's count to its store.
const LAG: u32 = 2;
/// Windows of 32 tiles that a look-back reads at once.
const WINDOWS: u32 = 9;
/// Rows that are stored between two checks for the end.
const ROWS_AT_ONCE: u32 = 4;

impl<P> Select<P> {
    /// The configuration for a GPU of that capability: two CTAs fit an SM of an H200, and one any.
    pub(super) fn new<T: Element>(selector: Selector<P>, capability: &Capability) -> Self {
        const ROW_BYTES: u32 = 112;
        const MAX_ROWS: u32 = 32;
        const THREADS: u32 = 256;
        const OTHER_BYTES: u32 = 2 << 10;
        let is_flagged = matches!(selector, Selector::Flagged);
        let stages = if is_flagged { 3 } else { 4 };
        let bytes = capability.shared_bytes_per_cta_opt_in - OTHER_BYTES;
        let fitting = bytes / (stages * THREADS * (T::BYTES + u32::from(is_flagged)));
        let rows = (ROW_BYTES / T::BYTES).min(MAX_ROWS).min(fitting);
        let is_bulk = capability.compute_capability >= (9, 0);
        Self { selector, threads: THREADS, rows, stages, is_bulk }
    }

    /// Threads of a CTA: the workers, and the warp that looks back.
    pub(super) fn block(&self) -> u32 {
        self.threads + 32
    }

    /// Elements of a warp's part of a tile.
    fn segment(&self) -> u32 {
        32 * self.rows
    }

    /// Elements of a tile.
    pub(super) fn tile(&self) -> u32 {
        self.threads * self.rows
    }

    /// Tiles in flight at the start of a round, its own included.
    fn ahead(&self) -> u32 {
        self.stages - LAG
    }

    /// Tickets that a CTA holds: those of the tiles in flight, and of the next one.
    pub(super) fn held(&self) -> u32 {
        self.ahead() + 1
    }

    /// `output` = the selected elements of `input`, `count[0]` = their number. `flags` are read
    /// only for [`Selector::Flagged`]. `counter` and `words` are the workspace of the look-back.
    #[kernel]
    pub(super) fn run<T: Storable + Equatable>(
        &self,
        input: &Global<T>,
        flags: &Global<u8>,
        output: &mut Global<T>,
        count: &mut Global<u64>,
        counter: &mut Global<u64>,
        words: &mut Global<u64>,
        length: u64,
    ) where
        P: Predicate<T>,
    {
        launch::threads(self.block());
        launch::blocks_per_sm(2);
        let tile_length = u64::from(self.tile());
        let tiles = ((length + (tile_length - 1)) / tile_length).convert::<u32>();
        let queue = TileQueue::new(counter, tiles, self.held());
        // A count has 32 bits, and so has the sum of a look-back: it covers at most the tiles of
        // the tickets that all CTAs hold.
        let chain = Chain::new::<u32>(Sum, words, &words.cast(), WINDOWS);
        let pipeline = self.pipeline::<T>();
        let flag_pipeline = matches!(self.selector, Selector::Flagged).then(|| self.pipeline::<u8>());
        let warps = self.threads / 32;
        // Of each warp, its count and its offset.
        let totals = shared_array::<u32>(warps);
        let befores = shared_array::<u64>(warps);
        let (thread, lane) = (thread_idx().x, lane_id());
        let warp = thread / 32;
        let is_worker = thread < self.threads;
        let is_producer = thread == self.threads;
        let fetch = |stage: Reg<u32>, ticket: Ticket| {
            let tile = Tile::of(ticket.tile, self.tile(), length);
            pipeline.fetch(input, stage, tile, is_producer);
            if let Some(flag_pipeline) = &flag_pipeline {
                flag_pipeline.fetch(flags, stage, tile, is_producer);
            }
        };

        let mut tickets = queue.first();
        for stage in 0..self.ahead() {
            fetch(constant(stage), tickets[stage as usize]);
        }
        let mut state = PipelineState::start();
        // The tiles that are published and not yet stored, the latest first: the ticket; in
        // workers, the count of the warp; in the last warp, the offset of each warp in the tile,
        // and the count of the tile.
        let none = Ticket { tile: tiles, ..tickets[0] };
        let mut published = vec![none; LAG as usize];
        let mut packed = vec![constant(0u32); LAG as usize];
        let mut before_warps = vec![constant(0u32); LAG as usize];
        let mut aggregates = vec![constant(0u32); LAG as usize];
        // In the last warp, the first tile whose offset it does not know, and the offset of that
        // tile.
        let mut known_to = constant(0u32);
        let mut before = constant(0u64);
        let oldest = LAG as usize - 1;
        let mut is_running = queue.has(tickets[0]);
        while is_running {
            let stage = state.stage();
            let (ticket, due) = (tickets[0], published[oldest]);
            let due_stage = stage.lt(LAG).select(stage + (self.stages - LAG), stage - LAG);
            let mut upcoming = constant(0u64);
            let mut now = constant(0u32);
            if is_worker {
                if queue.has(ticket) {
                    let tile = Tile::of(ticket.tile, self.tile(), length);
                    let segment = pipeline.at::<T>(stage).at(warp * self.segment());
                    let flag_segment = flag_pipeline
                        .as_ref()
                        .map(|pipeline| pipeline.at::<u8>(stage).at(warp * self.segment()));
                    pipeline.wait(state);
                    if let Some(flag_pipeline) = &flag_pipeline {
                        flag_pipeline.wait(state);
                    }
                    if !tile.is_whole {
                        self.fill(input, segment, tile);
                        if let Some(flag_segment) = flag_segment {
                            self.fill(flags, flag_segment, tile);
                        }
                        sync_warp(ALL_LANES);
                    }
                    now = self.pack(input, segment, flag_segment, tile);
                    if lane == 0 {
                        totals.at(warp).store(now);
                    }
                }
            } else {
                if (lane == 0) & queue.has(ticket) {
                    upcoming = queue.take();
                }
                if queue.has(due) {
                    before += chain.between::<u32>(known_to, due).convert::<u64>();
                    if lane < warps {
                        befores.at(lane).store(before + before_warps[oldest].convert::<u64>());
                    }
                    before += aggregates[oldest].convert::<u64>();
                    known_to = due.tile + 1;
                    if (lane == 0) & due.tile.eq(tiles - 1) {
                        count[0u32] = before;
                    }
                }
                if (lane == 0) & queue.has(ticket) {
                    queue.show(upcoming);
                }
            }
            sync_threads();

            let next = queue.see();
            let mut of_warps = constant(0u32);
            let mut aggregate = constant(0u32);
            if !is_worker {
                if queue.has(ticket) {
                    if lane < warps {
                        of_warps = totals.at(lane).load();
                    }
                    let scanned = scan_warp::<u32, Sum>(&Sum, of_warps);
                    of_warps = before_lane::<u32, Sum>(&Sum, scanned);
                    aggregate = scanned.shuffle(warps - 1);
                    if lane == 0 {
                        chain.publish(ticket, aggregate);
                    }
                }
            } else if queue.has(due) {
                let segment = pipeline.at::<T>(due_stage).at(warp * self.segment());
                self.send(output.at(befores.at(warp).load()), segment, packed[oldest]);
            }
            if self.is_bulk {
                // The next bulk copy writes where threads have read and written.
                fence_proxy_async_shared();
            }
            sync_threads();
            fetch(due_stage, tickets[self.ahead() as usize]);

            shift_in(&mut published, ticket);
            shift_in(&mut packed, now);
            shift_in(&mut before_warps, of_warps);
            shift_in(&mut aggregates, aggregate);
            shift_out(&mut tickets, next);
            state.advance(self.stages);
            is_running = queue.has(tickets[0]);
            for tile in &published {
                is_running = is_running | queue.has(*tile);
            }
        }
    }

    /// A pipeline for the elements, or the flags.
    #[track_caller]
    fn pipeline<T: Storable>(&self) -> TilePipeline<T> {
        TilePipeline::new(PipelineShape {
            workers: self.threads,
            tile_length: self.tile(),
            stage_bytes: self.tile() * T::BYTES,
            stages: self.stages,
            is_bulk: self.is_bulk,
        })
    }

    /// Elements of this warp's segment that are inside the input.
    #[track_caller]
    fn inside(&self, tile: Tile) -> Reg<u32> {
        let first = thread_idx().x / 32 * self.segment();
        tile.length.max(first) - first
    }

    /// Loads this warp's segment of a partial tile. The last element of the input stands for those
    /// past its end, which are not selected.
    #[device]
    fn fill<T: Element>(&self, input: &Global<T>, segment: Shared<T>, tile: Tile) {
        let from = input.at(tile.first);
        let first = thread_idx().x / 32 * self.segment();
        for place in (lane_id()..self.segment()).step_by(32) {
            let element = from.at((first + place).min(tile.length - 1)).load();
            segment.at(place).store(element);
        }
    }

    /// Moves the selected elements of a segment to its front, in order, and returns their number.
    #[device]
    fn pack<T: Storable + Equatable>(
        &self,
        input: &Global<T>,
        segment: Shared<T>,
        flags: Option<Shared<u8>>,
        tile: Tile,
    ) -> Reg<u32>
    where
        P: Predicate<T>,
    {
        let (lane, inside) = (lane_id(), self.inside(tile));
        let mine = segment.at(lane);
        let elements: Vec<_> = (0..self.rows).map(|row| mine.at(32 * row).load()).collect();
        // The segment before is another warp's, which may be packed already.
        let mut neighbors = Vec::new();
        if matches!(self.selector, Selector::Changed) {
            let mut neighbor = elements[0];
            if lane > 0 {
                neighbor = segment.at(lane - 1).load();
            } else {
                let first = tile.first + (thread_idx().x / 32 * self.segment()).convert::<u64>();
                if inside > 0 {
                    neighbor = input.at(first.max(1u64) - 1).load();
                }
            }
            neighbors.push(neighbor);
            neighbors.extend((1..self.rows).map(|row| segment.at(lane + (32 * row - 1)).load()));
        }
        // All lanes read before any writes: votes do not order memory.
        sync_warp(ALL_LANES);
        let mut packed = constant(0u32);
        for (row, element) in elements.iter().enumerate() {
            let place = lane + 32 * row as u32;
            let is_selected = match &self.selector {
                Selector::If(predicate) => predicate.selects(*element),
                Selector::Flagged => match flags {
                    Some(flags) => flags.at(place).load().ne(0u8),
                    None => constant(false),
                },
                Selector::Changed if row == 0 => {
                    let is_first = tile.first.eq(0u64) & thread_idx().x.eq(0u32);
                    element.ne(neighbors[row]) | is_first
                }
                Selector::Changed => element.ne(neighbors[row]),
            };
            let is_selected = is_selected & place.lt(inside);
            let votes = ballot(is_selected, ALL_LANES);
            let to = packed + (votes & lane_mask_lt()).popc();
            if is_selected {
                segment.at(to).store(*element);
            }
            packed += votes.popc();
        }
        packed
    }

    /// Stores the first `packed` elements of a segment.
    #[device]
    fn send<T: Element>(&self, to: Global<T>, segment: Shared<T>, packed: Reg<u32>) {
        let lane = lane_id();
        for first in (0..self.rows).step_by(ROWS_AT_ONCE as usize) {
            if 32 * first < packed {
                for row in first..(first + ROWS_AT_ONCE).min(self.rows) {
                    let place = lane + 32 * row;
                    if place < packed {
                        to.at(place).store(segment.at(place).load());
                    }
                }
            }
        }
    }
}
