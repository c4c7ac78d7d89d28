//! Merge sort: sorted runs are merged pairwise; every CTA, and every thread in it, produces an
//! equal share of the output.
//!
//! The start of a share in the two runs is found by a binary search along a diagonal of the *merge
//! path*: the path that steps right for each key taken from `a` and down for each key taken from
//! `b`. It crosses diagonal `d` after `d` keys.
//!
//! ```text
//!        a  1  4  6  9
//!     b  +--+-- .  .  .      diagonal 3: two keys of a (1, 4) and one of b (3)
//!     3  .  +--+  .  .
//!     5  .  .  +  .  .
//!     7  .  .  +--+  .
//! ```
//!
//! Tiles are sorted first: each thread's keys by a network in registers, then by merging in shared
//! memory with the same search. After that, each pass over memory doubles the length of the runs.
//! Of equal keys those of `a` come first, and the network exchanges neighbors only if they differ,
//! so the sort is stable. (Green, McColl and Bader, "GPU Merge Path", 2012.)

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::pairs::{Memory, Pair, Tile, order_two};
use crate::rules::{expect_declared_shared, expect_power_of_two_threads};
use warpwright_kernels::operations::{OperationError, Operations, Result, Scratch, both, expect_length};
use warpwright_kernels::sort::radix::expect_pairs;
use warpwright_kernels::sort::{Direction, SortKey};

/// The sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// Which key comes first.
    pub direction: Direction,
    /// Threads per CTA: a power of two from 64 to 1024.
    pub threads: u32,
    /// Keys per thread, at least one; with an odd number the threads' shares are in different
    /// banks.
    pub items: u32,
}

/// Two adjacent sorted runs, from `start` on.
#[derive(Clone, Copy, DeviceValue)]
struct Runs {
    start: Reg<u64>,
    /// Length of the first run.
    first: Reg<u64>,
    /// Length of the second run.
    second: Reg<u64>,
}

impl Merge {
    /// The configuration for an H200.
    pub fn new<K: SortKey>(direction: Direction) -> Self {
        Self { direction, threads: 256, items: if K::BYTES == 8 { 11 } else { 15 } }
    }

    /// Keys per tile.
    pub fn tile(&self) -> u32 {
        self.threads * self.items
    }

    /// Refuses unsupported configurations, with values of `value_bytes` bytes for each key, or 0
    /// for none.
    ///
    /// # Errors
    /// The number of threads is not a power of two from 64 to 1024, a thread has no keys, or a tile
    /// does not fit shared memory.
    pub fn check<K: SortKey>(&self, value_bytes: u32) -> Result<()> {
        const WHAT: &str = "a merge sort";
        // Two warps search for the start and the end of a tile in the two runs.
        expect_power_of_two_threads(WHAT, 64, self.threads)?;
        if self.items == 0 {
            let reason = "its threads have no keys; give each at least one".to_owned();
            return Err(OperationError::Shape { what: WHAT, reason });
        }
        let keys = u64::from(self.threads) * u64::from(self.items);
        let bounds = 2 * u64::from(u64::BYTES);
        expect_declared_shared(WHAT, keys * u64::from(K::Bits::BYTES + value_bytes) + bounds)
    }

    /// `sorted` = `keys`, with each tile sorted.
    #[kernel]
    pub fn order_tiles<K: SortKey>(&self, keys: &Global<K>, sorted: &mut Global<K>, length: u64) {
        let from = Memory::<K, u8> { keys: *keys, values: None, direction: self.direction };
        self.order(&from, &Memory { keys: *sorted, ..from }, length);
    }

    /// As [`order_tiles`](Self::order_tiles), with a value beside each key.
    #[kernel]
    pub fn order_tiles_of_pairs<K: SortKey, V: Storable>(
        &self,
        keys: &Global<K>,
        values: &Global<V>,
        sorted: &mut Global<K>,
        sorted_values: &mut Global<V>,
        length: u64,
    ) {
        let from = Memory { keys: *keys, values: Some(*values), direction: self.direction };
        let to = Memory { keys: *sorted, values: Some(*sorted_values), direction: self.direction };
        self.order(&from, &to, length);
    }

