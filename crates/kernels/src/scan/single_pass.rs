//! The scan that runs at the speed of memory: one launch, every element read once and written once.
//!
//! As many CTAs as fit the device take tile after tile. A CTA scans a tile in registers. Each warp has a run of rows, each row 32
//! vectors of 16 bytes, so that every load and store of a warp is one line after the other:
//!
//! ```text
//! warp 0    row 0   | lane 0: 4 elements | lane 1: 4 elements | .. | lane 31 |
//!           row 1   | ..
//! warp 1    row 0   | ..
//! ```
//!
//! From the inside out: a lane scans its vector, the lanes of a row their vectors' ends, the rows of a warp theirs, the warps of the CTA
//! theirs (through shared memory), and the tiles by [look-back](super::look_back). Then each lane combines what stands before its
//! vector with the vector's elements, and stores them.
//!
//! Nothing is waited for that was not asked for long before. A CTA has several tiles at once, and in round k its warps
//!
//! ```text
//! workers     combine tile k | start to fetch tile k + depth | scan tile k - 2 and store it
//! last warp   take the next tile's number | publish what tile k combines to | look back from tile k - 1
//! ```
//!
//! with one barrier a round. A tile's aggregate is published a round before anybody looks for its prefix, so a look back finds what it needs at
//! once; if a CTA looked back in the round in which it publishes, all CTAs would wait for the slowest of them, again and again. Tiles wait in shared memory, where `cp.async` puts them; a lane fetches what it will itself read, so that needs
//! no barrier.

use std::iter;

use warpwright::lang::staging::Yields;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::ScanKind;
use super::block::{before_lane, scan_warp};
use super::look_back::{Chain, TileQueue};
use crate::monoid::Monoid;
use crate::operations::{OperationError, Operations, Result, Scratch};
use crate::vector;

/// The scan by `monoid`, in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SinglePass<M> {
    /// What combines.
    pub monoid: M,
    /// Whether an element's result has the element itself in it.
    pub kind: ScanKind,
    /// Threads of a CTA.
    pub threads: u32,
    /// Vectors of a lane.
    pub rows: u32,
    /// Rounds that a tile is fetched ahead.
    pub depth: u32,
    /// Windows of 32 tiles that a look back sees at once.
    pub windows: u32,
}

/// A lane's part of a tile.
#[derive(Clone, Copy, DeviceValue)]
struct Part {
    /// The index of its first element.
    start: Reg<u64>,
    /// Elements from there to the end of the input; a tile's length where there are more.
    left: Reg<u32>,
    /// Whether the whole tile is in the input.
    is_whole: Reg<bool>,
}

/// A lane's vectors, scanned.
struct Scanned<V> {
    /// The elements of each vector, each with those before it in the vector.
    rows: Vec<Vec<V>>,
    /// What stands before each vector in the warp's part of the tile.
    before_rows: Vec<V>,
    /// All of the warp's part.
    of_warp: V,
}

impl<M> SinglePass<M> {
    /// As many rows as leave the states of a lane in registers, and room for two CTAs in an SM of an H200.
    pub fn new<T: Element>(monoid: M, kind: ScanKind) -> Self
    where
        M: Monoid<T>,
    {
        const STATE_REGISTERS: u64 = 24;
        let registers = record_bytes(|| monoid.identity()).div_ceil(4).max(1);
        let rows = (STATE_REGISTERS / (u64::from(vector::width::<T>()) * registers)).clamp(1, 8) as u32;
        Self { monoid, kind, threads: 256, rows, depth: 1, windows: 8 }
    }

    /// Elements of a tile.
    pub fn tile<T: Element>(&self) -> u32 {
        self.threads * self.rows * vector::width::<T>()
    }

    /// The longest chain of combinations that leads to one of `length` results: a sum of floats is off by at most this many roundings of
    /// the sum of the magnitudes.
    pub fn rounding_steps<T: Element>(&self, length: u64) -> u64 {
        let tiles = length.div_ceil(self.tile::<T>().into());
        let within = u64::from(vector::width::<T>()) + 5 + u64::from(self.rows) + 5 + 3;
        // The longest chain is that of look-backs which all end at the tile before: one combination a tile.
        within + tiles
    }

