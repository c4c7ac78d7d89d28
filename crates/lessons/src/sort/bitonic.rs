//! Bitonic sort: a sorting network, whose comparisons do not depend on the keys.
//!
//! Blocks of 2, 4, 8, .. keys are sorted, each from two sorted halves. First every key is compared
//! with its mirror image in the block, which leaves the smaller keys in the lower half. Then keys
//! at half, a quarter, .. of the block's length apart are compared.
//!
//! ```text
//! block of 8     0 1 2 3 4 5 6 7      0 with 7, 1 with 6, 2 with 5, 3 with 4
//!                                     0 with 2, 1 with 3;  4 with 6, 5 with 7
//!                                     0 with 1, 2 with 3;  4 with 5, 6 with 7
//! ```
//!
//! Every comparison leaves the smaller key at the lower index. Missing keys count as the largest,
//! so a comparison with one of them does nothing, and any length is possible.
//!
//! The network has log² n / 2 steps. If each step read and wrote all keys, DRAM bandwidth would be
//! the limit, so a thread executes four steps at a time: it loads the 16 keys whose indices differ
//! in four adjacent bits into registers, and the steps of those bits compare only these. All steps
//! within a tile go through shared memory in one launch; between tiles a launch executes four
//! steps.
//!
//! ```text
//! a index in a block of 2^20 keys:   b b b b  b b b b  b b b b  b b b b  b b b b    a step for each bit, from the highest
//!                                    -------  -------  -------  -------  -------    a pass: four steps on 16 keys in registers
//!                                    launch   launch   launch ------------------    tiles of 2^12 keys
//! ```
//!
//! That is log² n / 8 passes over memory; [`radix`](warpwright_kernels::sort::radix) needs fewer
//! and is faster.
//!
//! Values move with their keys. The sort is not stable: [`merge`](super::merge) and
//! [`radix`](warpwright_kernels::sort::radix) are.
//!
//! (Batcher, "Sorting Networks and Their Applications", 1968.)

use std::ops::{BitAnd, BitXor, Range, Shr};

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::pairs::{Memory, Pair, Tile, order_two};
use crate::rules::{expect_declared_shared, expect_power_of_two_threads};
use warpwright_kernels::operations::{Operations, Result, both, expect_length};
use warpwright_kernels::sort::radix::expect_pairs;
use warpwright_kernels::sort::{Direction, SortKey};

/// Steps that a thread executes at a time.
const STEPS: u32 = 4;

/// Keys per thread for these steps.
const KEYS: u32 = 1 << STEPS;

/// Registers per SM (CUDA Programming Guide, "Technical Specifications per Compute Capability", all
/// since 5.0).
const REGISTERS: u32 = 65_536;

/// Its name in errors.
const WHAT: &str = "a bitonic sort";

/// The sort. A tile is 16 keys per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bitonic {
    /// Which key comes first.
    pub direction: Direction,
    /// Threads per CTA: a power of two from 32 to 1024.
    pub threads: u32,
}

/// Steps of the network on a thread's 16 keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Steps {
    /// All steps of blocks of 2 to 16 keys, which sort 16 adjacent keys.
    Order,
    /// The first steps, by their number, of a larger block: between mirror images, then between
    /// halves of halves.
    Begin(u32),
    /// This number of further steps within a block.
    Continue(u32),
}

/// Steps, and the keys that a thread loads for them: those at distance `1 << low_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    low_bits: u32,
    steps: Steps,
}

impl Steps {
    /// The pairs of keys that are compared, step by step, as indices of the 16 keys, the lower one
    /// first.
    fn pairs(self) -> Vec<(usize, usize)> {
        let between_ends = |bit: u32| (bit, (2usize << bit) - 1);
        let apart = |bit: u32| (bit, 1usize << bit);
        let block = |bits: u32| std::iter::once(between_ends(bits - 1)).chain((0..bits - 1).rev().map(apart));
        let steps: Vec<_> = match self {
            Self::Order => (1..=STEPS).flat_map(block).collect(),
            Self::Begin(count) => block(count).collect(),
            Self::Continue(count) => (0..count).rev().map(apart).collect(),
        };
        let of_step = |(bit, mask): (u32, usize)| {
            let lower = (0..KEYS as usize).filter(move |key| key >> bit & 1 == 0);
            lower.map(move |key| (key, key ^ mask))
        };
        steps.into_iter().flat_map(of_step).collect()
    }

