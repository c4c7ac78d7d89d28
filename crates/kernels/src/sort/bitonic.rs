//! Bitonic sort: a network of comparisons that does not depend on the keys.
//!
//! Blocks of 2, 4, 8, .. keys are put in order, each from two ordered halves: first every key is compared with the one as far from the
//! block's other end (which leaves the smaller ones in the lower half), then keys at half, a quarter, .. of the block's
//! length apart.
//!
//! ```text
//! block of 8     0 1 2 3 4 5 6 7      0 with 7, 1 with 6, 2 with 5, 3 with 4
//!                                     0 with 2, 1 with 3;  4 with 6, 5 with 7
//!                                     0 with 1, 2 with 3;  4 with 5, 6 with 7
//! ```
//!
//! Every comparison leaves the smaller key in the lower place, so keys that are not there count as the largest, and a comparison
//! with one of them does nothing: any length will do. Steps within a tile are made in shared memory, all in one launch; the
//! others take a launch each. There are log² n / 2 steps, which is why [`radix`](super::radix) wins from a few tiles on.
//!
//! Values go where their keys go. Equal keys do not stay in their order, and neither do their values: where that matters, take
//! [`merge`](super::merge) or [`radix`](super::radix).
//!
//! (Batcher, "Sorting Networks and Their Applications", 1968.)

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::radix::in_direction;
use super::{Direction, SortKey, expect_pairs};
use crate::operations::{Operations, Result, both, expect_length, expect_power_of_two_threads};

/// The sort: a tile is two keys for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bitonic {
    /// Which key comes first.
    pub direction: Direction,
    /// Threads of a CTA: a power of two from 32 to 1024.
    pub threads: u32,
}

/// One step of the network: the lower place of pair `p` is `p` with a zero bit put in above its lowest `low_bits`, the upper one that
/// exclusive-or `mask`.
#[derive(Clone, Copy, Debug)]
struct Step {
    low_bits: u32,
    mask: u64,
}

impl Step {
    /// The first step of a block of `2 << low_bits` keys.
    fn between_ends(low_bits: u32) -> Self {
        Self { low_bits, mask: (2 << low_bits) - 1 }
    }

    /// The step between keys that lie `1 << low_bits` apart.
    fn apart(low_bits: u32) -> Self {
        Self { low_bits, mask: 1 << low_bits }
    }
}

impl Bitonic {
    /// The configuration for an H200.
    pub fn new(direction: Direction) -> Self {
        Self { direction, threads: 512 }
    }

    /// Keys of a tile.
    pub fn tile(&self) -> u32 {
        2 * self.threads
    }

    /// Refuses what it cannot do.
    ///
    /// # Errors
    /// A CTA's threads are no power of two from 32 to 1024.
    pub fn check(&self) -> Result<()> {
        expect_power_of_two_threads("a bitonic sort", 32, self.threads)
    }

    /// Orders each tile.
    #[kernel]
    pub fn order_tiles<K: SortKey>(&self, keys: &mut Global<K>, length: u64) {
        self.in_tiles::<K, u8>(*keys, None, length, &self.order_steps());
    }

    /// Orders each tile's keys, and their values with them.
    #[kernel]
    pub fn order_tiles_of_pairs<K: SortKey, V: Storable>(
        &self,
        keys: &mut Global<K>,
        values: &mut Global<V>,
        length: u64,
    ) {
        self.in_tiles(*keys, Some(*values), length, &self.order_steps());
    }

    /// Makes the steps of a larger block that stay within tiles.
    #[kernel]
    pub fn finish_tiles<K: SortKey>(&self, keys: &mut Global<K>, length: u64) {
        self.in_tiles::<K, u8>(*keys, None, length, &self.finish_steps());
    }

    /// As [`finish_tiles`](Self::finish_tiles), with a value beside each key.
    #[kernel]
    pub fn finish_tiles_of_pairs<K: SortKey, V: Storable>(
        &self,
        keys: &mut Global<K>,
        values: &mut Global<V>,
        length: u64,
    ) {
        self.in_tiles(*keys, Some(*values), length, &self.finish_steps());
    }

    /// Makes one step between tiles.
    #[kernel]
    pub fn step<K: SortKey>(&self, keys: &mut Global<K>, length: u64, low_bits: u32, mask: u64) {
        self.between_tiles::<K, u8>(*keys, None, length, (low_bits, mask));
    }

