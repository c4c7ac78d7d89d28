//! Radix sort: a pass per byte of the keys, from the lowest, each pass stable.
//!
//! One launch counts all bytes of all keys, so that the first position of each of the 256 values of
//! a byte is known before the first pass. A pass reads each key once and writes it once. Positions
//! come from counts: within a tile from those of warps and of the CTA, between tiles from decoupled
//! look-back, one chain per digit value.
//!
//! ```text
//! keys       32 1a 30 1b 3f 10      pass 0, by the low digit     30 10 32 1a 1b 3f
//!                                   pass 1, by the high digit    10 1a 1b 30 32 3f
//! ```
//!
//! (Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022.)

use warpwright::arch::Capability;
use warpwright::lang::element::Element;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::histogram::Histogram;
use super::key::{BINS, Direction, SortKey};
use super::sweep::{Part, Sweep};
use crate::operations::{
    OperationError, Operations, Result, Scratch, both, expect_length, expect_whole_warps,
};

/// The name in errors.
const WHAT: &str = "a radix sort";

/// The sort: its two kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Radix {
    /// Counts digits.
    pub histogram: Histogram,
    /// Does a pass.
    pub sweep: Sweep,
    /// Most keys of one launch of a pass, from a tile to 2^31: positions within it have 32 bits.
    pub most_of_a_launch: u64,
}

impl Radix {
    /// The fastest configuration for keys on an H200: the largest tiles that leave room for two
    /// CTAs per SM.
    pub fn for_keys<K: SortKey>(direction: Direction) -> Self {
        Self::new::<K>(direction, if K::BYTES == 8 { 13 } else { 26 })
    }

    /// The fastest configuration for keys with values on an H200.
    pub fn for_pairs<K: SortKey, V: Storable>(direction: Direction) -> Self {
        Self::new::<K>(direction, if K::BYTES.max(V::BYTES) == 8 { 12 } else { 18 })
    }

    /// Refuses what a device of that capability cannot do, for values of `value_bytes` bytes beside
    /// each key: 0 for none.
    ///
    /// # Errors
    /// The kernels sort in different directions, or a number of either is outside what its field
    /// says, or their arrays do not fit shared memory.
    pub fn check<K: SortKey>(&self, value_bytes: u32, capability: &Capability) -> Result<()> {
        let refuse = |reason| Err(OperationError::Shape { what: WHAT, reason });
        let Self { histogram, sweep, most_of_a_launch } = *self;
        expect_whole_warps("the counting of a radix sort", 32, histogram.threads)?;
        expect_whole_warps(WHAT, BINS, sweep.threads)?;
        if histogram.direction != sweep.direction {
            return refuse(
                "its digits are counted in one direction and sorted in the other; give both the same"
                    .to_owned(),
            );
        }
        let numbers = [
            ("vectors a thread that counts", histogram.unroll.into(), 64),
            ("copies of a counter", histogram.copies.into(), 32),
            ("keys a thread", sweep.items.into(), 512),
            ("CTAs an SM", sweep.blocks_per_sm.into(), 32),
            ("tiles a look", sweep.window.into(), 32),
            ("keys a launch", most_of_a_launch, 1 << 31),
        ];
        if let Some((what, number, most)) =
            numbers.into_iter().find(|(_, number, most)| !(1..=*most).contains(number))
        {
            return refuse(format!("it has {number} {what}; give it 1 to {most}"));
        }
        let words = |count: u32| u64::from(count) * 4;
        let tile = u64::from(sweep.tile()) * u64::from(K::Bits::BYTES.max(value_bytes));
        // Beside the tile: a counter of each value for each warp, each value's place, and what the
        // warps' counts come to.
        let of_sweep = tile + words(sweep.threads / 32 * (BINS + 1)) + 2 * words(BINS);
        let of_histogram = words(K::BYTES * BINS * histogram.copies);
        let limit = u64::from(capability.shared_bytes_per_cta_opt_in);
        if of_sweep.max(of_histogram) > limit {
            let bytes = of_sweep.max(of_histogram);
            return refuse(format!(
                "its CTAs take {bytes} bytes of shared memory, and have {limit}; give them fewer threads, keys or copies"
            ));
        }
        Ok(())
    }

    fn new<K: SortKey>(direction: Direction, items: u32) -> Self {
        let sweep = Sweep { direction, threads: 384, items, blocks_per_sm: 2, window: 4 };
        Self { histogram: Histogram::new::<K>(direction), sweep, most_of_a_launch: 1 << 31 }
    }
}