    /// Whether key `number` of 16 is in the upper half of a block whose mirror images are compared.
    /// Its partner then counts from the end.
    fn counts_from_end(self, number: u32) -> bool {
        matches!(self, Self::Begin(count) if number >> (count - 1) & 1 == 1)
    }
}

/// The passes over the steps of these bits, in blocks of `2 << block` keys, from the highest bit.
fn passes(bits: Range<u32>, block: u32) -> Vec<Pass> {
    let ends: Vec<_> = (bits.start + 1..=bits.end).rev().step_by(STEPS as usize).collect();
    let of_end = |end: u32| {
        let low_bits = end.saturating_sub(STEPS).max(bits.start);
        let count = end - low_bits;
        Pass { low_bits, steps: if end > block { Steps::Begin(count) } else { Steps::Continue(count) } }
    };
    ends.into_iter().map(of_end).collect()
}

/// The kernel for passes between tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BetweenTiles {
    /// The sort.
    pub sort: Bitonic,
    /// The steps.
    pub steps: Steps,
}

impl BetweenTiles {
    /// Executes the steps on keys at distance `1 << low_bits`.
    #[kernel]
    pub fn keys<K: SortKey>(&self, keys: &mut Global<K>, length: u64, low_bits: u32) {
        let memory = Memory::<K, u8> { keys: *keys, values: None, direction: self.sort.direction };
        self.pass(&memory, length, low_bits);
    }

    /// As [`keys`](Self::keys), with a value beside each key.
    #[kernel]
    pub fn pairs<K: SortKey, V: Storable>(
        &self,
        keys: &mut Global<K>,
        values: &mut Global<V>,
        length: u64,
        low_bits: u32,
    ) {
        let memory = Memory { keys: *keys, values: Some(*values), direction: self.sort.direction };
        self.pass(&memory, length, low_bits);
    }

    #[device]
    fn pass<K: SortKey, V: Storable>(&self, memory: &Memory<K, V>, length: Reg<u64>, low_bits: Reg<u32>) {
        let threads = self.sort.threads;
        self.sort.launch(memory);
        let group = block_idx().x.convert::<u64>() * u64::from(threads) + thread_idx().x.convert::<u64>();
        let first = with_zero_bits(group, low_bits);
        let to_end = (constant(1u64) << low_bits) - 1;
        let indices: Vec<_> = (0..KEYS)
            .map(|number| {
                let index = first ^ (constant(u64::from(number)) << low_bits);
                if self.steps.counts_from_end(number) { index ^ to_end } else { index }
            })
            .collect();
        let mut pairs: Vec<_> =
            indices.iter().map(|index| memory.at(*index).load_if(index.lt(length))).collect();
        order::<K, V>(&mut pairs, self.steps);
        for (index, pair) in indices.iter().zip(pairs) {
            if *index < length {
                memory.at(*index).store(pair);
            }
        }
    }
}

impl Bitonic {
    /// The configuration for an H200.
    pub fn new<K: SortKey>(direction: Direction) -> Self {
        Self { direction, threads: if K::BYTES == 8 { 128 } else { 256 } }
    }

    /// Keys per tile.
    pub fn tile(&self) -> u32 {
        KEYS * self.threads
    }