    /// As [`step`](Self::step), with a value beside each key.
    #[kernel]
    pub fn step_of_pairs<K: SortKey, V: Storable>(
        &self,
        keys: &mut Global<K>,
        values: &mut Global<V>,
        length: u64,
        low_bits: u32,
        mask: u64,
    ) {
        self.between_tiles(*keys, Some(*values), length, (low_bits, mask));
    }

    /// The steps that order a tile.
    fn order_steps(&self) -> Vec<Step> {
        let of_block =
            |block| std::iter::once(Step::between_ends(block)).chain((0..block).rev().map(Step::apart));
        (0..self.tile().ilog2()).flat_map(of_block).collect()
    }

    /// The steps of a larger block that stay within tiles.
    fn finish_steps(&self) -> Vec<Step> {
        (0..self.tile().ilog2()).rev().map(Step::apart).collect()
    }

    /// One step, a pair of keys for each thread.
    #[device]
    fn between_tiles<K: SortKey, V: Storable>(
        &self,
        keys: Global<K>,
        values: Option<Global<V>>,
        length: Reg<u64>,
        (low_bits, mask): (Reg<u32>, Reg<u64>),
    ) {
        launch::threads(self.threads);
        let pair = block_idx().x.convert::<u64>() * u64::from(self.threads) + thread_idx().x.convert::<u64>();
        let lower = with_zero_bit(pair, low_bits);
        let upper = lower ^ mask;
        if upper < length {
            let (low, high) = (keys.at(lower), keys.at(upper));
            let (one, other) = (low.load(), high.load());
            let ordered = |key| in_direction::<K>(K::ordered(key), self.direction);
            if K::is_below(ordered(other), ordered(one)) {
                low.store(other);
                high.store(one);
                if let Some(values) = values {
                    exchange(values.at(lower), values.at(upper));
                }
            }
        }
    }

    /// Makes steps on each tile, in shared memory.
    #[device]
    fn in_tiles<K: SortKey, V: Storable>(
        &self,
        keys: Global<K>,
        values: Option<Global<V>>,
        length: Reg<u64>,
        steps: &[Step],
    ) {
        launch::threads(self.threads);
        let tile = shared_array::<K::Bits>(self.tile() as usize);
        let tile_values = values.map(|_| shared_array::<V>(self.tile() as usize));
        let thread = thread_idx().x;
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        for half in 0..2 {
            let place = thread + half * self.threads;
            let mut key = constant(K::MOST);
            if first + place.convert::<u64>() < length {
                key = in_direction::<K>(K::ordered(keys.at(first).at(place).load()), self.direction);
                if let (Some(from), Some(to)) = (values, tile_values) {
                    to.at(place).store(from.at(first).at(place).load());
                }
            }
            tile.at(place).store(key);
        }
        sync_threads();
        for step in steps {
            let lower = with_zero_bit(thread.convert::<u64>(), constant(step.low_bits)).convert::<u32>();
            let upper = lower ^ step.mask as u32;
            let (low, high) = (tile.at(lower), tile.at(upper));
            let (one, other) = (low.load(), high.load());
            if K::is_below(other, one) {
                low.store(other);
                high.store(one);
                if let Some(values) = tile_values {
                    exchange(values.at(lower), values.at(upper));
                }
            }
            sync_threads();
        }
        for half in 0..2 {
            let place = thread + half * self.threads;
            if first + place.convert::<u64>() < length {
                let key = K::restored(in_direction::<K>(tile.at(place).load(), self.direction));
                keys.at(first).at(place).store(key);
                if let (Some(to), Some(from)) = (values, tile_values) {
                    to.at(first).at(place).store(from.at(place).load());
                }
            }
        }
    }
}

/// Exchanges what is at two places.
fn exchange<T: Element, S: Space>(low: Pointer<T, S>, high: Pointer<T, S>) {
    let (one, other) = (low.load(), high.load());
    low.store(other);
    high.store(one);
}

/// `number` with a zero bit put in above its lowest `low_bits`.
fn with_zero_bit(number: Reg<u64>, low_bits: Reg<u32>) -> Reg<u64> {
    let above = number >> low_bits;
    (above << (low_bits + 1)) | (number - (above << low_bits))
}

