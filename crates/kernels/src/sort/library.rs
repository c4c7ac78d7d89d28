//! Sorts for the command line: inputs, the reference, and every element held to it.

use std::cell::RefCell;
use std::rc::Rc;

use rayon::prelude::*;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable};

use super::bitonic::{self, Bitonic};
use super::merge::{self, Merge};
use super::radix::Radix;
use super::{Direction, SortKey};
use crate::operations::Operations;
use crate::prepared::{Ready, ptx};
use crate::reference::drawn;
use crate::registry::{
    Element, Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Result, Work, compare_at_once,
};
use crate::sample::Sampled;

/// Sorts.
pub(crate) struct Library;

const KEY_TYPES: &[&str] =
    &["u32", "i32", "f32", "u64", "i64", "f64", "u8", "i8", "u16", "i16", "f16", "bf16"];
const ORDERS: &[&str] = &["random", "sorted", "reversed", "equal", "few"];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "keys"),
    OptionSpec::choice("type", KEY_TYPES, "type of the keys"),
    OptionSpec::choice("values", &["none", "u32", "u64"], "what stands beside each key"),
    OptionSpec::choice(
        "by",
        &["radix", "bitonic", "merge"],
        "the way: by bitonic, equal keys lose their order",
    ),
    OptionSpec::choice("order", ORDERS, "of the input: random has NaN, infinities and -0 among floats"),
    OptionSpec::choice("direction", &["ascending", "descending"], "of the output"),
    OptionSpec::number("seed", 1, "of the input"),
];

macro_rules! with_key_type {
    ($name:expr, $alias:ident => $body:expr) => {
        with_key_type!(@ $name, $alias, $body, "u32" u32, "i32" i32, "f32" f32, "u64" u64, "i64" i64, "f64" f64,
            "u8" u8, "i8" i8, "u16" u16, "i16" i16, "f16" f16, "bf16" bf16)
    };
    (@ $name:expr, $alias:ident, $body:expr, $($word:literal $ty:ty),*) => {
        match $name {
            $($word => {
                type $alias = $ty;
                $body
            })*
            other => return Err(format!("no keys of type {other} are sorted").into()),
        }
    };
}

fn direction(options: &Options) -> Direction {
    if options.choice("direction") == "ascending" { Direction::Ascending } else { Direction::Descending }
}

/// What a key is sorted by on the host.
fn rank<K: SortKey>(key: K, direction: Direction) -> u64 {
    match direction {
        Direction::Ascending => key.ordered_on_host(),
        Direction::Descending => !key.ordered_on_host(),
    }
}

/// Random bits, and so every kind of float.
fn keys<K: SortKey>(options: &Options) -> Vec<K> {
    let order = options.choice("order");
    let from_bits = |bits: u64| -> K { bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<K>()]) };
    let mut keys = drawn(options.number("seed"), options.extent("length"), K::zeroed(), |random, keys| {
        keys.fill_with(|| match order {
            "equal" => from_bits(0x4321),
            "few" => from_bits(random.bits() % 3 * 0x1001),
            _ => from_bits(random.bits()),
        });
    });
    match order {
        "sorted" => keys.par_sort_unstable_by_key(|key| rank(*key, Direction::Ascending)),
        "reversed" => keys.par_sort_unstable_by_key(|key| rank(*key, Direction::Descending)),
        _ => {}
    }
    keys
}

/// Bits beside what they should be.
fn compared(found: u64, expected: u64) -> Element {
    u64::compared(found, expected, 0.0)
}

/// The values of sorted keys, those of equal keys from the smallest to the largest: values that count places are then as a stable sort leaves them.
fn in_place_order<K: SortKey, V: Storable>(keys: &[K], mut values: Vec<V>) -> Vec<V> {
    let mut left = &mut values[..];
    for equal in keys.chunk_by(|one, other| one.bits() == other.bits()) {
        let (of_equal, rest) = left.split_at_mut(equal.len());
        of_equal.sort_by_key(|value| value.bits());
        left = rest;
    }
    values
}