    /// `output` = the scan of `input`. `counter`, `words` and `records` are the look-back's.
    #[kernel]
    pub fn run<T: Storable>(
        &self,
        input: &Global<T>,
        output: &mut Global<M::Output>,
        counter: &mut Global<u64>,
        words: &mut Global<u64>,
        records: &mut Global<u64>,
        length: u64,
    ) where
        M: Monoid<T>,
    {
        launch::threads(self.block());
        let monoid = &self.monoid;
        let tile_length = u64::from(self.tile::<T>());
        let tiles = ((length + (tile_length - 1)) / tile_length).convert::<u32>();
        let queue = TileQueue::new(counter, tiles);
        let chain = Chain::new(*monoid, words, records, tiles, self.windows);
        let staged = dynamic_shared::<T>((self.stages() * self.tile::<T>()) as usize);
        // What each warp's part of a tile combines to, and what stands before it: for two rounds each.
        let totals = ValueArray::shared(monoid.identity(), 2 * self.warps() as usize);
        let befores = ValueArray::shared(monoid.identity(), 2 * self.warps() as usize);
        let (thread, lane) = (thread_idx().x, lane_id());
        let (warp, warps) = (thread / 32, self.warps());
        let is_worker = thread < self.threads;

        // The tickets of this CTA: two of the rounds before, this round's, and those on their way.
        let mut tickets = vec![queue.none(), queue.none()];
        for round in 0..self.depth {
            let last_had_tile =
                if round == 0 { constant(0u32) == 0 } else { queue.has(tickets[tickets.len() - 1]) };
            if thread == 0 {
                queue.show(queue.take(last_had_tile), constant(round % 2));
            }
            sync_threads();
            let ticket = queue.see(constant(round % 2));
            if is_worker {
                self.fetch(input, &staged, constant(round), self.part::<T>(ticket.tile, length), length);
            }
            tickets.push(ticket);
        }
        let mut parity = constant(self.depth % 2);
        if thread == 0 {
            queue.show(queue.take(queue.has(tickets[tickets.len() - 1])), parity);
        }

        let mut stage = constant(0u32);
        // In the last warp's lanes: what stands in the tile of the round before each warp, and all of it together.
        let mut before_warps = monoid.identity();
        let mut aggregate = monoid.identity();
        while queue.has(tickets[0]) | queue.has(tickets[1]) | queue.has(tickets[2]) {
            if is_worker & queue.has(tickets[2]) {
                wait_async_copies(self.depth - 1);
                let loaded = self.load(&staged, stage, self.part::<T>(tickets[2].tile, length));
                let of_warp = self.scan_rows(&loaded).of_warp;
                if lane == 0 {
                    totals.set(parity * warps + warp, of_warp);
                }
            }
            sync_threads();

            let next = queue.see(parity);
            if is_worker {
                let free = self.stage_after(stage, self.depth);
                self.fetch(input, &staged, free, self.part::<T>(next.tile, length), length);
                if queue.has(tickets[0]) {
                    let part = self.part::<T>(tickets[0].tile, length);
                    let old = self.stage_after(stage, self.stages() - 2);
                    let scanned = self.scan_rows(&self.load(&staged, old, part));
                    let before_warp = befores.get(parity * warps + warp);
                    let results: Vec<_> = scanned
                        .rows
                        .iter()
                        .zip(scanned.before_rows)
                        .map(|(row, before_row)| self.after(monoid.combine(before_warp, before_row), row))
                        .collect();
                    self.store(output, part, &results);
                }
            } else {
                let mut upcoming = constant(0u64);
                if lane == 0 {
                    upcoming = queue.take(queue.has(next));
                }
                let (before_previous_warps, previous_aggregate) = (before_warps, aggregate);
                if queue.has(tickets[2]) {
                    let mut of_warps = monoid.identity();
                    if lane < warps {
                        of_warps = totals.get(parity * warps + lane);
                    }
                    let scanned = scan_warp(monoid, of_warps);
                    before_warps = before_lane(monoid, scanned);
                    aggregate = shuffle_value(scanned, warps - 1);
                    if lane == 0 {
                        chain.publish_aggregate(tickets[2], aggregate);
                    }
                }
                if queue.has(tickets[1]) {
                    let before_tile = shuffle_value(chain.before_tile(tickets[1], previous_aggregate), 0u32);
                    let before = monoid.combine(before_tile, before_previous_warps);
                    if lane < warps {
                        befores.set((1 - parity) * warps + lane, before);
                    }
                }
                if lane == 0 {
                    queue.show(upcoming, 1 - parity);
                }
            }
            for place in 1..tickets.len() {
                tickets[place - 1] = tickets[place];
            }
            let last = tickets.len() - 1;
            tickets[last] = next;
            stage = self.stage_after(stage, 1);
            parity = 1 - parity;
        }
    }