impl Operations {
    /// `sorted` = `keys` in order.
    ///
    /// # Errors
    /// The lengths differ, the kernel cannot be built for the device, there is not enough memory,
    /// or a launch failed.
    pub fn sort<K: SortKey>(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        direction: Direction,
    ) -> Result<LaunchCounts> {
        self::keys(self, stream, keys, sorted, Radix::for_keys::<K>(direction))
    }

    /// Keys in order, each with its value: of `(keys, values)` into `sorted`. Values of equal keys
    /// stay in their order.
    ///
    /// # Errors
    /// As [`sort`](Self::sort).
    pub fn sort_pairs<K: SortKey, V: Storable>(
        &self,
        stream: &Stream,
        input: (&Buffer<K>, &Buffer<V>),
        sorted: (&mut Buffer<K>, &mut Buffer<V>),
        direction: Direction,
    ) -> Result<LaunchCounts> {
        self::pairs(self, stream, input, sorted, Radix::for_pairs::<K, V>(direction))
    }
}

/// The workspace of a stream's sorts, by types of keys and values.
struct SortScratch<K, V> {
    keys: Scratch<K>,
    values: Scratch<V>,
    /// The first position of each digit value, for each launch of a pass.
    starts: Scratch<u64>,
    /// The published counts of tiles, per digit value.
    chain: Scratch<u64>,
    counter: Scratch<u64>,
}

impl<K, V> Default for SortScratch<K, V> {
    fn default() -> Self {
        Self {
            keys: Scratch::default(),
            values: Scratch::default(),
            starts: Scratch::default(),
            chain: Scratch::default(),
            counter: Scratch::default(),
        }
    }
}

/// The workspace of a pass: room for keys and values, and the counters.
struct Workspace<'a, K, V> {
    keys: &'a mut Buffer<K>,
    values: &'a mut Buffer<V>,
    starts: &'a mut Buffer<u64>,
    chain: &'a mut Buffer<u64>,
    counter: &'a mut Buffer<u64>,
}

/// Sorts keys.
///
/// # Errors
/// The lengths differ, as [`Radix::check`], the kernel cannot be built for the device, there is not
/// enough memory, or a launch failed.
pub fn keys<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    sorted: &mut Buffer<K>,
    configuration: Radix,
) -> Result<LaunchCounts> {
    expect_length("the output of a sort", keys.len(), sorted.len())?;
    configuration.check::<K>(0, operations.device().properties().capability)?;
    let kernel = operations.kernel(configuration.sweep, Sweep::keys::<K>)?;
    run::<K, u8>(operations, stream, (keys, 0), configuration, |pass, part, tiles, workspace| {
        let (from, to) = turn::<K, _>(pass, keys, sorted, workspace.keys);
        let Workspace { starts, chain, counter, .. } = workspace;
        Ok(kernel.launch(stream, tiles, (from, to, starts, chain, counter, part))?)
    })
}

/// Sorts keys, each with its value. Values of equal keys stay in their order.
///
/// # Errors
/// As [`keys`].
pub fn pairs<K: SortKey, V: Storable>(
    operations: &Operations,
    stream: &Stream,
    (keys, values): (&Buffer<K>, &Buffer<V>),
    (sorted, sorted_values): (&mut Buffer<K>, &mut Buffer<V>),
    configuration: Radix,
) -> Result<LaunchCounts> {
    expect_pairs((keys, values), (sorted, sorted_values))?;
    configuration.check::<K>(V::BYTES, operations.device().properties().capability)?;
    let kernel = operations.kernel(configuration.sweep, Sweep::pairs::<K, V>)?;
    run::<K, V>(operations, stream, (keys, keys.len()), configuration, |pass, part, tiles, workspace| {
        let (from, to) = turn::<K, _>(pass, keys, sorted, workspace.keys);
        let (values_from, values_to) = turn::<K, _>(pass, values, sorted_values, workspace.values);
        let Workspace { starts, chain, counter, .. } = workspace;
        let arguments = (from, values_from, to, values_to, starts, chain, counter, part);
        Ok(kernel.launch(stream, tiles, arguments)?)
    })
}

