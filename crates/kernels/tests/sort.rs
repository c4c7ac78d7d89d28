//! Sorts of every type, order and length, held to the host's stable sort.

use warpwright_kernels::operations::Operations;
use warpwright_kernels::sort::radix::{self, Radix};
use warpwright_kernels::sort::{Direction, SortKey};

use crate::sort_cases::{self, SortCheck, bits, host_sort, operations};

/// Around a warp, a CTA's tile of keys (9984) and of pairs (6912), and a look-back over several
/// tiles.
const LENGTHS: &[usize] = &[0, 1, 31, 33, 1023, 4096, 4097, 6912, 6913, 9984, 9985, 60_011];

struct Library;

impl SortCheck for Library {
    fn check<K: SortKey>(operations: &Operations, keys: &[K], direction: Direction) {
        let (device, stream) = (operations.device(), operations.device().stream().expect("a stream"));
        let (sources, expected) = host_sort(keys, direction);
        let what = format!("{} keys of {} {direction:?}", keys.len(), K::NAME);

        let input = device.buffer_from(keys).expect("memory");
        let mut sorted = device.uninitialized::<K>(keys.len()).expect("memory");
        operations
            .sort(&stream, &input, &mut sorted, direction)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let found: Vec<u64> =
            sorted.to_vec().expect("a copy to the host").into_iter().map(|key| key.bits()).collect();
        assert!(found == expected, "{what}");

        let values = device.buffer_from(&(0..keys.len() as u32).collect::<Vec<_>>()).expect("memory");
        let mut carried = device.uninitialized::<u32>(keys.len()).expect("memory");
        sorted.fill_zero().expect("writable");
        operations
            .sort_pairs(&stream, (&input, &values), (&mut sorted, &mut carried), direction)
            .unwrap_or_else(|error| panic!("{what}, with values: {error}"));
        let found: Vec<u64> =
            sorted.to_vec().expect("a copy to the host").into_iter().map(|key| key.bits()).collect();
        assert!(found == expected, "{what}, with values");
        assert!(carried.to_vec().expect("a copy to the host") == sources, "values of {what}");
    }
}

#[test]
fn every_length() {
    sort_cases::every_length::<Library>(LENGTHS);
}

#[test]
fn many_keys() {
    sort_cases::many_keys::<Library>();
}

#[test]
fn every_type() {
    sort_cases::every_type::<Library>();
}

#[test]
fn adversarial_orders() {
    sort_cases::adversarial_orders::<Library>();
}

#[test]
fn floats_are_in_total_order() {
    let operations = operations();
    let stream = operations.device().stream().expect("a stream");
    let keys = [1.0, f32::NAN, -0.0, f32::INFINITY, 0.0, -f32::NAN, f32::NEG_INFINITY, -1.0];
    let input = operations.device().buffer_from(&keys).expect("memory");
    let mut sorted = operations.device().uninitialized(keys.len()).expect("memory");
    operations.sort(&stream, &input, &mut sorted, Direction::Ascending).expect("it sorts");
    let mut expected = keys;
    expected.sort_by(f32::total_cmp);
    let found = sorted.to_vec().expect("a copy to the host");
    assert!(
        found.iter().zip(&expected).all(|(found, expected)| found.to_bits() == expected.to_bits()),
        "{found:?}"
    );
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
    operations.sort_pairs(&stream, (&keys, &values), output, ascending).expect("it sorts");
    let found: Vec<(u8, f64)> = sorted
        .to_vec()
        .expect("a copy to the host")
        .into_iter()
        .zip(carried.to_vec().expect("a copy to the host"))
        .collect();
    assert!(found == pairs);
}

/// What no buffer of a test is long enough for: a pass of several launches, each of which passes
/// the next where it goes on.
#[test]
fn passes_of_several_launches() {
    let operations = operations();
    let (device, stream) = (operations.device(), operations.device().stream().expect("a stream"));
    let keys: Vec<i64> = (0..50_003).map(|index| bits(index) as i64 >> (index % 3 * 20)).collect();
    let mut expected = keys.clone();
    expected.sort_unstable();
    let input = device.buffer_from(&keys).expect("memory");
    let mut sorted = device.uninitialized::<i64>(keys.len()).expect("memory");
    let configuration = Radix { most_of_a_launch: 12_000, ..Radix::for_keys::<i64>(Direction::Ascending) };
    radix::keys(&operations, &stream, &input, &mut sorted, configuration).expect("it sorts");
    assert!(sorted.to_vec().expect("a copy to the host") == expected);
}
