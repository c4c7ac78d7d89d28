//! Sorts of random keys: inputs, the sort on the host, and every element compared with it.

use std::cell::RefCell;
use std::rc::Rc;

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream};

use super::{Direction, SortKey};
use crate::operations::{self, Operations};
use crate::prepared::Ready;
use crate::reference::drawn;
use crate::registry::{Element, Options, Prepared, Result, Work, compare_at_once};
use crate::sample::Sampled;

/// What a sort returns.
type Sorted = operations::Result<LaunchCounts>;

/// The types of keys that [`with_key_type`] knows.
pub const KEY_TYPES: &[&str] =
    &["u32", "i32", "f32", "u64", "i64", "f64", "u8", "i8", "u16", "i16", "f16", "bf16"];
/// Orders of the input.
pub const ORDERS: &[&str] = &["random", "sorted", "reversed", "equal", "few"];

/// Evaluates an expression with a type alias for the type of keys that an option names.
#[macro_export]
macro_rules! with_key_type {
    ($name:expr, $alias:ident => $body:expr) => {
        $crate::with_key_type!(@ $name, $alias, $body, "u32" u32, "i32" i32, "f32" f32, "u64" u64, "i64" i64, "f64" f64,
            "u8" u8, "i8" i8, "u16" u16, "i16" i16, "f16" warpwright::lang::element::f16,
            "bf16" warpwright::lang::element::bf16)
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
pub use with_key_type;

/// The direction that the options choose.
pub fn direction(options: &Options) -> Direction {
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
/// The keys that the options describe.
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

/// Keys on a device, sorted by `sort` and compared with the reference.
///
/// # Errors
/// There is not enough memory.
pub fn prepare_keys<K: SortKey>(
    device: &Device,
    options: &Options,
    sort: impl Fn(&Operations, &Stream, &Buffer<K>, &mut Buffer<K>, Direction) -> Sorted + 'static,
) -> Result<Box<dyn Prepared>> {
    let (keys, direction) = (keys::<K>(options), direction(options));
    let keys_there = device.buffer_from(&keys)?;
    let sorted = Rc::new(RefCell::new(device.uninitialized::<K>(keys.len())?));
    let (operations, result) = (Operations::new(device), Rc::clone(&sorted));
    let bytes = f64::from(2 * K::BYTES) * keys.len() as f64;
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            Ok(sort(&operations, stream, &keys_there, &mut sorted.borrow_mut(), direction)?)
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

/// Keys with values on a device, sorted by `sort` and compared with the reference. Value i is `value(i)`. Where the sort is not stable, the
/// values of equal keys may stand in any order.
///
/// # Errors
/// There is not enough memory.
pub fn prepare_pairs<K: SortKey, V: Storable>(
    device: &Device,
    options: &Options,
    value: fn(u64) -> V,
    is_stable: bool,
    sort: impl Fn(
        &Operations,
        &Stream,
        (&Buffer<K>, &Buffer<V>),
        (&mut Buffer<K>, &mut Buffer<V>),
        Direction,
    ) -> Sorted
    + 'static,
) -> Result<Box<dyn Prepared>> {
    let (keys, direction) = (keys::<K>(options), direction(options));
    let values: Vec<V> = (0..keys.len() as u64).map(value).collect();
    let there = (device.buffer_from(&keys)?, device.buffer_from(&values)?);
    let sorted = (device.uninitialized::<K>(keys.len())?, device.uninitialized::<V>(keys.len())?);
    let sorted = Rc::new(RefCell::new(sorted));
    let (operations, result) = (Operations::new(device), Rc::clone(&sorted));
    let bytes = f64::from(2 * (K::BYTES + V::BYTES)) * keys.len() as f64;
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            let (sorted, sorted_values) = &mut *sorted.borrow_mut();
            Ok(sort(&operations, stream, (&there.0, &there.1), (sorted, sorted_values), direction)?)
        },
        work: Work { operations: keys.len() as f64, bytes },
        verify: move || {
            let (found, found_values) = (result.borrow().0.to_vec()?, result.borrow().1.to_vec()?);
            let found_values = if is_stable { found_values } else { in_place_order(&found, found_values) };
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
