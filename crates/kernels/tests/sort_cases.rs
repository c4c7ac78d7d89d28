//! The keys that every sort is tested with, for the library's sort and for the lessons'.

use warpwright::lang::element::{bf16, f16};
use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_kernels::sort::{Direction, SortKey};

/// Around a warp, a CTA's tile of any sort (4096 by bitonic, 9984 of radix with keys and 6912 with pairs), and a look-back
/// over several tiles.
const LENGTHS: [usize; 12] = [0, 1, 31, 33, 1023, 4096, 4097, 6912, 6913, 9984, 9985, 60_011];

pub(crate) type Outcome = Result<LaunchCounts, OperationError>;

/// The sorts of a crate.
pub(crate) trait Sorts {
    /// Their names, and whether values of equal keys keep their order.
    const ALL: &'static [(&'static str, bool)];

    fn keys<K: SortKey>(
        sort: &str,
        on: (&Operations, &Stream),
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        direction: Direction,
    ) -> Outcome;

    fn pairs<K: SortKey, V: Storable>(
        sort: &str,
        on: (&Operations, &Stream),
        pairs: (&Buffer<K>, &Buffer<V>),
        sorted: (&mut Buffer<K>, &mut Buffer<V>),
        direction: Direction,
    ) -> Outcome;
}

/// The tests of a crate's sorts.
macro_rules! sort_tests {
    ($sorts:ty: $($test:ident)*) => {
        $(#[test]
        fn $test() {
            crate::sort_cases::$test::<$sorts>();
        })*
    };
    ($sorts:ty) => {
        crate::sort_cases::sort_tests! {
            $sorts: every_length many_keys every_type adversarial_orders wide_values_are_carried
        }
    };
}
pub(crate) use sort_tests;

pub(crate) fn operations() -> Operations {
    let device = std::env::var("WARPWRIGHT_TEST_DEVICE").unwrap_or_else(|_| "emu:h200".into());
    Operations::new(&Device::named(&device).expect("emulators are always there"))
}

/// Numbers that are the same on every machine.
pub(crate) fn bits(index: usize) -> u64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The host's stable sort: the index each key comes from, and the bits of the sorted keys.
fn host_sort<K: SortKey>(keys: &[K], direction: Direction) -> (Vec<u32>, Vec<u64>) {
    let bits: Vec<u64> = keys.iter().map(|key| key.bits()).collect();
    sort_bits(&bits, K::ordered_on_host, direction)
}

/// [`host_sort`] of the bits of keys: compiled once for all types.
fn sort_bits(bits: &[u64], ordered: fn(u64) -> u64, direction: Direction) -> (Vec<u32>, Vec<u64>) {
    let mut sources: Vec<u32> = (0..bits.len() as u32).collect();
    let order = |source: &u32| ordered(bits[*source as usize]);
    match direction {
        Direction::Ascending => sources.sort_by_key(order),
        Direction::Descending => sources.sort_by_key(|source| !order(source)),
    }
    let sorted = sources.iter().map(|source| bits[*source as usize]).collect();
    (sources, sorted)
}

/// Compares the sorts of keys, with and without values, with the host's stable sort.
fn check<S: Sorts, K: SortKey>(operations: &Operations, keys: &[K], direction: Direction) {
    let (device, stream) = (operations.device(), operations.device().stream().expect("a stream"));
    let (sources, expected) = host_sort(keys, direction);
    let of = |sorted: &Buffer<K>| -> Vec<u64> {
        sorted.to_vec().expect("a copy to the host").into_iter().map(|key| key.bits()).collect()
    };
    let input = device.buffer_from(keys).expect("memory");
    let values = device.buffer_from(&(0..keys.len() as u32).collect::<Vec<_>>()).expect("memory");
    let mut sorted = device.uninitialized::<K>(keys.len()).expect("memory");
    let mut carried = device.uninitialized::<u32>(keys.len()).expect("memory");
    for (sort, is_stable) in S::ALL {
        let what = format!("{} keys of {} {direction:?} by {sort}", keys.len(), K::NAME);
        sorted.fill_zero().expect("writable");
        S::keys(sort, (operations, &stream), &input, &mut sorted, direction)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(of(&sorted) == expected, "{what}");

        sorted.fill_zero().expect("writable");
        let output = (&mut sorted, &mut carried);
        S::pairs(sort, (operations, &stream), (&input, &values), output, direction)
            .unwrap_or_else(|error| panic!("{what}, with values: {error}"));
        assert!(of(&sorted) == expected, "{what}, with values");
        let mut carried = carried.to_vec().expect("a copy to the host");
        if *is_stable {
            assert!(carried == sources, "values of {what}");
            continue;
        }
        // Values of equal keys come in any order: each is there once, with its key.
        let keys_of_values = carried.iter().map(|source| keys[*source as usize].bits());
        assert!(keys_of_values.eq(expected.iter().copied()), "values of {what}");
        carried.sort_unstable();
        assert!(carried.into_iter().eq(0..keys.len() as u32), "values of {what}");
    }
}

