//! Selection: the elements that are wanted, side by side and in their order, in one launch.
//!
//! ```text
//! input       a  b  c  d  e  f  g  h
//! wanted      1  0  0  1  1  0  1  0
//! scanned     0  1  1  1  2  3  3  4      an exclusive scan of the wants is where each wanted element goes
//! output      a  d  e  g                  count = 4
//! ```
//!
//! A warp scans 32 wants by one `vote`: the ballot's bits below a lane are the wanted elements before it. Warps are counted in shared
//! memory, and tiles by the scan's [look-back](crate::scan::look_back).

use std::hash::Hash;

use warpwright::lang::comparison::Equatable;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, HostParameter, LaunchCounts, Storable, Stream};

use crate::monoid::{InPlace, Sum};
use crate::operations::{OperationError, Operations, Result, Scratch, expect_length};
use crate::scan::block::{before_lane, scan_warp};
use crate::scan::look_back::{Chain, TileQueue, grid_of_takers};

/// What decides whether an element is wanted: build-time configuration, as a [`Monoid`](crate::monoid::Monoid) is.
pub trait Predicate<T: Element>: Copy + Eq + Hash + Send + Sync + 'static {
    /// Whether `element` is wanted.
    fn wants(&self, element: Reg<T>) -> Reg<bool>;
}

/// Which elements are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want<P> {
    /// Those that the predicate wants.
    If(P),
    /// Those whose flag is not 0.
    Flagged,
    /// Those that differ from the one before.
    Changed,
}

/// No predicate: the flags, or the elements' neighbours, decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unused;

impl<T: Element> Predicate<T> for Unused {
    fn wants(&self, _element: Reg<T>) -> Reg<bool> {
        constant(0u32).eq(0u32)
    }
}

/// The selection in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Select<P> {
    want: Want<P>,
    threads: u32,
    /// Elements of a lane.
    rows: u32,
}

/// Tickets that a CTA holds: its tile's and the next one's.
const HELD: u32 = 2;
/// Windows of 32 tiles that a look back sees at once.
const WINDOWS: u32 = 8;

impl<P> Select<P> {
    fn tile(&self) -> u32 {
        self.threads * self.rows
    }

    /// `output` = the wanted elements of `input`, `count[0]` = how many they are. `flags` are read only where they decide. Places are of
    /// type `C`.
    #[kernel]
    fn run<T: Storable, C: Place>(
        &self,
        input: &Global<T>,
        flags: &Global<u8>,
        output: &mut Global<T>,
        count: &mut Global<u64>,
        counter: &mut Global<u64>,
        words: &mut Global<u64>,
        records: &mut Global<u64>,
        length: u64,
    ) where
        P: Predicate<T>,
        T: Equatable,
        Sum: InPlace<C>,
    {
        launch::threads(self.threads);
        let tile = u64::from(self.tile());
        let tiles = ((length + (tile - 1)) / tile).convert::<u32>();
        let queue = TileQueue::new(counter, tiles, HELD);
        let chain = Chain::new::<C>(Sum, words, records, WINDOWS);
        let warps = self.threads / 32;
        let places = shared_array::<C>(warps as usize);
        let (thread, lane) = (thread_idx().x, lane_id());
        let warp = thread / 32;

        let mut tickets = queue.first();
        // In the first warp: up to where it knows how many are wanted, and how many those are.
        let mut known_to = constant(0u32);
        let mut before = C::of(constant(0u32));
        while queue.has(tickets[0]) {
            let ticket = tickets[0];
            let mut upcoming = constant(0u64);
            if thread == 0 {
                upcoming = queue.take();
            }
            // Each row of a warp is 32 neighbours.
            let first =
                ticket.tile.convert::<u64>() * tile + (warp * (32 * self.rows) + lane).convert::<u64>();
            let mut elements = Vec::new();
            let mut wanted = Vec::new();
            let mut before_rows = Vec::new();
            let mut of_warp = constant(0u32);
            for row in 0..self.rows {
                let index = first + u64::from(32 * row);
                // Past the end the last element is looked at again, and not wanted.
                let inside = index.min(length - 1);
                let element = input[inside];
                let wants = self.wants(input, flags, inside, element) & (index < length);
                let votes = ballot(wants, ALL_LANES);
                elements.push(element);
                wanted.push(wants);
                before_rows.push(of_warp + (votes & lane_mask_lt()).popc());
                of_warp += votes.popc();
            }
            if lane == 0 {
                places.at(warp).store(C::of(of_warp));
            }
            sync_threads();
            if warp == 0 {
                let mut of_warps = C::of(constant(0u32));
                if lane < warps {
                    of_warps = places.at(lane).load();
                }
                let scanned = scan_warp::<C, Sum>(&Sum, of_warps);
                let aggregate = scanned.shuffle(warps - 1);
                if lane == 0 {
                    chain.publish(ticket, aggregate);
                }
                before = before + chain.between::<C>(known_to, ticket);
                let before_warp = before + before_lane::<C, Sum>(&Sum, scanned);
                if lane < warps {
                    places.at(lane).store(before_warp);
                }
                before = before + aggregate;
                known_to = ticket.tile + 1;
                if (ticket.tile == tiles - 1) & (lane == 0) {
                    count[0u32] = C::wide(before);
                }
            }
            sync_threads();
            if thread == 0 {
                queue.show(upcoming);
            }
            let before_warp = C::wide(places.at(warp).load());
            for row in 0..self.rows as usize {
                if wanted[row] {
                    output.at(before_warp).at(before_rows[row]).store(elements[row]);
                }
            }
            // All have read their place before it is written again.
            sync_threads();
            tickets[0] = tickets[1];
            tickets[1] = queue.see();
        }
    }