/// Counts the digits of `keys`, and calls `launch` for each pass and part with the number of tiles.
/// The workspace has room for `value_count` values.
fn run<K: SortKey, V: Storable>(
    operations: &Operations,
    stream: &Stream,
    (keys, value_count): (&Buffer<K>, usize),
    configuration: Radix,
    mut launch: impl FnMut(u32, Part, u32, Workspace<'_, K, V>) -> Result<LaunchCounts>,
) -> Result<LaunchCounts> {
    let device = operations.device();
    operations.with_scratch(stream, |scratch: &mut SortScratch<K, V>| {
        let plan = Plan::new(configuration, keys.len() as u64);
        let starts = scratch.starts.at_least(device, plan.starts::<K>())?;
        let chain = scratch.chain.at_least_kept(stream, plan.chain())?;
        let counter = scratch.counter.at_least_kept(stream, 1)?;
        let spare = scratch.keys.at_least(device, keys.len())?;
        let spare_values = scratch.values.at_least(device, value_count)?;
        let counted = count_digits(operations, stream, keys, starts, configuration.histogram)?;
        let passed = plan.passes::<K>(|pass, part, tiles| {
            let workspace = Workspace {
                keys: &mut *spare,
                values: &mut *spare_values,
                starts: &mut *starts,
                chain: &mut *chain,
                counter: &mut *counter,
            };
            launch(pass, part, tiles, workspace)
        })?;
        Ok(both(counted, passed))
    })
}

/// The source and target of a pass. The first pass reads the input; then the output and the
/// workspace alternate, so that the last pass writes to the output.
fn turn<'a, K: SortKey, T>(
    pass: u32,
    input: &'a Buffer<T>,
    output: &'a mut Buffer<T>,
    spare: &'a mut Buffer<T>,
) -> (&'a Buffer<T>, &'a mut Buffer<T>) {
    let lands_in_output = (K::BYTES - pass) % 2 == 1;
    let (other, to) = if lands_in_output { (spare, output) } else { (output, spare) };
    (if pass == 0 { input } else { other }, to)
}

/// How a sort is divided into launches: each pass into parts whose positions have 32 bits.
struct Plan {
    sweep: Sweep,
    length: u64,
    /// Keys of a part, a whole number of tiles.
    part: u64,
}

impl Plan {
    fn new(configuration: Radix, length: u64) -> Self {
        let Radix { sweep, most_of_a_launch, .. } = configuration;
        let tile = u64::from(sweep.tile());
        Self { sweep, length, part: (most_of_a_launch / tile).max(1) * tile }
    }

    fn parts(&self) -> u64 {
        self.length.div_ceil(self.part)
    }

    /// Words of the first positions.
    fn starts<K: SortKey>(&self) -> usize {
        (self.parts() * u64::from(K::BYTES * BINS)) as usize
    }

    /// Words of the look-back chains.
    fn chain(&self) -> usize {
        (self.length.min(self.part).div_ceil(self.sweep.tile().into()) * u64::from(BINS)) as usize
    }

    /// Calls `launch` for each pass and part, with the number of tiles.
    fn passes<K: SortKey>(
        &self,
        mut launch: impl FnMut(u32, Part, u32) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        let mut counts = LaunchCounts::default();
        for pass in 0..K::BYTES {
            for part in 0..self.parts() {
                let start = part * self.part;
                let length = self.part.min(self.length - start);
                let tiles = length.div_ceil(self.sweep.tile().into()) as u32;
                let digit = part * u64::from(K::BYTES) + u64::from(pass);
                let next = if part + 1 < self.parts() { digit + u64::from(K::BYTES) } else { digit };
                counts = both(counts, launch(pass, [start, length, pass.into(), digit, next], tiles)?);
            }
        }
        Ok(counts)
    }
}

/// Writes the first position of each digit value of all keys to `starts`.
fn count_digits<K: SortKey>(
    operations: &Operations,
    stream: &Stream,
    keys: &Buffer<K>,
    starts: &mut Buffer<u64>,
    histogram: Histogram,
) -> Result<LaunchCounts> {
    if keys.is_empty() {
        return Ok(LaunchCounts::default());
    }
    let count = operations.kernel(histogram, Histogram::count::<K>)?;
    let accumulate = operations.kernel(histogram, Histogram::accumulate)?;
    stream.fill_zero(starts)?;
    let grid = histogram.grid::<K>(keys.len() as u64, operations.resident(&count)?);
    let counted = count.launch(stream, grid, (keys, &mut *starts, keys.len() as u64))?;
    Ok(both(counted, accumulate.launch(stream, K::BYTES, (starts,))?))
}

/// Refuses buffers of keys and values that do not belong together.
///
/// # Errors
/// Their lengths differ.
pub fn expect_pairs<K: SortKey, V: Storable>(
    (keys, values): (&Buffer<K>, &Buffer<V>),
    (sorted, sorted_values): (&Buffer<K>, &Buffer<V>),
) -> Result<()> {
    expect_length("the buffer of values to sort", keys.len(), values.len())?;
    expect_length("the buffer of sorted keys", keys.len(), sorted.len())?;
    expect_length("the buffer of sorted values", keys.len(), sorted_values.len())
}
