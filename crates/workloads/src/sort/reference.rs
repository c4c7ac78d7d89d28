//! Sorts of random keys: inputs, the sort on the host, and every element compared with it.
//!
//! The host works on the bits of keys and values, so that its sorts are compiled once for all types.

use rayon::prelude::*;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::lang::element::Element;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};
use warpwright_harness::{
    Compared, Options, Prepared, Result, Setup, Verified, Work, compare_parallel, generate,
};

use crate::sample::Sampled;
use warpwright_kernels::operations::{self, Operations};
use warpwright_kernels::sort::{Direction, SortKey};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
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

    /// The bits of the keys of a seed.
    fn generate(&self, seed: u64, length: usize, host: HostOrder) -> Vec<u64> {
        let order = self.order;
        let mut keys = generate(seed, length, 0, |random, keys| {
            keys.fill_with(|| {
                let bits = match order {
                    InputOrder::Equal => 0x4321,
                    InputOrder::Few => random.bits() % 3 * 0x1001,
                    _ => random.bits(),
                };
                bits & host.mask
            });
        });
        match order {
            InputOrder::Sorted => keys.par_sort_unstable_by_key(|key| (host.ordered)(*key)),
            InputOrder::Reversed => keys.par_sort_unstable_by_key(|key| !(host.ordered)(*key)),
            _ => {}
        }
        keys
    }
}

/// The order of keys of one type, on the host.
#[derive(Clone, Copy)]
struct HostOrder {
    /// The number by which the bits of a key are sorted.
    ordered: fn(u64) -> u64,
    /// The bits that a key has.
    mask: u64,
    direction: Direction,
}

impl HostOrder {
    fn of<K: SortKey>(direction: Direction) -> Self {
        Self { ordered: K::ordered_on_host, mask: u64::MAX >> (64 - 8 * K::BYTES), direction }
    }

    /// The keys are sorted from the smallest rank to the largest.
    fn rank(&self, key: u64) -> u64 {
        match self.direction {
            Direction::Ascending => (self.ordered)(key),
            Direction::Descending => !(self.ordered)(key),
        }
    }

    /// Compares sorted keys with `keys`.
    fn compare_keys(self, found: &[u64], mut keys: Vec<u64>) -> Result<Verified> {
        // Keys of one rank are the same bits, so that it does not matter which stands first.
        keys.par_sort_unstable_by_key(|key| self.rank(*key));
        Ok(compare_parallel(found.len(), |index| compared(found[index], keys[index]))?)
    }

    /// Compares sorted keys and their values with `pairs`, sorted by a stable sort.
    fn compare_pairs(self, (keys, values): (&[u64], &[u64]), mut pairs: Vec<(u64, u64)>) -> Result<Verified> {
        pairs.par_sort_by_key(|(key, _)| self.rank(*key));
        Ok(compare_parallel(keys.len(), |index| {
            let (key, value) = pairs[index];
            if keys[index] == key { compared(values[index], value) } else { compared(keys[index], key) }
        })?)
    }
}

/// The bits of each element.
fn bits_of<T: Element>(elements: Vec<T>) -> Vec<u64> {
    elements.into_iter().map(Element::bits).collect()
}

/// The elements of such bits.
fn from_bits<T: Storable>(bits: Vec<u64>) -> Vec<T> {
    bits.into_iter().map(|bits| bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<T>()])).collect()
}

/// Bits beside what they should be.
fn compared(found: u64, expected: u64) -> Compared {
    u64::compared(found, expected, 0.0)
}

/// The values of sorted keys, those of equal keys from the smallest to the largest: values that
/// count places are then as a stable sort leaves them.
fn in_place_order(keys: &[u64], mut values: Vec<u64>) -> Vec<u64> {
    let mut left = &mut values[..];
    for equal in keys.chunk_by(|one, other| one == other) {
        let (of_equal, rest) = left.split_at_mut(equal.len());
        of_equal.sort_unstable();
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
        let host = HostOrder::of::<K>(direction);
        let buffers = setup.buffers(self.keys.work::<K>(0), |seed| {
            let keys = setup
                .input(self.keys.length, |length| from_bits::<K>(self.keys.generate(seed, length, host)))?;
            Ok((keys, setup.output::<K>(self.keys.length)?))
        })?;
        let operations = Operations::new(setup.device());
        Ok(buffers
            .launch(move |stream, (keys, sorted)| Ok(sort(&operations, stream, keys, sorted, direction)?))
            .verify(move |(keys, sorted)| {
                host.compare_keys(&bits_of(sorted.to_vec()?), bits_of(keys.to_vec()?))
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
        let host = HostOrder::of::<K>(direction);
        let buffers = setup.buffers(self.keys.work::<K>(V::BYTES), |seed| {
            let keys =
                setup.input(length, |length| from_bits::<K>(self.keys.generate(seed, length, host)))?;
            let values = setup.input(length, |length| (0..length as u64).map(value).collect())?;
            Ok(((keys, values), (setup.output::<K>(length)?, setup.output::<V>(length)?)))
        })?;
        let operations = Operations::new(setup.device());
        Ok(buffers
            .launch(move |stream, ((keys, values), (sorted, sorted_values))| {
                Ok(sort(&operations, stream, (keys, values), (sorted, sorted_values), direction)?)
            })
            .verify(move |((keys, values), (sorted, sorted_values))| {
                let (found, found_values) = (bits_of(sorted.to_vec()?), bits_of(sorted_values.to_vec()?));
                let found_values = match stability {
                    Stability::Stable => found_values,
                    Stability::Unstable => in_place_order(&found, found_values),
                };
                let pairs = bits_of(keys.to_vec()?).into_iter().zip(bits_of(values.to_vec()?)).collect();
                host.compare_pairs((&found, &found_values), pairs)
            }))
    }
}