/// `sorted` = `keys` in order.
///
/// # Errors
/// The lengths differ, as [`Bitonic::check`], the kernel cannot be built for the device, or a launch failed.
pub fn keys<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    sorted: &mut Buffer<K>,
    configuration: Bitonic,
) -> Result<LaunchCounts> {
    expect_length("the output of a sort", keys.len(), sorted.len())?;
    configuration.check()?;
    stream.copy(sorted, keys)?;
    let (threads, length) = (configuration.threads, keys.len() as u64);
    let order = operations.kernel(configuration, Bitonic::order_tiles::<K>)?;
    let step = operations.kernel(configuration, Bitonic::step::<K>)?;
    let finish = operations.kernel(configuration, Bitonic::finish_tiles::<K>)?;
    configuration.launches(operations, length, |launch, grid| {
        Ok(match launch {
            Launch::Order => order.launch(stream, grid, threads, (&mut *sorted, length))?,
            Launch::Step(Step { low_bits, mask }) => {
                step.launch(stream, grid, threads, (&mut *sorted, length, low_bits, mask))?
            }
            Launch::Finish => finish.launch(stream, grid, threads, (&mut *sorted, length))?,
        })
    })
}

/// Keys in order, each with its value: of `(keys, values)` into `sorted`. Values of equal keys come in any order.
///
/// # Errors
/// As [`keys`].
pub fn pairs<K: SortKey, V: Storable>(
    operations: &Operations,
    stream: &Stream,
    (keys, values): (&Buffer<K>, &Buffer<V>),
    (sorted, sorted_values): (&mut Buffer<K>, &mut Buffer<V>),
    configuration: Bitonic,
) -> Result<LaunchCounts> {
    expect_pairs((keys, values), (sorted, sorted_values))?;
    configuration.check()?;
    stream.copy(sorted, keys)?;
    stream.copy(sorted_values, values)?;
    let (threads, length) = (configuration.threads, keys.len() as u64);
    let order = operations.kernel(configuration, Bitonic::order_tiles_of_pairs::<K, V>)?;
    let step = operations.kernel(configuration, Bitonic::step_of_pairs::<K, V>)?;
    let finish = operations.kernel(configuration, Bitonic::finish_tiles_of_pairs::<K, V>)?;
    configuration.launches(operations, length, |launch, grid| {
        let (keys, values) = (&mut *sorted, &mut *sorted_values);
        Ok(match launch {
            Launch::Order => order.launch(stream, grid, threads, (keys, values, length))?,
            Launch::Step(Step { low_bits, mask }) => {
                step.launch(stream, grid, threads, (keys, values, length, low_bits, mask))?
            }
            Launch::Finish => finish.launch(stream, grid, threads, (keys, values, length))?,
        })
    })
}

/// A launch of the sort.
enum Launch {
    /// Of the kernel that orders tiles.
    Order,
    /// Of a step between tiles.
    Step(Step),
    /// Of the kernel that makes the steps within tiles.
    Finish,
}

impl Bitonic {
    /// Calls `launch` for each launch that `length` keys take, with its grid.
    fn launches(
        &self,
        operations: &Operations,
        length: u64,
        mut launch: impl FnMut(Launch, u32) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if length < 2 {
            return Ok(LaunchCounts::default());
        }
        let (threads, tile) = (u64::from(self.threads), u64::from(self.tile()));
        let grid = |ctas| operations.grid("a bitonic sort", ctas);
        let tiles = grid(length.div_ceil(tile))?;
        let mut counts = launch(Launch::Order, tiles)?;
        for block in tile.ilog2()..length.next_power_of_two().ilog2() {
            let between = (tile.ilog2()..block).rev().map(Step::apart);
            for step in std::iter::once(Step::between_ends(block)).chain(between) {
                // Pairs lie half as densely as keys, and a block's last tile may be missing: its pairs are there all the same.
                let pairs = length.next_multiple_of(2 << block) / 2;
                counts = both(counts, launch(Launch::Step(step), grid(pairs.div_ceil(threads))?)?);
            }
            counts = both(counts, launch(Launch::Finish, tiles)?);
        }
        Ok(counts)
    }
}
