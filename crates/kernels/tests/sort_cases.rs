//! The keys that every sort is tested with, for the library's sort and for the lessons'.

use warpwright::lang::element::{bf16, f16};
use warpwright::runtime::Device;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sort::{Direction, SortKey};

/// Compares the sorts of a crate with the host's stable sort.
pub(crate) trait SortCheck {
    /// Sorts keys on the device, with and without values.
    fn check<K: SortKey>(operations: &Operations, keys: &[K], direction: Direction);
}

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
pub(crate) fn host_sort<K: SortKey>(keys: &[K], direction: Direction) -> (Vec<u32>, Vec<u64>) {
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

pub(crate) fn every_length<C: SortCheck>(lengths: &[usize]) {
    let operations = operations();
    for length in lengths {
        let keys: Vec<u32> = (0..*length).map(|index| bits(index) as u32).collect();
        C::check(&operations, &keys, Direction::Ascending);
        C::check(&operations, &keys, Direction::Descending);
    }
}

pub(crate) fn many_keys<C: SortCheck>() {
    let keys: Vec<u32> = (0..(1 << 18) + 7).map(|index| bits(index) as u32).collect();
    C::check(&operations(), &keys, Direction::Ascending);
}

pub(crate) fn every_type<C: SortCheck>() {
    let operations = operations();
    macro_rules! check_types {
        ($($ty:ty: $from:expr;)*) => {$(
            let from: fn(u64) -> $ty = $from;
            let keys: Vec<$ty> = (0..6007).map(|index| from(bits(index))).collect();
            C::check(&operations, &keys, Direction::Ascending);
            C::check(&operations, &keys, Direction::Descending);
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

pub(crate) fn adversarial_orders<C: SortCheck>() {
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
        C::check(&operations, &keys, Direction::Ascending);
        C::check(&operations, &keys, Direction::Descending);
    }
}