    /// Whether the element at `index` is wanted.
    fn wants<T>(&self, input: &Global<T>, flags: &Global<u8>, index: Reg<u64>, element: Reg<T>) -> Reg<bool>
    where
        P: Predicate<T>,
        T: Storable + Equatable,
    {
        match &self.want {
            Want::If(predicate) => predicate.wants(element),
            Want::Flagged => flags.at(index).load().ne(0u8),
            Want::Changed => {
                let before = input.at(index.max(1u64) - 1).load();
                element.ne(before) | index.eq(0u64)
            }
        }
    }
}

/// What places are counted in: 32 bits where they are enough, since a look back is faster in them.
trait Place: WideInteger + HostParameter {
    /// A count of a CTA.
    fn of(count: Reg<u32>) -> Reg<Self>;
    /// A place in the output.
    fn wide(place: Reg<Self>) -> Reg<u64>;
}

impl Place for u32 {
    fn of(count: Reg<u32>) -> Reg<u32> {
        count
    }

    fn wide(place: Reg<u32>) -> Reg<u64> {
        place.convert()
    }
}

impl Place for u64 {
    fn of(count: Reg<u32>) -> Reg<u64> {
        count.convert()
    }

    fn wide(place: Reg<u64>) -> Reg<u64> {
        place
    }
}

/// Scratch memory of a stream's selections.
#[derive(Default)]
struct SelectScratch {
    counter: Scratch<u64>,
    words: Scratch<u64>,
    records: Scratch<u64>,
    no_flags: Scratch<u8>,
}

/// Where a selection's results go.
struct Selected<'a, T> {
    output: &'a mut Buffer<T>,
    count: &'a mut Buffer<u64>,
}

impl Operations {
    /// The elements of `input` that `predicate` wants, in their order, at the start of `output`; `count[0]` is how many they are. What lies behind
    /// them in `output` is left as it was.
    ///
    /// # Errors
    /// `output` is shorter than `input`, `count` has another length than 1, or the launch failed.
    pub fn select_if<T, P>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<T>,
        count: &mut Buffer<u64>,
        predicate: P,
    ) -> Result<LaunchCounts>
    where
        T: Storable + Equatable,
        P: Predicate<T>,
    {
        self.select(stream, input, None, Selected { output, count }, Want::If(predicate))
    }

    /// As [`select_if`](Self::select_if), the elements whose flag is not 0.
    ///
    /// # Errors
    /// `flags` has another length than `input`, or as [`select_if`](Self::select_if).
    pub fn select_flagged<T: Storable + Equatable>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        flags: &Buffer<u8>,
        output: &mut Buffer<T>,
        count: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        expect_length("the flags of a selection", input.len(), flags.len())?;
        self.select(stream, input, Some(flags), Selected { output, count }, Want::<Unused>::Flagged)
    }

    /// As [`select_if`](Self::select_if), the elements that differ from the one before: the first of each run of equals. NaN differs from
    /// everything, and -0 equals +0.
    ///
    /// # Errors
    /// As [`select_if`](Self::select_if).
    pub fn unique<T: Storable + Equatable>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<T>,
        count: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        self.select(stream, input, None, Selected { output, count }, Want::<Unused>::Changed)
    }

    fn select<T, P>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        flags: Option<&Buffer<u8>>,
        selected: Selected<'_, T>,
        want: Want<P>,
    ) -> Result<LaunchCounts>
    where
        T: Storable + Equatable,
        P: Predicate<T>,
    {
        expect_length("the count of a selection", 1, selected.count.len())?;
        if selected.output.len() < input.len() {
            let (expected, given) = (input.len(), selected.output.len());
            return Err(OperationError::Length { what: "the output of a selection", expected, given });
        }
        if input.is_empty() {
            stream.fill_zero(selected.count)?;
            return Ok(LaunchCounts::default());
        }
        if u32::try_from(input.len()).is_ok() {
            self.select_counted::<T, u32, P>(stream, input, flags, selected, want)
        } else {
            self.select_counted::<T, u64, P>(stream, input, flags, selected, want)
        }
    }

    fn select_counted<T, C, P>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        flags: Option<&Buffer<u8>>,
        Selected { output, count }: Selected<'_, T>,
        want: Want<P>,
    ) -> Result<LaunchCounts>
    where
        T: Storable + Equatable,
        C: Place,
        P: Predicate<T>,
        Sum: InPlace<C>,
    {
        let configuration = Select { want, threads: 256, rows: 16 };
        let kernel = self.kernel(configuration, Select::<P>::run::<T, C>)?;
        let tiles = input.len().div_ceil(configuration.tile() as usize);
        let resident = self.resident(&kernel, configuration.threads)?;
        let grid = grid_of_takers(tiles as u64, resident, HELD).ok_or_else(|| OperationError::Shape {
            what: "a selection",
            reason: format!("{} elements are more than 2^32 tiles; select in parts", input.len()),
        })?;
        self.with_scratch(stream, |scratch: &mut SelectScratch| {
            let counter = scratch.counter.at_least_kept(stream, 1)?;
            let words = scratch.words.at_least_kept(stream, tiles)?;
            let records = scratch.records.at_least(self.device(), tiles)?;
            let flags = match flags {
                Some(flags) => flags,
                None => scratch.no_flags.at_least(self.device(), 1)?,
            };
            let arguments = (input, flags, output, count, counter, words, records, input.len() as u64);
            Ok(kernel.launch(stream, grid, configuration.threads, arguments)?)
        })
    }
}