    /// States the block size and the CTAs per SM: as many as leave each thread registers for its
    /// keys, as many addresses, and 48 more. (By default the assembler keeps the addresses of all
    /// passes in registers; with fewer registers it spills.)
    fn launch<K: SortKey, V: Element>(&self, memory: &Memory<K, V>) {
        let words = |bytes: u32| bytes.div_ceil(4) * KEYS;
        let keys = words(K::Bits::BYTES) + memory.values.map_or(0, |_| words(V::BYTES));
        let resident = REGISTERS / (48 + 2 * keys);
        launch::threads(self.threads);
        launch::blocks_per_sm((resident / self.threads).max(1));
    }

    /// Refuses unsupported configurations, with values of `value_bytes` bytes for each key, or 0
    /// for none.
    ///
    /// # Errors
    /// The number of threads is not a power of two from 32 to 1024, or a tile does not fit shared
    /// memory.
    pub fn check<K: SortKey>(&self, value_bytes: u32) -> Result<()> {
        expect_power_of_two_threads(WHAT, 32, self.threads)?;
        expect_declared_shared(WHAT, u64::from(self.tile()) * u64::from(K::Bits::BYTES + value_bytes))
    }

    /// `sorted` = `keys`, with each tile sorted.
    #[kernel]
    pub fn order_tiles<K: SortKey>(&self, keys: &Global<K>, sorted: &mut Global<K>, length: u64) {
        let from = Memory::<K, u8> { keys: *keys, values: None, direction: self.direction };
        self.in_tiles(&from, &Memory { keys: *sorted, ..from }, length, &self.order_passes());
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
        self.in_tiles(&from, &to, length, &self.order_passes());
    }

    /// Executes the steps of a larger block that stay within tiles.
    #[kernel]
    pub fn finish_tiles<K: SortKey>(&self, keys: &mut Global<K>, length: u64) {
        let memory = Memory::<K, u8> { keys: *keys, values: None, direction: self.direction };
        self.in_tiles(&memory, &memory, length, &self.finish_passes());
    }

    /// As [`finish_tiles`](Self::finish_tiles), with a value beside each key.
    #[kernel]
    pub fn finish_tiles_of_pairs<K: SortKey, V: Storable>(
        &self,
        keys: &mut Global<K>,
        values: &mut Global<V>,
        length: u64,
    ) {
        let memory = Memory { keys: *keys, values: Some(*values), direction: self.direction };
        self.in_tiles(&memory, &memory, length, &self.finish_passes());
    }

    /// The passes that sort a tile.
    fn order_passes(&self) -> Vec<Pass> {
        let order = Pass { low_bits: 0, steps: Steps::Order };
        let blocks = (STEPS..self.tile().ilog2()).flat_map(|block| passes(0..block + 1, block));
        std::iter::once(order).chain(blocks).collect()
    }

    /// The passes of a larger block that stay within tiles.
    fn finish_passes(&self) -> Vec<Pass> {
        let bits = self.tile().ilog2();
        passes(0..bits, bits)
    }