    /// `merged` = `keys`: sorted runs of `width` keys are merged into runs of twice that width. The
    /// width is a whole number of tiles.
    #[kernel]
    pub fn merge_runs<K: SortKey>(&self, keys: &Global<K>, merged: &mut Global<K>, length: u64, width: u64) {
        let from = Memory::<K, u8> { keys: *keys, values: None, direction: self.direction };
        self.merge(&from, &Memory { keys: *merged, ..from }, length, width);
    }

    /// As [`merge_runs`](Self::merge_runs), with a value beside each key.
    #[kernel]
    pub fn merge_runs_of_pairs<K: SortKey, V: Storable>(
        &self,
        keys: &Global<K>,
        values: &Global<V>,
        merged: &mut Global<K>,
        merged_values: &mut Global<V>,
        length: u64,
        width: u64,
    ) {
        let from = Memory { keys: *keys, values: Some(*values), direction: self.direction };
        let to = Memory { keys: *merged, values: Some(*merged_values), direction: self.direction };
        self.merge(&from, &to, length, width);
    }

    /// Sorts each tile.
    #[device]
    fn order<K: SortKey, V: Storable>(&self, from: &Memory<K, V>, to: &Memory<K, V>, length: Reg<u64>) {
        launch::threads(self.threads);
        let tile = Tile::new(self.tile(), from);
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        self.for_each_index(first, length, |index, is_there| {
            // Missing keys count as the largest, and stay behind equal keys.
            tile.at(index).store(from.at(first).at(index).load_if(is_there));
        });
        sync_threads();

        let mine = tile.at(thread_idx().x * self.items);
        let mut share: Vec<_> = (0..self.items).map(|item| mine.at(item).load()).collect();
        order_share::<K, V>(&mut share);
        for merged in (0..self.threads.ilog2()).map(|round| self.items << round) {
            sync_threads();
            store_share(&mine, &share);
            sync_threads();
            let index = thread_idx().x * self.items;
            let start = index / (2 * merged) * (2 * merged);
            let width = constant(u64::from(merged));
            let runs = Runs { start: start.convert(), first: width, second: width };
            share = self.merged_share(&tile, runs, (index - start).convert());
        }
        self.store_shares(to, first, length, &tile, &share);
    }

    /// Merges pairs of runs.
    #[device]
    fn merge<K: SortKey, V: Storable>(
        &self,
        from: &Memory<K, V>,
        to: &Memory<K, V>,
        length: Reg<u64>,
        width: Reg<u64>,
    ) {
        launch::threads(self.threads);
        let tile = Tile::new(self.tile(), from);
        let bounds = shared_array::<u64>(2);
        let thread = thread_idx().x;
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        let start = first / (width * 2) * (width * 2);
        let middle = (start + width).min(length);
        let runs = Runs { start, first: middle - start, second: (middle + width).min(length) - middle };
        let ordered = |index: Reg<u64>| from.at(index).load_key();

        // The start and end of this tile in the two runs: the first thread of each of two warps
        // searches.
        let begin = first - start;
        let end = (begin + u64::from(self.tile())).min(runs.first + runs.second);
        if thread == 0 {
            bounds.at(0u32).store(merge_path::<K>(runs, begin, ordered));
        }
        if thread == 32 {
            bounds.at(1u32).store(merge_path::<K>(runs, end, ordered));
        }
        sync_threads();
        let (first_of_one, to_of_one) = (bounds.at(0u32).load(), bounds.at(1u32).load());
        let of_first = to_of_one - first_of_one;
        let of_second = (end - to_of_one) - (begin - first_of_one);
        self.for_each_index(first, length, |index, is_there| {
            if is_there {
                let index_in_tile = index.convert::<u64>();
                let in_first = runs.start + first_of_one + index_in_tile;
                let in_second = runs.start + runs.first + (begin - first_of_one) + (index_in_tile - of_first);
                let source = index_in_tile.lt(of_first).select(in_first, in_second);
                tile.at(index).store((ordered(source), from.values.map(|values| values.at(source).load())));
            }
        });
        sync_threads();

        let local = Runs { start: constant(0u64), first: of_first, second: of_second };
        let index = (thread * self.items).convert::<u64>().min(of_first + of_second);
        let share = self.merged_share(&tile, local, index);
        self.store_shares(to, first, length, &tile, &share);
    }

