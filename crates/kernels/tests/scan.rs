//! Scans on the emulator: every type and kind, lengths around every boundary, special values,
//! orders that matter, every schedule.

use warpwright::emulator::Schedule;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable};
use warpwright_kernels::monoid::{Max, Min, Monoid, Product, Sum};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

const LENGTHS: &[usize] = &[0, 1, 2, 31, 32, 33, 127, 128, 1023, 8192, 8193, 100_003];

fn device() -> Device {
    Device::named("emu:h200").expect("emulators are always there")
}

/// The inclusive and the exclusive scan.
fn scanned<T: Storable, M: Monoid<T>>(
    operations: &Operations,
    elements: &[T],
    monoid: M,
) -> (Vec<M::Output>, Vec<M::Output>) {
    let stream = operations.device().stream().expect("a stream");
    let input = operations.device().buffer_from(elements).expect("memory");
    let mut output = operations.device().uninitialized(elements.len()).expect("memory");
    let outcome = operations.inclusive_scan(&stream, &input, &mut output, monoid);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let inclusive = output.to_vec().expect("a copy to the host");
    operations.exclusive_scan(&stream, &input, &mut output, monoid).unwrap_or_else(|error| panic!("{error}"));
    (inclusive, output.to_vec().expect("a copy to the host"))
}

/// Both scans on the host.
fn expected<T: Copy, R: Copy>(elements: &[T], identity: R, combine: impl Fn(R, T) -> R) -> (Vec<R>, Vec<R>) {
    let mut state = identity;
    let inclusive: Vec<R> = elements
        .iter()
        .map(|element| {
            state = combine(state, *element);
            state
        })
        .collect();
    let exclusive = std::iter::once(identity).chain(inclusive.iter().copied()).take(elements.len()).collect();
    (inclusive, exclusive)
}

/// Integers that are not ordered and not random.
fn scattered(length: usize) -> impl Iterator<Item = i64> {
    (0..length as i64).map(|index| (index * 7919 + 13) % 2003 - 1001)
}

#[test]
fn integers_of_every_width() {
    let operations = Operations::new(&device());
    macro_rules! check {
        ($($ty:ty),*) => {$(
            for length in LENGTHS {
                let elements: Vec<$ty> = scattered(*length).map(|element| element as $ty).collect();
                let found = scanned(&operations, &elements, Sum);
                assert!(found == expected(&elements, 0, <$ty>::wrapping_add), "sum of {length}");
                let found = scanned(&operations, &elements, Max);
                assert!(found == expected(&elements, <$ty>::MIN, <$ty>::max), "max of {length}");
                let found = scanned(&operations, &elements, Min);
                assert!(found == expected(&elements, <$ty>::MAX, <$ty>::min), "min of {length}");
                let odd: Vec<$ty> = elements.iter().map(|element| element | 1).collect();
                let found = scanned(&operations, &odd, Product);
                assert!(found == expected(&odd, 1, <$ty>::wrapping_mul), "product of {length}");
            }
        )*};
    }
    check!(i32, u32, i64, u64);
}

#[test]
fn floats_that_add_exactly() {
    let operations = Operations::new(&device());
    for length in LENGTHS {
        // Sums of these stay below 2^17 in steps of 1/64: exact in f32.
        let values: Vec<f64> = scattered(*length).map(|element| element as f64 / 64.0).collect();
        assert!(scanned(&operations, &values, Sum) == expected(&values, 0.0, |a, b| a + b), "f64, {length}");
        let single: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        assert!(scanned(&operations, &single, Sum) == expected(&single, 0.0, |a, b| a + b), "f32, {length}");
        let half: Vec<f16> = values.iter().map(|value| f16::from_f64(*value)).collect();
        let (inclusive, exclusive) = expected(&half, 0.0, |a: f32, b| a + b.to_f32());
        let round = |values: Vec<f32>| values.into_iter().map(f16::from_f32).collect::<Vec<_>>();
        assert!(scanned(&operations, &half, Sum) == (round(inclusive), round(exclusive)), "f16, {length}");
        let brain: Vec<bf16> = values.iter().map(|value| bf16::from_f64(*value)).collect();
        let (inclusive, exclusive) = expected(&brain, 0.0, |a: f32, b| a + b.to_f32());
        let round = |values: Vec<f32>| values.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
        assert!(scanned(&operations, &brain, Sum) == (round(inclusive), round(exclusive)), "bf16, {length}");
    }
}