    /// Threads of a CTA: the workers, and the warp that looks back.
    fn block(&self) -> u32 {
        self.threads + 32
    }

    /// Warps that work.
    fn warps(&self) -> u32 {
        self.threads / 32
    }

    /// Tiles in shared memory at once: those on their way, this round's, and those of the two rounds before.
    fn stages(&self) -> u32 {
        self.depth + 3
    }

    /// The stage `rounds` rounds on.
    fn stage_after(&self, stage: Reg<u32>, rounds: u32) -> Reg<u32> {
        let moved = stage + rounds;
        moved.ge(self.stages()).select(moved - self.stages(), moved)
    }

    /// Scans each of this lane's vectors, in each row the lanes, and the rows.
    fn scan_rows<T: Storable>(&self, loaded: &[Vec<M::State>]) -> Scanned<M::State>
    where
        M: Monoid<T>,
    {
        let monoid = &self.monoid;
        let rows: Vec<_> = loaded.iter().map(|row| scan_vector(monoid, row)).collect();
        let mut before_rows = Vec::new();
        let mut of_warp = monoid.identity();
        for row in &rows {
            let scanned = scan_warp(monoid, row[row.len() - 1]);
            before_rows.push(monoid.combine(of_warp, before_lane(monoid, scanned)));
            of_warp = monoid.combine(of_warp, shuffle_value(scanned, 31u32));
        }
        Scanned { rows, before_rows, of_warp }
    }

    /// This lane's part of a tile.
    fn part<T: Element>(&self, tile: Reg<u32>, length: Reg<u64>) -> Part {
        let width = vector::width::<T>();
        let tile_length = u64::from(self.tile::<T>());
        let first = tile.convert::<u64>() * tile_length;
        let thread = thread_idx().x;
        let within = (thread / 32) * (32 * width * self.rows) + (thread % 32) * width;
        let start = first + within.convert::<u64>();
        let left = start.lt(length).select((length - start).min(tile_length), 0u64).convert();
        Part { start, left, is_whole: (first + tile_length).le(length) }
    }

    /// Where this lane's first vector lies in shared memory, in elements.
    fn place<T: Element>(&self, stage: Reg<u32>) -> Reg<u32> {
        stage * self.tile::<T>() + thread_idx().x * vector::width::<T>()
    }

    /// Starts to copy this lane's vectors of a tile to shared memory. Past the end of the input the last element stands in: whatever is
    /// there comes after every result that is stored.
    #[device]
    fn fetch<T: Element>(
        &self,
        input: &Global<T>,
        staged: &Shared<T>,
        stage: Reg<u32>,
        part: Part,
        length: Reg<u64>,
    ) {
        let width = vector::width::<T>();
        let to = staged.at(self.place::<T>(stage));
        if part.is_whole {
            let from = input.at(part.start);
            for row in 0..self.rows {
                copy_async(to.at(row * self.threads * width), from.at(row * 32 * width), width);
            }
        } else if part.left > 0 {
            for row in constant(0u32)..self.rows {
                let index = part.start + (row * (32 * width)).convert::<u64>();
                for position in 0..width {
                    let element = input[(index + u64::from(position)).min(length - 1)];
                    to.at(row * (self.threads * width)).at(position).store(element);
                }
            }
        }
        commit_async_copies();
    }