    /// This thread's share of two merged runs: `items` keys from index `begin` of the output, as
    /// far as they exist.
    #[device]
    fn merged_share<K: SortKey, V: Storable>(
        &self,
        tile: &Tile<K, V>,
        runs: Runs,
        begin: Reg<u64>,
    ) -> Vec<Pair<K, V>> {
        let of_first = merge_path::<K>(runs, begin, |index| tile.keys.at(index).load());
        let first_end = (runs.start + runs.first).convert::<u32>();
        let second_end = first_end + runs.second.convert::<u32>();
        let mut one = (runs.start + of_first).convert::<u32>();
        let mut other = first_end + (begin - of_first).convert::<u32>();
        let last = self.tile() - 1;
        let mut share = Vec::new();
        let mut one_key = tile.keys.at(one.min(last)).load();
        let mut other_key = tile.keys.at(other.min(last)).load();
        for _item in 0..self.items {
            let takes_other = other.lt(second_end) & (one.ge(first_end) | K::is_below(other_key, one_key));
            let value = tile.values.map(|values| values.at(takes_other.select(other, one).min(last)).load());
            share.push((takes_other.select(other_key, one_key), value));
            one += (!takes_other).to_u32();
            other += takes_other.to_u32();
            let next = tile.keys.at(takes_other.select(other, one).min(last)).load();
            one_key = takes_other.select(one_key, next);
            other_key = takes_other.select(next, other_key);
        }
        share
    }

    /// Stores the threads' shares through shared memory, so that the stores are coalesced.
    #[device]
    fn store_shares<K: SortKey, V: Storable>(
        &self,
        to: &Memory<K, V>,
        first: Reg<u64>,
        length: Reg<u64>,
        tile: &Tile<K, V>,
        share: &[Pair<K, V>],
    ) {
        sync_threads();
        store_share(&tile.at(thread_idx().x * self.items), share);
        sync_threads();
        self.for_each_index(first, length, |index, is_there| {
            if is_there {
                to.at(first).at(index).store(tile.at(index).load());
            }
        });
    }

    /// Calls `visit` for this thread's indices in the tile, `threads` apart, with whether a key
    /// exists.
    #[device]
    fn for_each_index(&self, first: Reg<u64>, length: Reg<u64>, visit: impl Fn(Reg<u32>, Reg<bool>)) {
        for round in 0..self.items {
            let index = thread_idx().x + round * self.threads;
            visit(index, (first + index.convert::<u64>()).lt(length));
        }
    }
}

/// The number of keys from the first run among the first `taken` keys of two merged runs; of equal
/// keys those of the first run come first.
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

/// Sorts a thread's keys: neighbors are compared and exchanged, alternately at even and odd
/// indices.
#[track_caller]
fn order_share<K: SortKey, V: Element>(share: &mut [Pair<K, V>]) {
    for round in 0..share.len() {
        for low in (round % 2..share.len() - 1).step_by(2) {
            order_two::<K, V>(share, low, low + 1);
        }
    }
}

/// Stores a thread's share to the tile from `begin` on.
#[track_caller]
fn store_share<K: SortKey, V: Storable>(tile: &Tile<K, V>, share: &[Pair<K, V>]) {
    for (item, pair) in share.iter().enumerate() {
        tile.at(item).store(*pair);
    }
}

/// Scratch memory of a stream's merge sorts.
struct MergeScratch<K, V> {
    keys: Scratch<K>,
    values: Scratch<V>,
}

impl<K, V> Default for MergeScratch<K, V> {
    fn default() -> Self {
        Self { keys: Scratch::default(), values: Scratch::default() }
    }
}

/// The launches for `length` keys. The runs alternate between scratch memory and the output, and
/// end in the output.
struct Plan {
    tile: u64,
    tiles: u32,
    passes: u32,
}

