//! Sorts of random keys: inputs, the sort on the host, and every element compared with it.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};
use warpwright_harness::{
    Compared, OptionValue, Options, Prepared, Result, Setup, Work, compare_parallel, generate,
};

use super::key::{Direction, SortKey};
use crate::operations::{self, Operations};
use crate::sample::Sampled;

/// What a sort returns.
type Sorted = operations::Result<LaunchCounts>;

/// Options of every sort.
#[derive(Clone, Debug, Options)]
pub struct Keys {
    /// Number of keys.
    #[option(default = 1_000_003)]
    length: usize,
    /// Order of the input.
    order: InputOrder,
    /// Order of the output.
    direction: Direction,
}

/// The order of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum InputOrder {
    /// Random bits; for floats, these include NaN, infinities and -0.
    #[default]
    Random,
    /// Random bits in ascending order.
    Sorted,
    /// Random bits in descending order.
    Reversed,
    /// All keys are equal.
    Equal,
    /// Three different keys.
    Few,
}

impl Keys {
    /// The work of a sort with values of `value_bytes` bytes: every key and value is read and
    /// written once.
    pub fn work<K: SortKey>(&self, value_bytes: u32) -> Work {
        let length = self.length as f64;
        Work { operations: length, bytes: f64::from(2 * (K::BYTES + value_bytes)) * length }
    }

    /// The keys of a seed.
    fn generate<K: SortKey>(&self, seed: u64, length: usize) -> Vec<K> {
        let order = self.order;
        let from_bits =
            |bits: u64| -> K { bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<K>()]) };
        let mut keys = generate(seed, length, K::zeroed(), |random, keys| {
            keys.fill_with(|| match order {
                InputOrder::Equal => from_bits(0x4321),
                InputOrder::Few => from_bits(random.bits() % 3 * 0x1001),
                _ => from_bits(random.bits()),
            });
        });
        match order {
            InputOrder::Sorted => keys.par_sort_unstable_by_key(|key| rank(*key, Direction::Ascending)),
            InputOrder::Reversed => keys.par_sort_unstable_by_key(|key| rank(*key, Direction::Descending)),
            _ => {}
        }
        keys
    }
}

/// What a key is sorted by on the host.
fn rank<K: SortKey>(key: K, direction: Direction) -> u64 {
    match direction {
        Direction::Ascending => key.ordered_on_host(),
        Direction::Descending => !key.ordered_on_host(),
    }
}

/// Bits beside what they should be.
fn compared(found: u64, expected: u64) -> Compared {
    u64::compared(found, expected, 0.0)
}

/// The values of sorted keys, those of equal keys from the smallest to the largest: values that
/// count places are then as a stable sort leaves them.
fn in_place_order<K: SortKey, V: Storable>(keys: &[K], mut values: Vec<V>) -> Vec<V> {
    let mut left = &mut values[..];
    for equal in keys.chunk_by(|one, other| one.bits() == other.bits()) {
        let (of_equal, rest) = left.split_at_mut(equal.len());
        of_equal.sort_by_key(|value| value.bits());
        left = rest;
    }
    values
}

/// Whether values of equal keys stay in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// They do.
    Stable,
    /// They may be in any order.
    Unstable,
}

/// Random keys on a device.
pub struct SortProblem<'a> {
    /// The device.
    pub setup: &'a Setup,
    /// The options.
    pub keys: &'a Keys,
}

impl SortProblem<'_> {
    /// Keys alone, sorted by `sort`.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn of_keys<K: SortKey>(
        &self,
        sort: impl Fn(&Operations, &Stream, &Buffer<K>, &mut Buffer<K>, Direction) -> Sorted + 'static,
    ) -> Result<Box<dyn Prepared>> {
        let (setup, direction) = (self.setup, self.keys.direction);
        let buffers = setup.buffers(self.keys.work::<K>(0), |seed| {
            let keys = setup.input(self.keys.length, |length| self.keys.generate::<K>(seed, length))?;
            Ok((keys, setup.output::<K>(self.keys.length)?))
        })?;
        let operations = Operations::new(setup.device());
        Ok(buffers
            .launch(move |stream, (keys, sorted)| Ok(sort(&operations, stream, keys, sorted, direction)?))
            .verify(move |(keys, sorted)| {
                let (found, mut expected) = (sorted.to_vec()?, keys.to_vec()?);
                // Keys of one rank are the same bits, so that it does not matter which stands
                // first.
                expected.par_sort_unstable_by_key(|key| rank(*key, direction));
                Ok(compare_parallel(found.len(), |index| {
                    compared(found[index].bits(), expected[index].bits())
                })?)
            }))
    }

    /// Keys with values, sorted by `sort`. Value i is `value(i)`.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn of_pairs<K: SortKey, V: Storable>(
        &self,
        value: fn(u64) -> V,
        stability: Stability,
        sort: impl Fn(
            &Operations,
            &Stream,
            (&Buffer<K>, &Buffer<V>),
            (&mut Buffer<K>, &mut Buffer<V>),
            Direction,
        ) -> Sorted
        + 'static,
    ) -> Result<Box<dyn Prepared>> {
        let (setup, direction, length) = (self.setup, self.keys.direction, self.keys.length);
        let buffers = setup.buffers(self.keys.work::<K>(V::BYTES), |seed| {
            let keys = setup.input(length, |length| self.keys.generate::<K>(seed, length))?;
            let values = setup.input(length, |length| (0..length as u64).map(value).collect())?;
            Ok(((keys, values), (setup.output::<K>(length)?, setup.output::<V>(length)?)))
        })?;
        let operations = Operations::new(setup.device());
        Ok(buffers
            .launch(move |stream, ((keys, values), (sorted, sorted_values))| {
                Ok(sort(&operations, stream, (keys, values), (sorted, sorted_values), direction)?)
            })
            .verify(move |((keys, values), (sorted, sorted_values))| {
                let (found, found_values) = (sorted.to_vec()?, sorted_values.to_vec()?);
                let found_values = match stability {
                    Stability::Stable => found_values,
                    Stability::Unstable => in_place_order(&found, found_values),
                };
                let mut expected: Vec<(K, V)> = keys.to_vec()?.into_iter().zip(values.to_vec()?).collect();
                expected.par_sort_by_key(|(key, _)| rank(*key, direction));
                Ok(compare_parallel(found.len(), |index| {
                    let (key, value) = expected[index];
                    let found_key = compared(found[index].bits(), key.bits());
                    let is_right = found_key.found == found_key.expected;
                    if is_right { compared(found_values[index].bits(), value.bits()) } else { found_key }
                })?)
            }))
    }
}
