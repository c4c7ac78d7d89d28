//! Sorts that compare keys, of every type, order and length, held to the host's stable sort.

use warpwright::runtime::{Buffer, LaunchCounts, Stream};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_kernels::sort::{Direction, SortKey};
use warpwright_lessons::sort::bitonic::{self, Bitonic};
use warpwright_lessons::sort::merge::{self, Merge};

use crate::sort_cases::{self, SortCheck, bits, host_sort, operations};

/// Around a warp, a CTA's tile by bitonic (4096), and several tiles.
const LENGTHS: &[usize] = &[0, 1, 31, 33, 1023, 4096, 4097, 6912, 6913, 9984, 9985, 60_011];

struct Lessons;

impl SortCheck for Lessons {
    fn check<K: SortKey>(operations: &Operations, keys: &[K], direction: Direction) {
        let (device, stream) = (operations.device(), operations.device().stream().expect("a stream"));
        let (sources, expected) = host_sort(keys, direction);
        let what = format!("{} keys of {} {direction:?}", keys.len(), K::NAME);

        let input = device.buffer_from(keys).expect("memory");
        let mut sorted = device.uninitialized::<K>(keys.len()).expect("memory");
        type Sorter<K> = fn(
            &Operations,
            &Stream,
            &Buffer<K>,
            &mut Buffer<K>,
            Direction,
        ) -> Result<LaunchCounts, OperationError>;
        let others: [(&str, Sorter<K>); 2] = [
            ("bitonic", |operations, stream, keys, sorted, direction| {
                bitonic::keys(operations, stream, keys, sorted, Bitonic::new::<K>(direction))
            }),
            ("merge", |operations, stream, keys, sorted, direction| {
                merge::keys(operations, stream, keys, sorted, Merge::new::<K>(direction))
            }),
        ];
        for (way, sort) in others {
            sorted.fill_zero().expect("writable");
            sort(operations, &stream, &input, &mut sorted, direction)
                .unwrap_or_else(|error| panic!("{what} by {way}: {error}"));
            let found: Vec<u64> =
                sorted.to_vec().expect("a copy to the host").into_iter().map(|key| key.bits()).collect();
            assert!(found == expected, "{what} by {way}");
        }

        let values = device.buffer_from(&(0..keys.len() as u32).collect::<Vec<_>>()).expect("memory");
        let mut carried = device.uninitialized::<u32>(keys.len()).expect("memory");
        for way in ["merge", "bitonic"] {
            sorted.fill_zero().expect("writable");
            let output = (&mut sorted, &mut carried);
            let outcome = match way {
                "merge" => {
                    merge::pairs(operations, &stream, (&input, &values), output, Merge::new::<K>(direction))
                }
                _ => bitonic::pairs(
                    operations,
                    &stream,
                    (&input, &values),
                    output,
                    Bitonic::new::<K>(direction),
                ),
            };
            outcome.unwrap_or_else(|error| panic!("{what} by {way}, with values: {error}"));
            let found: Vec<u64> =
                sorted.to_vec().expect("a copy to the host").into_iter().map(|key| key.bits()).collect();
            assert!(found == expected, "{what} by {way}, with values");
            let carried = carried.to_vec().expect("a copy to the host");
            if way == "bitonic" {
                // Values of equal keys come in any order: each is there once, beside its key.
                let keys_of_values = carried.iter().map(|source| keys[*source as usize].bits());
                assert!(keys_of_values.eq(expected.iter().copied()), "values of {what} by {way}");
                let mut places = carried;
                places.sort_unstable();
                assert!(places.into_iter().eq(0..keys.len() as u32), "values of {what} by {way}");
            } else {
                assert!(carried == sources, "values of {what} by {way}");
            }
        }
    }
}

#[test]
fn every_length() {
    sort_cases::every_length::<Lessons>(LENGTHS);
}

/// Blocks of tiles with a last pass that makes fewer steps than a pass can.
#[test]
fn many_keys() {
    sort_cases::many_keys::<Lessons>();
}

#[test]
fn every_type() {
    sort_cases::every_type::<Lessons>();
}

#[test]
fn adversarial_orders() {
    sort_cases::adversarial_orders::<Lessons>();
}

#[test]
fn wide_values_are_carried() {
    let operations = operations();
    let stream = operations.device().stream().expect("a stream");
    let keys: Vec<u8> = (0..9001).map(|index| bits(index) as u8).collect();
    let values: Vec<f64> = (0..9001).map(|index| index as f64 / 2.0).collect();
    let mut pairs: Vec<(u8, f64)> = keys.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|pair| pair.0);
    let (keys, values) = (
        operations.device().buffer_from(&keys).expect("memory"),
        operations.device().buffer_from(&values).expect("memory"),
    );
    let (mut sorted, mut carried) = (
        operations.device().uninitialized(9001).expect("memory"),
        operations.device().uninitialized(9001).expect("memory"),
    );
    let ascending = Direction::Ascending;
    let output = (&mut sorted, &mut carried);
    merge::pairs(&operations, &stream, (&keys, &values), output, Merge::new::<u8>(ascending))
        .expect("it sorts");
    let found: Vec<(u8, f64)> = sorted
        .to_vec()
        .expect("a copy to the host")
        .into_iter()
        .zip(carried.to_vec().expect("a copy to the host"))
        .collect();
    assert!(found == pairs);
}

/// Keys and values of every width, in the smallest and the largest CTAs that the ways by comparing
/// take.
#[test]
fn every_size_of_a_cta() {
    let operations = operations();
    let (device, stream) = (operations.device(), operations.device().stream().expect("a stream"));
    let direction = Direction::Ascending;
    let keys: Vec<u64> = (0..5003).map(|index| bits(index) % 97).collect();
    let input = device.buffer_from(&keys).expect("memory");
    let values = device.buffer_from(&(0..5003u64).collect::<Vec<_>>()).expect("memory");
    let mut sources: Vec<u64> = (0..5003).collect();
    sources.sort_by_key(|source| keys[*source as usize]);
    let mut output =
        (device.uninitialized(5003).expect("memory"), device.uninitialized(5003).expect("memory"));
    for (threads, items) in [(64, 1), (64, 11), (128, 2), (1024, 2)] {
        let merge = Merge { direction, threads, items };
        let output = (&mut output.0, &mut output.1);
        merge::pairs(&operations, &stream, (&input, &values), (output.0, &mut *output.1), merge)
            .expect("it sorts");
        assert!(output.1.to_vec().expect("a copy to the host") == sources, "{merge:?}");
    }
    let mut expected = keys.clone();
    expected.sort_unstable();
    for threads in [32, 64, 256] {
        let sort = Bitonic { direction, threads };
        bitonic::keys(&operations, &stream, &input, &mut output.0, sort).expect("it sorts");
        assert!(output.0.to_vec().expect("a copy to the host") == expected, "{sort:?}");
    }
}