impl Plan {
    fn new(operations: &Operations, configuration: Merge, length: u64) -> Result<Self> {
        let tile = u64::from(configuration.tile());
        let tiles = length.div_ceil(tile);
        let passes = tiles.next_power_of_two().ilog2();
        Ok(Self { tile, tiles: operations.grid("a merge sort", tiles)?, passes })
    }

    /// The destination of the sorted tiles.
    fn first_target<'a, T>(&self, output: &'a mut Buffer<T>, spare: &'a mut Buffer<T>) -> &'a mut Buffer<T> {
        if self.passes.is_multiple_of(2) { output } else { spare }
    }

    /// The source and destination of a pass.
    fn turn<'a, T>(
        &self,
        pass: u32,
        output: &'a mut Buffer<T>,
        spare: &'a mut Buffer<T>,
    ) -> (&'a Buffer<T>, &'a mut Buffer<T>) {
        let lands_in_output = (self.passes - pass) % 2 == 1;
        if lands_in_output { (spare, output) } else { (output, spare) }
    }

    /// Keys per run before a pass.
    fn width(&self, pass: u32) -> u64 {
        self.tile << pass
    }
}

/// Sorts `keys` into `sorted`.
///
/// # Errors
/// The lengths differ, as [`Merge::check`], the kernel cannot be built for the device, there is not
/// enough memory, or a launch failed.
pub fn keys<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    sorted: &mut Buffer<K>,
    configuration: Merge,
) -> Result<LaunchCounts> {
    expect_length("the output of a sort", keys.len(), sorted.len())?;
    configuration.check::<K>(0)?;
    if keys.is_empty() {
        return Ok(LaunchCounts::default());
    }
    let length = keys.len() as u64;
    let plan = Plan::new(operations, configuration, length)?;
    let order = operations.kernel(configuration, Merge::order_tiles::<K>)?;
    let merge = operations.kernel(configuration, Merge::merge_runs::<K>)?;
    operations.with_scratch(stream, |scratch: &mut MergeScratch<K, u8>| {
        let spare = scratch.keys.at_least(operations.device(), keys.len())?;
        let to = plan.first_target(sorted, spare);
        let mut counts = order.launch(stream, plan.tiles, (keys, to, length))?;
        for pass in 0..plan.passes {
            let (from, to) = plan.turn(pass, sorted, spare);
            let arguments = (from, to, length, plan.width(pass));
            counts = both(counts, merge.launch(stream, plan.tiles, arguments)?);
        }
        Ok(counts)
    })
}

/// Sorts `(keys, values)` by key into `sorted`. The sort is stable.
///
/// # Errors
/// As [`keys`].
pub fn pairs<K: SortKey, V: Storable>(
    operations: &Operations,
    stream: &Stream,
    (keys, values): (&Buffer<K>, &Buffer<V>),
    (sorted, sorted_values): (&mut Buffer<K>, &mut Buffer<V>),
    configuration: Merge,
) -> Result<LaunchCounts> {
    expect_pairs((keys, values), (sorted, sorted_values))?;
    configuration.check::<K>(V::BYTES)?;
    if keys.is_empty() {
        return Ok(LaunchCounts::default());
    }
    let length = keys.len() as u64;
    let plan = Plan::new(operations, configuration, length)?;
    let order = operations.kernel(configuration, Merge::order_tiles_of_pairs::<K, V>)?;
    let merge = operations.kernel(configuration, Merge::merge_runs_of_pairs::<K, V>)?;
    operations.with_scratch(stream, |scratch: &mut MergeScratch<K, V>| {
        let spare = scratch.keys.at_least(operations.device(), keys.len())?;
        let spare_values = scratch.values.at_least(operations.device(), keys.len())?;
        let to = (plan.first_target(sorted, spare), plan.first_target(sorted_values, spare_values));
        let mut counts = order.launch(stream, plan.tiles, (keys, values, to.0, to.1, length))?;
        for pass in 0..plan.passes {
            let (from, to) = plan.turn(pass, sorted, spare);
            let (values_from, values_to) = plan.turn(pass, sorted_values, spare_values);
            let arguments = (from, values_from, to, values_to, length, plan.width(pass));
            counts = both(counts, merge.launch(stream, plan.tiles, arguments)?);
        }
        Ok(counts)
    })
}