fn prepare_keys<K: SortKey>(device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
    let (keys, direction) = (keys::<K>(options), direction(options));
    let keys_there = device.buffer_from(&keys)?;
    let sorted = Rc::new(RefCell::new(device.uninitialized::<K>(keys.len())?));
    let (operations, result) = (Operations::new(device), Rc::clone(&sorted));
    let bytes = f64::from(2 * K::BYTES) * keys.len() as f64;
    let by = options.choice("by");
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            let (operations, keys, sorted) = (&operations, &keys_there, &mut *sorted.borrow_mut());
            Ok(match by {
                "bitonic" => bitonic::keys(operations, stream, keys, sorted, Bitonic::new::<K>(direction))?,
                "merge" => merge::keys(operations, stream, keys, sorted, Merge::new::<K>(direction))?,
                _ => operations.sort(stream, keys, sorted, direction)?,
            })
        },
        work: Work { operations: keys.len() as f64, bytes },
        verify: move || {
            let (found, mut expected) = (result.borrow().to_vec()?, keys.clone());
            // Keys of one rank are the same bits, so that it does not matter which stands first.
            expected.par_sort_unstable_by_key(|key| rank(*key, direction));
            Ok(compare_at_once(found.len(), |place| compared(found[place].bits(), expected[place].bits()))?)
        },
    }))
}

fn prepare_pairs<K: SortKey, V: Storable>(
    device: &Device,
    options: &Options,
    value: fn(u64) -> V,
) -> Result<Box<dyn Prepared>> {
    let (keys, direction) = (keys::<K>(options), direction(options));
    let values: Vec<V> = (0..keys.len() as u64).map(value).collect();
    let there = (device.buffer_from(&keys)?, device.buffer_from(&values)?);
    let sorted = (device.uninitialized::<K>(keys.len())?, device.uninitialized::<V>(keys.len())?);
    let sorted = Rc::new(RefCell::new(sorted));
    let (operations, result) = (Operations::new(device), Rc::clone(&sorted));
    let bytes = f64::from(2 * (K::BYTES + V::BYTES)) * keys.len() as f64;
    let by = options.choice("by");
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            let (sorted, sorted_values) = &mut *sorted.borrow_mut();
            let (input, output) = ((&there.0, &there.1), (sorted, sorted_values));
            Ok(match by {
                "bitonic" => {
                    bitonic::pairs(&operations, stream, input, output, Bitonic::new::<K>(direction))?
                }
                "merge" => merge::pairs(&operations, stream, input, output, Merge::new::<K>(direction))?,
                _ => operations.sort_pairs(stream, input, output, direction)?,
            })
        },
        work: Work { operations: keys.len() as f64, bytes },
        verify: move || {
            let (found, found_values) = (result.borrow().0.to_vec()?, result.borrow().1.to_vec()?);
            let found_values =
                if by == "bitonic" { in_place_order(&found, found_values) } else { found_values };
            let mut expected: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
            expected.par_sort_by_key(|(key, _)| rank(*key, direction));
            Ok(compare_at_once(found.len(), |place| {
                let (key, value) = expected[place];
                let found_key = compared(found[place].bits(), key.bits());
                let is_right = found_key.found == found_key.expected;
                if is_right { compared(found_values[place].bits(), value.bits()) } else { found_key }
            })?)
        },
    }))
}

fn ptx_of_pairs<K: SortKey, V: Storable>(by: &str, direction: Direction, target: &str) -> Result<String> {
    match by {
        "bitonic" => ptx(Bitonic::new::<K>(direction).order_tiles_of_pairs::<K, V>()?, target),
        "merge" => ptx(Merge::new::<K>(direction).merge_runs_of_pairs::<K, V>()?, target),
        _ => ptx(Radix::for_pairs::<K, V>(direction).sweep.pairs::<K, V>()?, target),
    }
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn summary(&self) -> &'static str {
        "keys in order, with or without values: radix sort, a pass for each byte; bitonic and merge sort"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let direction = direction(options);
        with_key_type!(options.choice("type"), K => match options.choice("values") {
            "u32" => ptx_of_pairs::<K, u32>(options.choice("by"), direction, target),
            "u64" => ptx_of_pairs::<K, u64>(options.choice("by"), direction, target),
            _ => match options.choice("by") {
                "bitonic" => ptx(Bitonic::new::<K>(direction).order_tiles::<K>()?, target),
                "merge" => ptx(Merge::new::<K>(direction).merge_runs::<K>()?, target),
                _ => ptx(Radix::for_keys::<K>(direction).sweep.keys::<K>()?, target),
            },
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_key_type!(options.choice("type"), K => match options.choice("values") {
            "none" => prepare_keys::<K>(device, options),
            "u32" => prepare_pairs::<K, u32>(device, options, |index| index as u32),
            _ => prepare_pairs::<K, u64>(device, options, |index| index),
        })
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "by",
            steps: &["bitonic", "merge", "radix"],
            defaults: &[],
            measure: Measure::Keys,
            rival: None,
            counted: &[("length", "65536")],
        })
    }
}