#[test]
fn special_values_stay_from_where_they_are() {
    let operations = Operations::new(&device());
    let mut elements = vec![1.0f32; 20_000];
    (elements[100], elements[9000], elements[15_000]) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
    let (sums, before) = scanned(&operations, &elements, Sum);
    assert_eq!((sums[99], sums[100], sums[8999]), (100.0, f32::INFINITY, f32::INFINITY));
    assert!(sums[9000..].iter().all(|sum| sum.is_nan()), "infinity less infinity");
    assert_eq!((before[100], before[101]), (100.0, f32::INFINITY));
    let (largest, _) = scanned(&operations, &elements, Max);
    assert_eq!((largest[99], largest[100], largest[14_999]), (1.0, f32::INFINITY, f32::INFINITY));
    assert!(largest[15_000..].iter().all(|largest| largest.is_nan()));
    let (_, smallest_before) = scanned(&operations, &elements, Min);
    assert_eq!((smallest_before[0], smallest_before[9000]), (f32::INFINITY, 1.0));
    assert_eq!(smallest_before[9001], f32::NEG_INFINITY);
    assert!(smallest_before[15_001..].iter().all(|smallest| smallest.is_nan()));
}

/// The composition of x -> element * x + 1, read out at x = 0: nothing commutes, and the state is
/// two registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Compose;

#[derive(Clone, Copy, DeviceValue)]
struct Affine {
    scale: Reg<u32>,
    shift: Reg<u32>,
}

impl Monoid<u32> for Compose {
    type State = Affine;
    type Output = u32;
    const COMMUTES: bool = false;

    fn identity(&self) -> Affine {
        Affine { scale: constant(1), shift: constant(0) }
    }

    fn lift(&self, element: Reg<u32>, _index: Reg<u64>) -> Affine {
        Affine { scale: element, shift: constant(1) }
    }

    fn combine(&self, earlier: Affine, later: Affine) -> Affine {
        Affine { scale: earlier.scale * later.scale, shift: earlier.shift * later.scale + later.shift }
    }

    fn lower(&self, state: Affine) -> Reg<u32> {
        state.shift
    }
}

#[test]
fn what_does_not_commute_at_every_schedule() {
    for name in ["emu:a100", "emu:h200"] {
        for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(5)] {
            let device = Device::with_schedule(name, schedule).expect("emulators are always there");
            let operations = Operations::new(&device);
            for length in LENGTHS {
                let elements: Vec<u32> = scattered(*length).map(|element| element as u32).collect();
                let compose = |x: u32, element: u32| x.wrapping_mul(element).wrapping_add(1);
                let found = scanned(&operations, &elements, Compose);
                assert!(found == expected(&elements, 0, compose), "{length}");
            }
        }
    }
}

#[test]
fn one_streams_look_back_serves_every_length_and_type_in_turn() {
    let operations = Operations::new(&device());
    let stream = operations.device().stream().expect("a stream");
    for round in 0..3usize {
        for length in [70_000usize, 5, 30_000, 8192] {
            let elements: Vec<u32> = (0..length).map(|index| (index * 31 + round) as u32).collect();
            let input = operations.device().buffer_from(&elements).expect("memory");
            let mut output = operations.device().uninitialized::<u32>(length).expect("memory");
            operations.inclusive_scan(&stream, &input, &mut output, Sum).expect("it runs");
            assert!(
                output.to_vec().expect("a copy to the host") == expected(&elements, 0, u32::wrapping_add).0
            );
            let wide: Vec<u64> = elements.iter().map(|element| u64::from(*element) << 20).collect();
            let input = operations.device().buffer_from(&wide).expect("memory");
            let mut output = operations.device().uninitialized::<u64>(length).expect("memory");
            operations.inclusive_scan(&stream, &input, &mut output, Sum).expect("it runs");
            assert!(output.to_vec().expect("a copy to the host") == expected(&wide, 0, u64::wrapping_add).0);
        }
    }
}

/// Lengths at which a tile, a wave of CTAs or the pipeline begins or ends.
#[test]
fn more_tiles_than_the_pipeline_and_all_ctas_hold() {
    let lengths = [1023, 7167, 7168, 7169, 7168 * 5 + 1, (1 << 20) + 7, 7168 * 600 + 3];
    let cases = ["emu:h200", "emu:a100"].into_iter().flat_map(|name| lengths.map(|length| (name, length)));
    for (name, length) in one_in(2, cases) {
        let operations = Operations::new(&Device::named(name).expect("emulators are always there"));
        let elements: Vec<u32> = scattered(length).map(|element| element as u32).collect();
        let found = scanned(&operations, &elements, Sum);
        assert!(found == expected(&elements, 0, u32::wrapping_add), "{length} on {name}");
    }
}