pub(crate) fn wide_values_are_carried<S: Sorts>() {
    let operations = operations();
    let (device, stream) = (operations.device(), operations.device().stream().expect("a stream"));
    let keys: Vec<u8> = (0..9001).map(|index| bits(index) as u8).collect();
    let values: Vec<f64> = (0..9001).map(|index| index as f64 / 2.0).collect();
    let mut pairs: Vec<(u8, f64)> = keys.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|pair| pair.0);
    let input = (device.buffer_from(&keys).expect("memory"), device.buffer_from(&values).expect("memory"));
    let mut sorted = device.uninitialized(9001).expect("memory");
    let mut carried = device.uninitialized(9001).expect("memory");
    for (sort, _) in S::ALL.iter().filter(|(_, is_stable)| *is_stable) {
        let output = (&mut sorted, &mut carried);
        let on = (&operations, &stream);
        S::pairs(sort, on, (&input.0, &input.1), output, Direction::Ascending).expect("it sorts");
        let sorted = sorted.to_vec().expect("a copy to the host");
        let carried = carried.to_vec().expect("a copy to the host");
        assert!(sorted.into_iter().zip(carried).collect::<Vec<_>>() == pairs, "{sort}");
    }
}

pub(crate) fn every_length<S: Sorts>() {
    let operations = operations();
    for length in LENGTHS {
        let keys: Vec<u32> = (0..length).map(|index| bits(index) as u32).collect();
        check::<S, _>(&operations, &keys, Direction::Ascending);
        check::<S, _>(&operations, &keys, Direction::Descending);
    }
}

pub(crate) fn many_keys<S: Sorts>() {
    let keys: Vec<u32> = (0..(1 << 18) + 7).map(|index| bits(index) as u32).collect();
    check::<S, _>(&operations(), &keys, Direction::Ascending);
}

pub(crate) fn every_type<S: Sorts>() {
    let operations = operations();
    macro_rules! check_types {
        ($($ty:ty: $from:expr;)*) => {$(
            let from: fn(u64) -> $ty = $from;
            let keys: Vec<$ty> = (0..6007).map(|index| from(bits(index))).collect();
            check::<S, _>(&operations, &keys, Direction::Ascending);
            check::<S, _>(&operations, &keys, Direction::Descending);
        )*};
    }
    // Random bits have NaN of both signs, infinities, and subnormal numbers among the floats.
    check_types! {
        u8: |bits| bits as u8;
        i8: |bits| bits as i8;
        u16: |bits| bits as u16;
        i16: |bits| bits as i16;
        f16: |bits| f16::from_bits(bits as u16);
        bf16: |bits| bf16::from_bits(bits as u16);
        i32: |bits| bits as i32;
        f32: |bits| f32::from_bits(bits as u32);
        u64: |bits| bits;
        i64: |bits| bits as i64;
        f64: f64::from_bits;
    }
}

pub(crate) fn adversarial_orders<S: Sorts>() {
    let operations = operations();
    let length = 20_011usize;
    let orders: [fn(usize) -> f32; 6] = [
        // Equal, in order, in the opposite order.
        |_| 1.5,
        |index| index as f32 - 10_000.0,
        |index| 10_000.0 - index as f32,
        // Zeros of both signs, NaN among numbers, and the largest bits, which are what stands past
        // the end of a tile.
        |index| if bits(index).is_multiple_of(2) { 0.0 } else { -0.0 },
        |index| if bits(index).is_multiple_of(3) { f32::NAN } else { bits(index) as i32 as f32 },
        |index| f32::from_bits(u32::MAX - (bits(index) % 3) as u32),
    ];
    for order in orders {
        let keys: Vec<f32> = (0..length).map(order).collect();
        check::<S, _>(&operations, &keys, Direction::Ascending);
        check::<S, _>(&operations, &keys, Direction::Descending);
    }
}
