//! Selections and histograms on the emulator: lengths around every boundary, special values, every
//! schedule, mistakes.

use warpwright::emulator::Schedule;
use warpwright::prelude::*;
use warpwright::runtime::Device;
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_kernels::select::Predicate;

/// Around a warp, a tile (7168 elements of 4 bytes), and a pipeline of tiles.
const LENGTHS: &[usize] = &[0, 1, 31, 32, 33, 1023, 7167, 7168, 7169, 50_001];

fn scattered(length: usize) -> Vec<i32> {
    (0..length as i32).map(|index| (index * 7919 + 13) % 203 - 101).collect()
}

/// Elements above a bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Above(i32);

impl Predicate<i32> for Above {
    fn selects(&self, element: Reg<i32>) -> Reg<bool> {
        element.gt(self.0)
    }
}

#[test]
fn selections_keep_their_order_at_every_schedule() {
    for (name, schedule) in
        [("emu:h200", Schedule::Eager), ("emu:a100", Schedule::Latest), ("emu:h200", Schedule::Random(9))]
    {
        let device = Device::with_schedule(name, schedule).expect("emulators are always there");
        let operations = Operations::new(&device);
        let stream = device.stream().expect("a stream");
        for length in LENGTHS {
            let elements = scattered(*length);
            let input = device.buffer_from(&elements).expect("memory");
            let mut output = device.uninitialized::<i32>(*length).expect("memory");
            let mut count = device.uninitialized::<u64>(1).expect("memory");
            for bound in [-200, 0, 99, 200] {
                operations
                    .select_if(&stream, &input, &mut output, &mut count, Above(bound))
                    .unwrap_or_else(|error| panic!("{error}"));
                let wanted: Vec<i32> = elements.iter().copied().filter(|element| *element > bound).collect();
                let found = count.to_vec().expect("a copy to the host")[0] as usize;
                assert_eq!(found, wanted.len(), "{length} elements above {bound}");
                assert!(
                    output.read(0..found).expect("a copy to the host") == wanted,
                    "{length} elements above {bound}"
                );
            }

            let flags: Vec<u8> = (0..*length).map(|index| (index * 5 % 7 / 4 * 3) as u8).collect();
            let there = device.buffer_from(&flags).expect("memory");
            operations
                .select_flagged(&stream, &input, &there, &mut output, &mut count)
                .unwrap_or_else(|error| panic!("{error}"));
            let pairs = elements.iter().zip(&flags);
            let wanted: Vec<i32> =
                pairs.filter(|(_, flag)| **flag != 0).map(|(element, _)| *element).collect();
            let found = count.to_vec().expect("a copy to the host")[0] as usize;
            assert!(output.read(0..found).expect("a copy to the host") == wanted, "{length} flagged");

            let runs: Vec<i32> = (0..*length).map(|index| (index / 3 % 50 / 7) as i32).collect();
            let input = device.buffer_from(&runs).expect("memory");
            operations
                .unique(&stream, &input, &mut output, &mut count)
                .unwrap_or_else(|error| panic!("{error}"));
            let mut wanted = runs;
            wanted.dedup();
            let found = count.to_vec().expect("a copy to the host")[0] as usize;
            assert!(output.read(0..found).expect("a copy to the host") == wanted, "{length} in runs");
        }
    }
}

/// Elements whose sign is not set: NaN and zeros have signs, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Unsigned;

impl Predicate<f32> for Unsigned {
    fn selects(&self, element: Reg<f32>) -> Reg<bool> {
        (element.bit_cast::<u32>() >> 31u32).eq(0u32)
    }
}

/// More tiles than all CTAs hold at once, wanted in orders that fill tiles, leave them empty, or
/// change from row to row; with special values, which go out bit for bit.
#[test]
fn selections_in_adversarial_orders() {
    let length = (1 << 20) + 7;
    let value = |index: usize| match index % 11 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => 0.0,
        3 => f32::MIN_POSITIVE / 2.0,
        _ => 1.0 + index as f32,
    };
    let orders: [fn(usize) -> bool; 7] = [
        |_| true,
        |_| false,
        |index| index == 0,
        |index| index == (1 << 20) + 6,
        |index| index % 2 == 0,
        // Whole tiles, and whole rows of a warp.
        |index| (index / 7168) % 2 == 0,
        |index| (index / 32) % 3 == 1,
    ];
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name).expect("emulators are always there");
        let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
        let mut output = device.uninitialized::<f32>(length).expect("memory");
        let mut count = device.uninitialized::<u64>(1).expect("memory");
        for (number, is_wanted) in orders.iter().enumerate() {
            let signed = |index| if is_wanted(index) { value(index) } else { -value(index) };
            let elements: Vec<f32> = (0..length).map(signed).collect();
            let input = device.buffer_from(&elements).expect("memory");
            operations.select_if(&stream, &input, &mut output, &mut count, Unsigned).expect("it runs");
            let wanted = elements.iter().filter(|element| element.is_sign_positive());
            let wanted: Vec<u32> = wanted.map(|element| element.to_bits()).collect();
            assert_eq!(
                count.to_vec().expect("a copy to the host"),
                [wanted.len() as u64],
                "order {number} on {name}"
            );
            let found = output.read(0..wanted.len()).expect("a copy to the host");
            let found: Vec<u32> = found.into_iter().map(f32::to_bits).collect();
            assert!(found == wanted, "order {number} on {name}");
        }
    }
}

