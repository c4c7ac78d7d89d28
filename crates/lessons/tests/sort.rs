//! Sorts that compare keys, of every type, order and length, held to the host's stable sort.

use warpwright::runtime::{Buffer, Storable, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sort::{Direction, SortKey};
use warpwright_lessons::sort::bitonic::{self, Bitonic};
use warpwright_lessons::sort::merge::{self, Merge};

use crate::sort_cases::{Outcome, Sorts, bits, operations, sort_tests};

struct Lessons;

impl Sorts for Lessons {
    const ALL: &'static [(&'static str, bool)] = &[("bitonic", false), ("merge", true)];

    fn keys<K: SortKey>(
        sort: &str,
        (operations, stream): (&Operations, &Stream),
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        direction: Direction,
    ) -> Outcome {
        match sort {
            "bitonic" => bitonic::keys(operations, stream, keys, sorted, Bitonic::new::<K>(direction)),
            _ => merge::keys(operations, stream, keys, sorted, Merge::new::<K>(direction)),
        }
    }

    fn pairs<K: SortKey, V: Storable>(
        sort: &str,
        (operations, stream): (&Operations, &Stream),
        pairs: (&Buffer<K>, &Buffer<V>),
        sorted: (&mut Buffer<K>, &mut Buffer<V>),
        direction: Direction,
    ) -> Outcome {
        match sort {
            "bitonic" => bitonic::pairs(operations, stream, pairs, sorted, Bitonic::new::<K>(direction)),
            _ => merge::pairs(operations, stream, pairs, sorted, Merge::new::<K>(direction)),
        }
    }
}

sort_tests!(Lessons);

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
