//! Merge sort: ordered runs merged two by two, every CTA, and in it every thread, making an equal share of the output.
//!
//! Where a share of the output begins in the two runs is found by a binary search along a diagonal of the *merge path*: the path that
//! steps right for each key taken from `a` and down for each from `b`. It crosses diagonal `d` where `d` keys are taken.
//!
//! ```text
//!        a  1  4  6  9
//!     b  +--+-- .  .  .      diagonal 3: two keys of a (1, 4) and one of b (3)
//!     3  .  +--+  .  .
//!     5  .  .  +  .  .
//!     7  .  .  +--+  .
//! ```
//!
//! Tiles are first ordered on their own: each thread's keys by a network in registers, then merged by the same search in shared
//! memory. After that each pass over memory doubles the runs. (Green, McColl and Bader, "GPU Merge Path", 2012.)

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use super::radix::in_direction;
use super::{Direction, SortKey};
use crate::operations::{Operations, Result, Scratch, both};

/// The sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// Which key comes first.
    pub direction: Direction,
    /// Threads of a CTA: a power of two.
    pub threads: u32,
    /// Keys of a thread; odd numbers keep the threads' shares in different banks.
    pub items: u32,
}

/// Two ordered runs that lie behind one another, from `start` on.
#[derive(Clone, Copy, DeviceValue)]
struct Runs {
    start: Reg<u64>,
    /// Keys of the first.
    first: Reg<u64>,
    /// Keys of the second.
    second: Reg<u64>,
}

impl Merge {
    /// The configuration for an H200.
    pub fn new<K: SortKey>(direction: Direction) -> Self {
        Self { direction, threads: 256, items: if K::BYTES == 8 { 11 } else { 15 } }
    }

    /// Keys of a tile.
    pub fn tile(&self) -> u32 {
        self.threads * self.items
    }

    /// `sorted` = `keys`, each tile in order.
    #[kernel]
    pub fn order_tiles<K: SortKey>(&self, keys: &Global<K>, sorted: &mut Global<K>, length: u64) {
        launch::threads(self.threads);
        let tile = shared_array::<K::Bits>(self.tile() as usize);
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        self.for_each_place(first, length, |place, is_there| {
            let mut key = constant(K::MOST);
            if is_there {
                key = in_direction::<K>(K::ordered(keys.at(first).at(place).load()), self.direction);
            }
            tile.at(place).store(key);
        });
        sync_threads();

        let mine = tile.at(thread_idx().x * self.items);
        let mut share: Vec<_> = (0..self.items).map(|item| mine.at(item).load()).collect();
        order_share::<K>(&mut share);
        for merged in (0..self.threads.ilog2()).map(|round| self.items << round) {
            sync_threads();
            for (item, key) in share.iter().enumerate() {
                mine.at(item).store(*key);
            }
            sync_threads();
            let place = thread_idx().x * self.items;
            let start = place / (2 * merged) * (2 * merged);
            let width = constant(u64::from(merged));
            let runs = Runs { start: start.convert(), first: width, second: width };
            share = self.merged_share::<K>(tile, runs, (place - start).convert());
        }
        self.store_shares::<K>(*sorted, first, length, tile, &share);
    }

    /// `merged` = `keys`, whose runs of `width` keys are in order, with runs of twice that width in order. The width is a whole number of
    /// tiles.
    #[kernel]
    pub fn merge_runs<K: SortKey>(&self, keys: &Global<K>, merged: &mut Global<K>, length: u64, width: u64) {
        launch::threads(self.threads);
        let tile = shared_array::<K::Bits>(self.tile() as usize);
        let bounds = shared_array::<u64>(2);
        let thread = thread_idx().x;
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        let start = first / (width * 2) * (width * 2);
        let middle = (start + width).min(length);
        let runs = Runs { start, first: middle - start, second: (middle + width).min(length) - middle };
        let ordered = |place: Reg<u64>| in_direction::<K>(K::ordered(keys.at(place).load()), self.direction);

        // Where this tile begins and ends in the two runs: the first thread of each of two warps looks.
        let begin = first - start;
        let end = (begin + u64::from(self.tile())).min(runs.first + runs.second);
        if thread == 0 {
            bounds.at(0u32).store(merge_path::<K>(runs, begin, ordered));
        }
        if thread == 32 {
            bounds.at(1u32).store(merge_path::<K>(runs, end, ordered));
        }
        sync_threads();
        let (from, to) = (bounds.at(0u32).load(), bounds.at(1u32).load());
        let of_first = to - from;
        let of_second = (end - to) - (begin - from);
        self.for_each_place(first, length, |place, is_there| {
            if is_there {
                let place_in_tile = place.convert::<u64>();
                let in_first = runs.start + from + place_in_tile;
                let in_second = runs.start + runs.first + (begin - from) + (place_in_tile - of_first);
                let key = ordered(place_in_tile.lt(of_first).select(in_first, in_second));
                tile.at(place).store(key);
            }
        });
        sync_threads();

        let local = Runs { start: constant(0u64), first: of_first, second: of_second };
        let place = (thread * self.items).convert::<u64>().min(of_first + of_second);
        let share = self.merged_share::<K>(tile, local, place);
        self.store_shares::<K>(*merged, first, length, tile, &share);
    }