#[test]
fn each_nan_is_unique_and_zeros_are_equal() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let elements = [0.0f32, -0.0, 0.0, f32::NAN, f32::NAN, 1.0, 1.0, f32::INFINITY, f32::INFINITY];
    let input = device.buffer_from(&elements).expect("memory");
    let mut output = device.uninitialized::<f32>(elements.len()).expect("memory");
    let mut count = device.uninitialized::<u64>(1).expect("memory");
    operations.unique(&stream, &input, &mut output, &mut count).expect("it runs");
    assert_eq!(count.to_vec().expect("a copy to the host"), [5]);
    let found = output.read(0..5).expect("a copy to the host");
    assert_eq!((found[0], found[3], found[4]), (0.0, 1.0, f32::INFINITY));
    assert!(found[1].is_nan() && found[2].is_nan());
}

#[test]
fn histograms_of_even_bins() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    for length in LENGTHS {
        let mut elements: Vec<f32> = scattered(*length).into_iter().map(|value| value as f32 / 7.0).collect();
        for (index, special) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0].into_iter().enumerate() {
            if let Some(element) = elements.get_mut(index * 5) {
                *element = special;
            }
        }
        let input = device.buffer_from(&elements).expect("memory");
        // 20,000 bins do not fit shared memory.
        for bins in [1usize, 2, 13, 256, 1000, 20_000] {
            let (lower, upper) = (-10.0, 9.5);
            let mut counts = device.uninitialized::<u64>(bins).expect("memory");
            operations
                .histogram_even(&stream, &input, (lower, upper), &mut counts)
                .unwrap_or_else(|error| panic!("{error}"));
            let mut expected = vec![0u64; bins];
            for element in elements.iter().map(|element| f64::from(*element)) {
                if element >= lower && element < upper {
                    let bin = ((element - lower) * (bins as f64 / (upper - lower))) as usize;
                    expected[bin.min(bins - 1)] += 1;
                }
            }
            assert!(
                counts.to_vec().expect("a copy to the host") == expected,
                "{length} elements, {bins} bins"
            );
        }
    }
}

#[test]
fn histograms_between_edges() {
    let device = Device::named("emu:a100").expect("emulators are always there");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    for length in LENGTHS {
        let elements = scattered(*length);
        let input = device.buffer_from(&elements).expect("memory");
        for edges in [vec![-5, 5], vec![-100, -99, 0, 0, 1, 77], (-90..90).collect()] {
            let there = device.buffer_from(&edges).expect("memory");
            let mut counts = device.uninitialized::<u64>(edges.len() - 1).expect("memory");
            operations
                .histogram_ranges(&stream, &input, &there, &mut counts)
                .unwrap_or_else(|error| panic!("{error}"));
            let inside =
                |bin: &[i32]| elements.iter().filter(|x| (bin[0]..bin[1]).contains(*x)).count() as u64;
            let expected: Vec<u64> = edges.windows(2).map(inside).collect();
            assert!(counts.to_vec().expect("a copy to the host") == expected, "{length} elements");
        }
    }
}

#[test]
fn mistakes_are_refused() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let input = device.zeros::<f32>(10).expect("memory");
    let mut short = device.zeros::<f32>(9).expect("memory");
    let mut count = device.zeros::<u64>(1).expect("memory");
    let error = operations.unique(&stream, &input, &mut short, &mut count).expect_err("too short");
    assert!(matches!(error, OperationError::Length { expected: 10, given: 9, .. }), "{error}");
    let mut none = device.zeros::<u64>(0).expect("memory");
    let error = operations.histogram_even(&stream, &input, (0.0, 1.0), &mut none).expect_err("no bins");
    assert_eq!(error.to_string(), "a histogram: it has 0 bins; give 1 to 2^32 - 1");
    let error = operations.histogram_even(&stream, &input, (1.0, 1.0), &mut count).expect_err("no width");
    assert!(error.to_string().contains("between 1 and 1"), "{error}");
    let error = operations.histogram_ranges(&stream, &input, &input, &mut count).expect_err("too many edges");
    assert!(matches!(error, OperationError::Length { expected: 2, given: 10, .. }), "{error}");
}