    /// Executes passes over each tile, in shared memory.
    #[device]
    fn in_tiles<K: SortKey, V: Storable>(
        &self,
        from: &Memory<K, V>,
        to: &Memory<K, V>,
        length: Reg<u64>,
        passes: &[Pass],
    ) {
        self.launch(from);
        let tile = Tile::new(self.tile(), from);
        let thread = thread_idx().x;
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile());
        let indices: Vec<_> = (0..KEYS).map(|round| thread + round * self.threads).collect();
        let is_there = |index: Reg<u32>| (first + index.convert::<u64>()).lt(length);
        let mut pairs: Vec<_> =
            indices.iter().map(|index| from.at(first).at(*index).load_if(is_there(*index))).collect();
        // The keys that a thread loads differ in the highest four bits of their indices. If the
        // first pass is over these bits, it needs no shared memory.
        let of_loaded = Pass { low_bits: self.threads.ilog2(), steps: Steps::Continue(STEPS) };
        let is_of_loaded = passes.first() == Some(&of_loaded);
        if is_of_loaded {
            order::<K, V>(&mut pairs, of_loaded.steps);
        }
        for (index, pair) in indices.iter().zip(pairs) {
            tile.at(banked(*index)).store(pair);
        }
        sync_threads();
        for pass in &passes[usize::from(is_of_loaded)..] {
            self.in_tile(&tile, *pass);
            sync_threads();
        }
        for index in &indices {
            if is_there(*index) {
                to.at(first).at(*index).store(tile.at(banked(*index)).load());
            }
        }
    }

    /// Executes a pass over a tile.
    #[device]
    fn in_tile<K: SortKey, V: Storable>(&self, tile: &Tile<K, V>, Pass { low_bits, steps }: Pass) {
        let thread = thread_idx().x.convert::<u64>();
        let first = banked(with_zero_bits(thread, constant(low_bits)).convert::<u32>());
        let to_end = (1 << low_bits) - 1;
        let indices: Vec<_> = (0..KEYS)
            .map(|number| {
                let offset = number << low_bits;
                first ^ banked(if steps.counts_from_end(number) { offset ^ to_end } else { offset })
            })
            .collect();
        let mut pairs: Vec<_> = indices.iter().map(|index| tile.at(*index).load()).collect();
        order::<K, V>(&mut pairs, steps);
        for (index, pair) in indices.iter().zip(pairs) {
            tile.at(*index).store(pair);
        }
    }
}

/// Executes steps on a thread's keys.
#[track_caller]
fn order<K: SortKey, V: Element>(pairs: &mut [Pair<K, V>], steps: Steps) {
    for (low, high) in steps.pairs() {
        order_two::<K, V>(pairs, low, high);
    }
}

/// `number` with four zero bits inserted above its lowest `low_bits` bits.
fn with_zero_bits(number: Reg<u64>, low_bits: Reg<u32>) -> Reg<u64> {
    let above = number >> low_bits;
    (above << (low_bits + STEPS)) | (number - (above << low_bits))
}

/// The index at which a tile stores its key of index `index`: the 32 keys of a warp are in 32
/// banks, for any four bits in which a thread's keys differ. The function is linear over exclusive
/// or.
fn banked<N>(index: N) -> N
where
    N: Copy + Shr<u32, Output = N> + BitAnd<u32, Output = N> + BitXor<Output = N>,
{
    index ^ (index >> STEPS & 31)
}

/// Sorts `keys` into `sorted`.
///
/// # Errors
/// The lengths differ, as [`Bitonic::check`], the kernel cannot be built for the device, or a
/// launch failed.
pub fn keys<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    sorted: &mut Buffer<K>,
    configuration: Bitonic,
) -> Result<LaunchCounts> {
    expect_length("the output of a sort", keys.len(), sorted.len())?;
    configuration.check::<K>(0)?;
    let length = keys.len() as u64;
    let order = operations.kernel(configuration, Bitonic::order_tiles::<K>)?;
    let finish = operations.kernel(configuration, Bitonic::finish_tiles::<K>)?;
    configuration.launches(operations, length, |launch, grid| {
        Ok(match launch {
            Launch::Order => order.launch(stream, grid, (keys, &mut *sorted, length))?,
            Launch::Between(Pass { low_bits, steps }) => {
                let between = BetweenTiles { sort: configuration, steps };
                let kernel = operations.kernel(between, BetweenTiles::keys::<K>)?;
                kernel.launch(stream, grid, (&mut *sorted, length, low_bits))?
            }
            Launch::Finish => finish.launch(stream, grid, (&mut *sorted, length))?,
        })
    })
}