    /// This thread's share of two runs merged: `items` keys from place `begin` of the output on, as far as there are.
    #[device]
    fn merged_share<K: SortKey>(
        &self,
        tile: Shared<K::Bits>,
        runs: Runs,
        begin: Reg<u64>,
    ) -> Vec<Reg<K::Bits>> {
        let of_first = merge_path::<K>(runs, begin, |place| tile.at(place).load());
        let first_end = (runs.start + runs.first).convert::<u32>();
        let second_end = first_end + runs.second.convert::<u32>();
        let mut one = (runs.start + of_first).convert::<u32>();
        let mut other = first_end + (begin - of_first).convert::<u32>();
        let last = self.tile() - 1;
        let mut share = Vec::new();
        let mut one_key = tile.at(one.min(last)).load();
        let mut other_key = tile.at(other.min(last)).load();
        for _item in 0..self.items {
            let takes_other = other.lt(second_end) & (one.ge(first_end) | K::is_below(other_key, one_key));
            share.push(takes_other.select(other_key, one_key));
            one += (!takes_other).to_u32();
            other += takes_other.to_u32();
            let next = tile.at(takes_other.select(other, one).min(last)).load();
            one_key = takes_other.select(one_key, next);
            other_key = takes_other.select(next, other_key);
        }
        share
    }

    /// Stores the threads' shares, by way of shared memory, so that neighbours in memory are stored together.
    #[device]
    fn store_shares<K: SortKey>(
        &self,
        to: Global<K>,
        first: Reg<u64>,
        length: Reg<u64>,
        tile: Shared<K::Bits>,
        share: &[Reg<K::Bits>],
    ) {
        sync_threads();
        let mine = tile.at(thread_idx().x * self.items);
        for (item, key) in share.iter().enumerate() {
            mine.at(item).store(*key);
        }
        sync_threads();
        self.for_each_place(first, length, |place, is_there| {
            if is_there {
                to.at(first)
                    .at(place)
                    .store(K::restored(in_direction::<K>(tile.at(place).load(), self.direction)));
            }
        });
    }

    /// Calls `visit` for this thread's places of the tile, each `threads` after the one before, with whether there is a key.
    #[device]
    fn for_each_place(&self, first: Reg<u64>, length: Reg<u64>, visit: impl Fn(Reg<u32>, Reg<bool>)) {
        for round in 0..self.items {
            let place = thread_idx().x + round * self.threads;
            visit(place, (first + place.convert::<u64>()).lt(length));
        }
    }
}

/// How many of the first `taken` keys of two runs merged come from the first run; of equal keys those of the first come first.
#[device]
fn merge_path<K: SortKey>(runs: Runs, taken: Reg<u64>, key: impl Fn(Reg<u64>) -> Reg<K::Bits>) -> Reg<u64> {
    let mut least = taken.gt(runs.second).select(taken - runs.second, 0u64);
    let mut most = taken.min(runs.first);
    while least < most {
        let middle = (least + most) >> 1u32;
        let of_first = key(runs.start + middle);
        let of_second = key(runs.start + runs.first + (taken - middle - 1));
        if K::is_below(of_second, of_first) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    least
}

/// Puts a thread's keys in order: neighbours are compared and exchanged, at even and odd places in turn.
fn order_share<K: SortKey>(share: &mut [Reg<K::Bits>]) {
    for round in 0..share.len() {
        for low in (round % 2..share.len() - 1).step_by(2) {
            let (one, other) = (share[low], share[low + 1]);
            let exchange = K::is_below(other, one);
            share[low] = exchange.select(other, one);
            share[low + 1] = exchange.select(one, other);
        }
    }
}

/// Scratch memory of a stream's merge sorts.
struct MergeScratch<K>(Scratch<K>);

impl<K> Default for MergeScratch<K> {
    fn default() -> Self {
        Self(Scratch::default())
    }
}

/// `sorted` = `keys` in order.
///
/// # Errors
/// The kernel cannot be built for the device, there is not enough memory, or a launch failed.
pub fn keys<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    sorted: &mut Buffer<K>,
    configuration: Merge,
) -> Result<LaunchCounts> {
    let (length, tile) = (keys.len() as u64, u64::from(configuration.tile()));
    if length == 0 {
        return Ok(LaunchCounts::default());
    }
    let tiles = operations.grid("a merge sort", length.div_ceil(tile))?;
    let order = operations.kernel(configuration, Merge::order_tiles::<K>)?;
    let merge = operations.kernel(configuration, Merge::merge_runs::<K>)?;
    operations.with_scratch(stream, |scratch: &mut MergeScratch<K>| {
        let spare = scratch.0.at_least(operations.device(), keys.len())?;
        // The runs go to and fro between spare memory and the output, and end in the output.
        let passes = length.div_ceil(tile).next_power_of_two().ilog2();
        let starts_in_output = passes.is_multiple_of(2);
        let to = if starts_in_output { &mut *sorted } else { &mut *spare };
        let mut counts = order.launch(stream, tiles, configuration.threads, (keys, to, length))?;
        for pass in 0..passes {
            let from_output = starts_in_output == pass.is_multiple_of(2);
            let (from, to) = if from_output { (&*sorted, &mut *spare) } else { (&*spare, &mut *sorted) };
            let arguments = (from, to, length, tile << pass);
            counts = both(counts, merge.launch(stream, tiles, configuration.threads, arguments)?);
        }
        Ok(counts)
    })
}