    /// This lane's vectors of a tile that has arrived, one a row.
    #[device]
    fn load<T: Storable>(&self, staged: &Shared<T>, stage: Reg<u32>, part: Part) -> Vec<Vec<M::State>>
    where
        M: Monoid<T>,
    {
        let width = vector::width::<T>();
        let from = staged.at(self.place::<T>(stage));
        let mut rows = Vec::new();
        for row in 0..self.rows {
            let elements = vector::load_lanes(from.at(row * self.threads * width), width, Access::new());
            let first = part.start + u64::from(row * 32 * width);
            let lift =
                |(position, element): (usize, &Reg<T>)| self.monoid.lift(*element, first + position as u64);
            rows.push(elements.iter().enumerate().map(lift).collect());
        }
        rows
    }

    /// The results of a vector whose elements are scanned, `before` standing before it.
    fn after<T: Storable>(&self, before: M::State, scanned: &[M::State]) -> Vec<M::State>
    where
        M: Monoid<T>,
    {
        let inclusive = scanned.iter().map(|state| self.monoid.combine(before, *state));
        match self.kind {
            ScanKind::Inclusive => inclusive.collect(),
            ScanKind::Exclusive => iter::once(before).chain(inclusive.take(scanned.len() - 1)).collect(),
        }
    }

    /// Stores this lane's vectors, as far as the output goes.
    #[device]
    fn store<T: Storable>(&self, output: &Global<M::Output>, part: Part, rows: &[Vec<M::State>])
    where
        M: Monoid<T>,
        M::State: Yields<M::State>,
    {
        let row = 32 * vector::width::<T>();
        let output = *output;
        let at = output.at(part.start);
        let lowered: Vec<Vec<_>> =
            rows.iter().map(|row| row.iter().map(|state| self.monoid.lower(*state)).collect()).collect();
        if part.is_whole {
            for (number, elements) in lowered.iter().enumerate() {
                vector::store(at.at(number as u32 * row), elements, Access::new());
            }
        } else {
            for (number, elements) in lowered.iter().enumerate() {
                for (position, element) in elements.iter().enumerate() {
                    let offset = number as u32 * row + position as u32;
                    if part.left > offset {
                        at.at(offset).store(*element);
                    }
                }
            }
        }
    }
}

/// A lane's states, each combined with those before it.
fn scan_vector<T: Element, M: Monoid<T>>(monoid: &M, states: &[M::State]) -> Vec<M::State> {
    let mut scanned = vec![states[0]];
    for (position, state) in states.iter().enumerate().skip(1) {
        scanned.push(monoid.combine(scanned[position - 1], *state));
    }
    scanned
}

/// Scratch memory of a stream's look-backs.
#[derive(Default)]
struct LookBackScratch {
    counter: Scratch<u64>,
    words: Scratch<u64>,
    records: Scratch<u64>,
}

/// Scans `input` into `output`, which has the same length.
pub(super) fn launch<T: Storable, M: Monoid<T>>(
    operations: &Operations,
    stream: &Stream,
    input: &Buffer<T>,
    output: &mut Buffer<M::Output>,
    configuration: SinglePass<M>,
) -> Result<LaunchCounts> {
    let length = input.len() as u64;
    if length == 0 {
        return Ok(LaunchCounts::default());
    }
    let kernel = operations.kernel(configuration, SinglePass::<M>::run::<T>)?;
    let tiles = length.div_ceil(configuration.tile::<T>().into());
    let resident = operations.resident(&kernel, configuration.block())?;
    let too_long = || OperationError::Shape {
        what: "a scan",
        reason: format!("{length} elements are more than 2^32 tiles; scan them in parts"),
    };
    // A CTA that does not fit the device at once would start only to find that nothing is left.
    let grid = u32::try_from(tiles).ok().filter(|tiles| *tiles < u32::MAX - resident);
    let grid = grid.ok_or_else(too_long)?.min(resident);
    operations.with_scratch(stream, |scratch: &mut LookBackScratch| {
        let record_bytes = record_bytes(|| configuration.monoid.identity());
        let record_words = (2 * tiles * record_bytes).div_ceil(8) as usize;
        let counter = scratch.counter.at_least_kept(stream, 1)?;
        let words = scratch.words.at_least_kept(stream, tiles as usize)?;
        let records = scratch.records.at_least(operations.device(), record_words)?;
        let arguments = (input, output, counter, words, records, length);
        Ok(kernel.launch(stream, grid, configuration.block(), arguments)?)
    })
}
