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
//! others take a launch each. There are log² n / 2 steps, which is why [`radix`](super::radix) wins from a few tiles on. Equal keys do
//! not stay in their order, so there are no values to carry.
//!
//! (Batcher, "Sorting Networks and Their Applications", 1968.)

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use super::radix::in_direction;
use super::{Direction, SortKey};
use crate::operations::{Operations, Result, both};

/// The sort: a tile is two keys for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bitonic {
    /// Which key comes first.
    pub direction: Direction,
    /// Threads of a CTA: a power of two.
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

    /// Orders each tile.
    #[kernel]
    pub fn order_tiles<K: SortKey>(&self, keys: &mut Global<K>, length: u64) {
        let mut steps = Vec::new();
        for block in 0..self.tile().ilog2() {
            steps.push(Step::between_ends(block));
            steps.extend((0..block).rev().map(Step::apart));
        }
        self.in_tiles(*keys, length, &steps);
    }

    /// Makes the steps of a larger block that stay within tiles.
    #[kernel]
    pub fn finish_tiles<K: SortKey>(&self, keys: &mut Global<K>, length: u64) {
        let steps: Vec<_> = (0..self.tile().ilog2()).rev().map(Step::apart).collect();
        self.in_tiles(*keys, length, &steps);
    }

    /// Makes one step between tiles.
    #[kernel]
    pub fn step<K: SortKey>(&self, keys: &mut Global<K>, length: u64, low_bits: u32, mask: u64) {
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
            }
        }
    }

    /// Makes steps on each tile, in shared memory.
    #[device]
    fn in_tiles<K: SortKey>(&self, keys: Global<K>, length: Reg<u64>, steps: &[Step]) {
        launch::threads(self.threads);
        let tile = shared_array::<K::Bits>(self.tile() as usize);
        let thread = thread_idx().x;
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        for half in 0..2 {
            let place = thread + half * self.threads;
            let mut key = constant(K::MOST);
            if first + place.convert::<u64>() < length {
                key = in_direction::<K>(K::ordered(keys.at(first).at(place).load()), self.direction);
            }
            tile.at(place).store(key);
        }
        sync_threads();
        for step in steps {
            let lower = with_zero_bit(thread.convert::<u64>(), constant(step.low_bits)).convert::<u32>();
            let (low, high) = (tile.at(lower), tile.at(lower ^ step.mask as u32));
            let (one, other) = (low.load(), high.load());
            if K::is_below(other, one) {
                low.store(other);
                high.store(one);
            }
            sync_threads();
        }
        for half in 0..2 {
            let place = thread + half * self.threads;
            if first + place.convert::<u64>() < length {
                let key = K::restored(in_direction::<K>(tile.at(place).load(), self.direction));
                keys.at(first).at(place).store(key);
            }
        }
    }
}

/// `number` with a zero bit put in above its lowest `low_bits`.
fn with_zero_bit(number: Reg<u64>, low_bits: Reg<u32>) -> Reg<u64> {
    let above = number >> low_bits;
    (above << (low_bits + 1)) | (number - (above << low_bits))
}

/// `sorted` = `keys` in order.
///
/// # Errors
/// The kernel cannot be built for the device, or a launch failed.
pub fn keys<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    sorted: &mut Buffer<K>,
    configuration: Bitonic,
) -> Result<LaunchCounts> {
    let length = keys.len() as u64;
    stream.copy(sorted, keys)?;
    if length < 2 {
        return Ok(LaunchCounts::default());
    }
    let (threads, tile) = (configuration.threads, u64::from(configuration.tile()));
    let tiles = operations.grid("a bitonic sort", length.div_ceil(tile))?;
    let order = operations.kernel(configuration, Bitonic::order_tiles::<K>)?;
    let mut counts = order.launch(stream, tiles, threads, (&mut *sorted, length))?;
    let step = operations.kernel(configuration, Bitonic::step::<K>)?;
    let finish = operations.kernel(configuration, Bitonic::finish_tiles::<K>)?;
    for block in tile.ilog2()..length.next_power_of_two().ilog2() {
        let between = (tile.ilog2()..block).rev().map(Step::apart);
        for Step { low_bits, mask } in std::iter::once(Step::between_ends(block)).chain(between) {
            // Pairs lie half as densely as keys, and a block's last tile may be missing: its pairs are there all the same.
            let pairs = length.next_multiple_of(2 << block) / 2;
            let grid = operations.grid("a bitonic sort", pairs.div_ceil(threads.into()))?;
            counts =
                both(counts, step.launch(stream, grid, threads, (&mut *sorted, length, low_bits, mask))?);
        }
        counts = both(counts, finish.launch(stream, tiles, threads, (&mut *sorted, length))?);
    }
    Ok(counts)
}