/// Sorts `(keys, values)` by key into `sorted`. The order of equal keys is undefined.
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
    configuration.check::<K>(V::BYTES)?;
    let length = keys.len() as u64;
    let order = operations.kernel(configuration, Bitonic::order_tiles_of_pairs::<K, V>)?;
    let finish = operations.kernel(configuration, Bitonic::finish_tiles_of_pairs::<K, V>)?;
    configuration.launches(operations, length, |launch, grid| {
        let (to, values_to) = (&mut *sorted, &mut *sorted_values);
        Ok(match launch {
            Launch::Order => order.launch(stream, grid, (keys, values, to, values_to, length))?,
            Launch::Between(Pass { low_bits, steps }) => {
                let between = BetweenTiles { sort: configuration, steps };
                let kernel = operations.kernel(between, BetweenTiles::pairs::<K, V>)?;
                kernel.launch(stream, grid, (to, values_to, length, low_bits))?
            }
            Launch::Finish => finish.launch(stream, grid, (to, values_to, length))?,
        })
    })
}

/// A launch of the sort.
enum Launch {
    /// The kernel that sorts tiles.
    Order,
    /// A pass between tiles.
    Between(Pass),
    /// The kernel for the steps within tiles.
    Finish,
}

impl Bitonic {
    /// Calls `launch` with the grid of each launch for `length` keys.
    fn launches(
        &self,
        operations: &Operations,
        length: u64,
        mut launch: impl FnMut(Launch, u32) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if length == 0 {
            return Ok(LaunchCounts::default());
        }
        let (threads, bits) = (u64::from(self.threads), self.tile().ilog2());
        let grid = |ctas| operations.grid(WHAT, ctas);
        let tiles = grid(length.div_ceil(self.tile().into()))?;
        let mut counts = launch(Launch::Order, tiles)?;
        for block in bits..length.next_power_of_two().ilog2() {
            for pass in passes(bits..block + 1, block) {
                // Enough threads that each group of 16 keys at distance `1 << low_bits` has one.
                let groups = length.div_ceil(1 << (pass.low_bits + STEPS)) << pass.low_bits;
                counts = both(counts, launch(Launch::Between(pass), grid(groups.div_ceil(threads))?)?);
            }
            counts = both(counts, launch(Launch::Finish, tiles)?);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_make_every_step_once() {
        for (bits, block) in [(0..1, 0), (0..12, 12), (0..11, 10), (12..13, 12), (12..17, 16), (9..20, 19)] {
            let mut made = Vec::new();
            for (index, Pass { low_bits, steps }) in passes(bits.clone(), block).into_iter().enumerate() {
                let count = match steps {
                    Steps::Begin(count) => {
                        assert!(index == 0 && bits.end == block + 1);
                        count
                    }
                    Steps::Continue(count) => count,
                    Steps::Order => panic!("that is for blocks of 16"),
                };
                made.extend((low_bits..low_bits + count).rev());
            }
            assert!(made.into_iter().eq(bits.rev()));
        }
    }

    /// A network that orders all rows of zeros and ones orders everything (Knuth, "The Art of
    /// Computer Programming", 5.3.4).
    #[test]
    fn sixteen_keys_are_ordered() {
        let pairs = Steps::Order.pairs();
        assert_eq!(pairs.len(), 10 * 8);
        for keys in 0..1u32 << KEYS {
            let ordered = pairs.iter().fold(keys, |keys, &(low, high)| {
                let exchanged = (keys >> low & 1) > (keys >> high & 1);
                keys ^ (u32::from(exchanged) << low | u32::from(exchanged) << high)
            });
            let ones = keys.count_ones();
            assert_eq!(ordered, ((1 << ones) - 1) << (KEYS - ones), "{keys:b}");
        }
    }

    /// For every pass, the lanes of a warp access their keys in different banks.
    #[test]
    fn no_pass_has_bank_conflicts() {
        let with_zero_bits =
            |number: u32, low: u32| (number >> low) << (low + STEPS) | number & ((1 << low) - 1);
        for low_bits in 0..=8 {
            for number in 0..KEYS {
                let bank = |lane| banked(with_zero_bits(lane, low_bits) ^ (number << low_bits)) % 32;
                let banks: std::collections::HashSet<_> = (0..32).map(bank).collect();
                assert_eq!(banks.len(), 32, "key {number} of those at distance 2^{low_bits}");
            }
        }
    }
}
