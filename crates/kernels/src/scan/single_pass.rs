//! The scan that runs at the speed of memory: one launch, every element read once and written once.
//!
//! A CTA scans one tile in registers. Each warp has a run of rows, each row 32 vectors of 16 bytes, so that every load and store of a
//! warp is one line after the other:
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

use std::iter;

use warpwright::lang::staging::Yields;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::ScanKind;
use super::block::{before_lane, scan_warp};
use super::look_back::{Chain, Ticket};
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
}

/// A warp's part of a tile: where it begins, and how many elements there are from there on.
#[derive(Clone, Copy, DeviceValue)]
struct Part {
    start: Reg<u64>,
    left: Reg<u64>,
}

impl<M> SinglePass<M> {
    /// The configuration that is fastest on an H200.
    pub fn new<T: Element>(monoid: M, kind: ScanKind) -> Self {
        Self { monoid, kind, threads: 256, rows: 8 }
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

    /// `output` = the scan of `input`, by one CTA for each tile. `counter`, `words` and `records` are the look-back's.
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
        launch::threads(self.threads);
        let monoid = &self.monoid;
        let tiles = grid_dim().x;
        let ticket = Ticket::take(counter, tiles);
        let (warp, lane) = (thread_idx().x / 32, lane_id());
        let width = vector::width::<T>();

        // Load: all vectors are on their way before the first is used.
        let first = ticket.tile.convert::<u64>() * u64::from(self.tile::<T>());
        let start = first + (warp * (32 * width * self.rows) + lane * width).convert::<u64>();
        let part = Part { start, left: (start < length).select(length - start, 0u64) };
        let is_whole = first + u64::from(self.tile::<T>()) <= length;
        let loaded = self.load(input, part, is_whole);

        // Scan each lane's vectors, and in each row the lanes.
        let rows: Vec<_> = loaded.iter().map(|row| scan_vector(monoid, row)).collect();
        let mut before_rows = Vec::new();
        let mut of_warp = monoid.identity();
        for row in &rows {
            let scanned = scan_warp(monoid, row[row.len() - 1]);
            before_rows.push(monoid.combine(of_warp, before_lane(monoid, scanned)));
            of_warp = monoid.combine(of_warp, shuffle_value(scanned, 31u32));
        }

        // The first warp scans the warps, and learns what stands before the tile.
        let before_warp = self.before_warp(of_warp, |aggregate| {
            Chain::new(*monoid, words, records, tiles).prefix_before(ticket, aggregate)
        });

        let results: Vec<_> = rows
            .iter()
            .zip(before_rows)
            .map(|(row, before_row)| self.after(monoid.combine(before_warp, before_row), row))
            .collect();
        self.store(output, part, is_whole, &results);
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

    /// What stands before this warp: what `look_back`, given the tile's aggregate in lane 0 of the first warp, says stands before the tile,
    /// and the CTA's warps below.
    #[device]
    fn before_warp<T: Storable>(
        &self,
        of_warp: M::State,
        look_back: impl FnOnce(M::State) -> M::State,
    ) -> M::State
    where
        M: Monoid<T>,
    {
        let monoid = &self.monoid;
        let (warp, lane) = (thread_idx().x / 32, lane_id());
        let warps = self.threads / 32;
        let shared = ValueArray::shared(monoid.identity(), warps as usize);
        if lane == 0 {
            shared.set(warp, of_warp);
        }
        sync_threads();
        if warp == 0 {
            let mut mine = monoid.identity();
            if lane < warps {
                mine = shared.get(lane);
            }
            let scanned = scan_warp(monoid, mine);
            let before = look_back(shuffle_value(scanned, warps - 1));
            let before = monoid.combine(shuffle_value(before, 0u32), before_lane(monoid, scanned));
            if lane < warps {
                shared.set(lane, before);
            }
        }
        sync_threads();
        shared.get(warp)
    }

    /// This lane's vectors, one a row; past the end of the input there are identities.
    #[device]
    fn load<T: Storable>(&self, input: &Global<T>, part: Part, is_whole: Reg<bool>) -> Vec<Vec<M::State>>
    where
        M: Monoid<T>,
    {
        let width = vector::width::<T>();
        let row = 32 * width;
        let mut rows = vec![vec![self.monoid.identity(); width as usize]; self.rows as usize];
        if is_whole {
            let streaming = Access::new().evicted(Eviction::NoAllocate);
            let at = input.at(part.start);
            let vectors: Vec<_> =
                (0..self.rows).map(|number| vector::load(at.at(number * row), streaming)).collect();
            for (number, elements) in vectors.iter().enumerate() {
                for (position, element) in elements.iter().enumerate() {
                    let offset = number as u64 * u64::from(row) + position as u64;
                    rows[number][position] = self.monoid.lift(*element, part.start + offset);
                }
            }
        } else {
            for number in 0..self.rows as usize {
                for position in 0..width as usize {
                    let offset = number as u64 * u64::from(row) + position as u64;
                    if part.left > offset {
                        let index = part.start + offset;
                        rows[number][position] = self.monoid.lift(input[index], index);
                    }
                }
            }
        }
        rows
    }

    /// Stores this lane's vectors, as far as the output goes.
    #[device]
    fn store<T: Storable>(
        &self,
        output: &Global<M::Output>,
        part: Part,
        is_whole: Reg<bool>,
        rows: &[Vec<M::State>],
    ) where
        M: Monoid<T>,
        M::State: Yields<M::State>,
    {
        let row = 32 * vector::width::<T>();
        let output = *output;
        let at = output.at(part.start);
        let lowered: Vec<Vec<_>> =
            rows.iter().map(|row| row.iter().map(|state| self.monoid.lower(*state)).collect()).collect();
        if is_whole {
            for (number, elements) in lowered.iter().enumerate() {
                vector::store(at.at(number as u32 * row), elements, Access::new());
            }
        } else {
            for (number, elements) in lowered.iter().enumerate() {
                for (position, element) in elements.iter().enumerate() {
                    let offset = number as u64 * u64::from(row) + position as u64;
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
    let grid =
        u32::try_from(tiles).ok().filter(|tiles| *tiles < 1 << 31).ok_or_else(|| OperationError::Shape {
            what: "a scan",
            reason: format!("{length} elements are more than a grid of CTAs covers; scan them in parts"),
        })?;
    operations.with_scratch(stream, |scratch: &mut LookBackScratch| {
        let record_bytes = record_bytes(|| configuration.monoid.identity());
        let record_words = (2 * tiles * record_bytes).div_ceil(8) as usize;
        let counter = scratch.counter.at_least_kept(stream, 1)?;
        let words = scratch.words.at_least_kept(stream, tiles as usize)?;
        let records = scratch.records.at_least(operations.device(), record_words)?;
        let arguments = (input, output, counter, words, records, length);
        Ok(kernel.launch(stream, grid, configuration.threads, arguments)?)
    })
}
