//! Sorts of every type, order and length, held to the host's stable sort.

use warpwright::runtime::{Buffer, Storable, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sort::radix::{self, Radix};
use warpwright_kernels::sort::{Direction, SortKey};

use crate::sort_cases::{Outcome, Sorts, bits, operations, sort_tests};

struct Library;

impl Sorts for Library {
    const ALL: &'static [(&'static str, bool)] = &[("radix", true)];

    fn keys<K: SortKey>(
        _: &str,
        (operations, stream): (&Operations, &Stream),
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        direction: Direction,
    ) -> Outcome {
        operations.sort(stream, keys, sorted, direction)
    }

    fn pairs<K: SortKey, V: Storable>(
        _: &str,
        (operations, stream): (&Operations, &Stream),
        pairs: (&Buffer<K>, &Buffer<V>),
        sorted: (&mut Buffer<K>, &mut Buffer<V>),
        direction: Direction,
    ) -> Outcome {
        operations.sort_pairs(stream, pairs, sorted, direction)
    }
}

sort_tests!(Library);

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