#[test]
fn negative_zero_stays_until_something_else_is_added() {
    let operations = Operations::new(&device());
    let mut elements = vec![-0.0f32; (1 << 20) + 7];
    elements[700_000] = 0.0;
    let (largest, _) = scanned(&operations, &elements, Max);
    assert!(largest[..700_000].iter().all(|value| value.is_sign_negative()));
    assert!(largest[700_000..].iter().all(|value| value.is_sign_positive() && *value == 0.0));
}

#[test]
fn sums_of_negative_zeros_are_negative_zero() {
    let operations = Operations::new(&device());
    macro_rules! check {
        ($($ty:ty: $of:expr),*) => {$(
            let of: fn(f32) -> $ty = $of;
            let mut zeros = vec![of(-0.0); 100_003];
            zeros[70_000] = of(0.0);
            let (inclusive, exclusive) = scanned(&operations, &zeros, Sum);
            let sign_from = |sums: &[$ty], first: usize| {
                let is_negative = |sum: &$ty| sum.to_bits() == of(-0.0).to_bits();
                sums[..first].iter().all(is_negative)
                    && sums[first..].iter().all(|sum| sum.to_bits() == of(0.0).to_bits())
            };
            assert!(sign_from(&inclusive, 70_000) && sign_from(&exclusive, 70_001), "{}", <$ty>::NAME);
        )*};
    }
    check!(f32: |value| value, f64: f64::from, f16: f16::from_f32, bf16: bf16::from_f32);
}

/// Orders in which roundings add up, at every schedule: which result within the bound comes out
/// depends on how far CTAs have come.
#[test]
fn sums_of_adversarial_orders_stay_within_their_bound() {
    let orders: [fn(usize) -> f32; 5] = [
        |index| if index == 0 { 16_777_216.0 } else { 1.0 },
        |index| if index % 2 == 0 { 1e8 + index as f32 } else { -1e8 },
        |index| (index as f32).mul_add(0.1, 0.3),
        |index| 1.0 / (index as f32 + 1.0),
        |index| if index % 1000 == 999 { -499_499.5 } else { (index % 1000) as f32 + 0.1 },
    ];
    for (name, schedule) in
        [("emu:h200", Schedule::Eager), ("emu:a100", Schedule::Latest), ("emu:h200", Schedule::Random(11))]
    {
        let device = Device::with_schedule(name, schedule).expect("emulators are always there");
        let operations = Operations::new(&device);
        for length in [1, 33, 1023, 7168, 7169, 300_007] {
            let steps = operations.scan_rounding_steps::<f32, _>(Sum, length as u64) as f64;
            assert!(length < 100_000 || steps < length as f64 / 100.0, "{steps} say something of {length}");
            for (number, order) in orders.iter().enumerate() {
                let elements: Vec<f32> = (0..length).map(order).collect();
                let (inclusive, exclusive) = scanned(&operations, &elements, Sum);
                let (mut sum, mut magnitude) = (0.0f64, 0.0f64);
                for (index, element) in elements.iter().enumerate() {
                    let within =
                        |found: f32| (f64::from(found) - sum).abs() <= steps * magnitude / f64::from(1 << 24);
                    assert!(within(exclusive[index]), "before {index} of {length}, order {number}");
                    sum += f64::from(*element);
                    magnitude += f64::from(element.abs());
                    let within =
                        |found: f32| (f64::from(found) - sum).abs() <= steps * magnitude / f64::from(1 << 24);
                    assert!(within(inclusive[index]), "up to {index} of {length}, order {number}");
                }
            }
        }
    }
}

#[test]
fn lengths_that_differ_are_refused() {
    let operations = Operations::new(&device());
    let stream = operations.device().stream().expect("a stream");
    let input = operations.device().zeros::<f32>(3).expect("memory");
    let mut output = operations.device().zeros::<f32>(4).expect("memory");
    let error = operations.inclusive_scan(&stream, &input, &mut output, Sum).expect_err("it differs");
    assert!(matches!(error, OperationError::Length { expected: 3, given: 4, .. }), "{error}");
}
