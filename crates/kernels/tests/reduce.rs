//! Reductions on the emulator: every type, lengths around every boundary, special values, orders
//! that matter.

use warpwright::emulator::Schedule;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable};
use warpwright_kernels::monoid::{Max, Min, Monoid, Product, Sum};
use warpwright_kernels::operations::{OperationError, Operations};

const LENGTHS: &[usize] = &[0, 1, 2, 31, 32, 33, 255, 256, 257, 1023, 4096, 4097, 40_000];

fn device() -> Device {
    Device::named("emu:h200").expect("emulators are always there")
}

fn reduced<T: Storable, M: Monoid<T>>(operations: &Operations, elements: &[T], monoid: M) -> M::Output {
    let stream = operations.device().stream().expect("a stream");
    let input = operations.device().buffer_from(elements).expect("memory");
    let output = operations.reduce(&stream, &input, monoid).unwrap_or_else(|error| panic!("{error}"));
    output.to_vec().expect("a copy to the host")[0]
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
                let wrapping = |a: $ty, b: &$ty| a.wrapping_add(*b);
                assert_eq!(reduced(&operations, &elements, Sum), elements.iter().fold(0, wrapping), "{length}");
                let least = elements.iter().copied().min().unwrap_or(<$ty>::MAX);
                assert_eq!(reduced(&operations, &elements, Min), least, "{length}");
                let most = elements.iter().copied().max().unwrap_or(<$ty>::MIN);
                assert_eq!(reduced(&operations, &elements, Max), most, "{length}");
                let product = elements.iter().fold(1, |a: $ty, b| a.wrapping_mul(*b));
                assert_eq!(reduced(&operations, &elements, Product), product, "{length}");
            }
        )*};
    }
    check!(i32, u32, i64, u64);
}

#[test]
fn sums_of_floats_keep_their_bound() {
    let operations = Operations::new(&device());
    for length in LENGTHS {
        let values: Vec<f64> = scattered(*length).map(|element| element as f64 / 64.0).collect();
        // Multiples of 1/64 this small add exactly in f32 and f64.
        let exact: f64 = values.iter().sum();
        let single: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        assert_eq!(f64::from(reduced(&operations, &single, Sum)), exact, "{length}");
        assert_eq!(reduced(&operations, &values, Sum), exact, "{length}");
        let half: Vec<f16> = values.iter().map(|value| f16::from_f64(*value)).collect();
        assert_eq!(reduced(&operations, &half, Sum), f16::from_f64(exact), "{length}");
        let brain: Vec<bf16> = values.iter().map(|value| bf16::from_f64(*value)).collect();
        let exact = brain.iter().map(|value| value.to_f32()).sum::<f32>();
        assert_eq!(reduced(&operations, &brain, Sum), bf16::from_f32(exact), "{length}");
    }
}

/// Orders in which roundings add up: large before small, signs that cancel, and magnitudes that
/// rise and fall.
#[test]
fn sums_of_adversarial_orders_stay_within_their_bound() {
    let operations = Operations::new(&device());
    let orders: [fn(usize) -> f32; 5] = [
        |index| if index == 0 { 16_777_216.0 } else { 1.0 },
        |index| if index % 2 == 0 { 1e8 + index as f32 } else { -1e8 },
        |index| (index as f32).mul_add(0.1, 0.3),
        |index| 1.0 / (index as f32 + 1.0),
        |index| if index % 1000 == 999 { -499_499.5 } else { (index % 1000) as f32 + 0.1 },
    ];
    for length in [1, 33, 1023, 8192, 8193, (1 << 20) + 7] {
        for (number, order) in orders.iter().enumerate() {
            let elements: Vec<f32> = (0..length).map(order).collect();
            let exact: f64 = elements.iter().map(|element| f64::from(*element)).sum();
            let magnitude: f64 = elements.iter().map(|element| f64::from(element.abs())).sum();
            let error = (f64::from(reduced(&operations, &elements, Sum)) - exact).abs();
            let steps = operations.reduce_rounding_steps::<f32, _>(Sum, length as u64).expect("it builds");
            let bound = steps as f64 * magnitude / f64::from(1 << 24);
            assert!(error <= bound, "order {number} of {length}: {error:e} of {bound:e}");
        }
    }
}

/// A chain as long as the elements: the bound must know that it is far shorter, or it says nothing.
#[test]
fn bounds_are_far_below_the_length() {
    let operations = Operations::new(&device());
    let steps = |length| operations.reduce_rounding_steps::<f32, _>(Sum, length).expect("it builds");
    assert!(steps(0) < 100 && steps(1 << 30) < (1 << 30) / 1000, "{} {}", steps(0), steps(1 << 30));
    let in_order = operations.reduce_rounding_steps::<u32, _>(Continuant, 1 << 30).expect("it builds");
    assert!(in_order > steps(0) && in_order < (1 << 30) / 1000, "{in_order}");
}

#[test]
fn sums_of_negative_zeros_are_negative_zero() {
    let operations = Operations::new(&device());
    macro_rules! check {
        ($($ty:ty: $of:expr),*) => {$(
            let of: fn(f32) -> $ty = $of;
            for length in LENGTHS {
                let mut zeros = vec![of(-0.0); *length];
                // Of nothing, too: -0 is what changes nothing.
                assert_eq!(reduced(&operations, &zeros, Sum).to_bits(), of(-0.0).to_bits(), "{length}");
                if let Some(last) = zeros.last_mut() {
                    *last = of(0.0);
                    assert_eq!(reduced(&operations, &zeros, Sum).to_bits(), of(0.0).to_bits(), "{length}");
                }
            }
        )*};
    }
    check!(f32: |value| value, f64: f64::from, f16: f16::from_f32, bf16: bf16::from_f32);
}

#[test]
fn special_values_of_floats() {
    let operations = Operations::new(&device());
    let stream = operations.device().stream().expect("a stream");
    macro_rules! check {
        ($($ty:ty: $of:expr),*) => {$(
            let of: fn(f32) -> $ty = $of;
            let mut elements = vec![of(1.0); 5000];
            (elements[17], elements[4711]) = (of(f32::INFINITY), of(f32::NEG_INFINITY));
            assert_eq!(reduced(&operations, &elements, Max), of(f32::INFINITY));
            assert_eq!(reduced(&operations, &elements, Min), of(f32::NEG_INFINITY));
            assert!(reduced(&operations, &elements, Sum).to_f32().is_nan(), "infinity less infinity");
            elements[3001] = of(f32::NAN);
            assert!(reduced(&operations, &elements, Max).to_f32().is_nan());
            assert!(reduced(&operations, &elements, Min).to_f32().is_nan());
            let zeros = [of(0.0), of(-0.0), of(0.0)];
            assert!(reduced(&operations, &zeros, Min).to_f32().is_sign_negative());
            assert!(reduced(&operations, &[of(-0.0), of(0.0)], Max).to_f32().is_sign_positive());

            let find = |elements: &[$ty]| {
                let input = operations.device().buffer_from(elements).expect("memory");
                let most = operations.argmax(&stream, &input).expect("not empty").to_vec().expect("a copy to the host");
                let least = operations.argmin(&stream, &input).expect("not empty").to_vec().expect("a copy to the host");
                (most[0], least[0])
            };
            assert_eq!(find(&elements), (3001, 3001), "NaN is found first");
            elements[2] = of(f32::NAN);
            assert_eq!(find(&elements), (2, 2), "the first NaN");
            assert_eq!(find(&[of(0.0), of(-0.0), of(0.0)]), (0, 0), "zeros are equal");
            assert_eq!(find(&vec![of(f32::NEG_INFINITY); 9000]), (0, 0));
            assert_eq!(find(&vec![of(f32::INFINITY); 9000]), (0, 0));
            let rising: Vec<$ty> = (0..2000).map(|index| of(index as f32)).collect();
            let last = rising.iter().position(|value| *value == rising[1999]).expect("it is there") as u64;
            assert_eq!(find(&rising), (last, 0));
        )*};
    }
    trait ToF32 {
        fn to_f32(self) -> f32;
    }
    impl ToF32 for f32 {
        fn to_f32(self) -> f32 {
            self
        }
    }
    impl ToF32 for f64 {
        fn to_f32(self) -> f32 {
            self as f32
        }
    }
    check!(f32: |value| value, f64: f64::from, f16: f16::from_f32, bf16: bf16::from_f32);
}

#[test]
fn arguments_of_extremes_at_every_length() {
    let operations = Operations::new(&device());
    let stream = operations.device().stream().expect("a stream");
    for length in LENGTHS.iter().filter(|length| **length > 0) {
        let elements: Vec<i32> = scattered(*length).map(|element| element as i32).collect();
        let input = operations.device().buffer_from(&elements).expect("memory");
        let first = |extreme: Option<&i32>| {
            elements.iter().position(|element| Some(element) == extreme).map(|index| index as u64)
        };
        let most =
            operations.argmax(&stream, &input).expect("not empty").to_vec().expect("a copy to the host");
        assert_eq!(Some(most[0]), first(elements.iter().max()), "{length}");
        let least =
            operations.argmin(&stream, &input).expect("not empty").to_vec().expect("a copy to the host");
        assert_eq!(Some(least[0]), first(elements.iter().min()), "{length}");
    }
}

/// 2 x 2 matrices of wrapping integers under multiplication, each element `x` standing for (x 1; 1
/// 0): nothing commutes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Continuant;

#[derive(Clone, Copy, DeviceValue)]
struct Matrix {
    rows: [[Reg<u32>; 2]; 2],
}

impl Monoid<u32> for Continuant {
    type State = Matrix;
    type Output = u32;
    const COMMUTES: bool = false;

    fn identity(&self) -> Matrix {
        let (one, zero) = (constant(1u32), constant(0u32));
        Matrix { rows: [[one, zero], [zero, one]] }
    }

    fn lift(&self, element: Reg<u32>, _index: Reg<u64>) -> Matrix {
        let (one, zero) = (constant(1u32), constant(0u32));
        Matrix { rows: [[element, one], [one, zero]] }
    }

    fn combine(&self, earlier: Matrix, later: Matrix) -> Matrix {
        let (a, b) = (earlier.rows, later.rows);
        let product = |row: usize, column: usize| a[row][0] * b[0][column] + a[row][1] * b[1][column];
        Matrix { rows: [[product(0, 0), product(0, 1)], [product(1, 0), product(1, 1)]] }
    }

    fn lower(&self, state: Matrix) -> Reg<u32> {
        state.rows[0][1]
    }
}

#[test]
fn what_does_not_commute_is_combined_in_order() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(3)] {
        let device = Device::with_schedule("emu:a100", schedule).expect("emulators are always there");
        let operations = Operations::new(&device);
        for length in LENGTHS {
            let elements: Vec<u32> = scattered(*length).map(|element| element as u32).collect();
            let mut expected = [[1u32, 0], [0, 1]];
            for element in &elements {
                let step = |row: [u32; 2]| [row[0].wrapping_mul(*element).wrapping_add(row[1]), row[0]];
                expected = expected.map(step);
            }
            assert_eq!(reduced(&operations, &elements, Continuant), expected[0][1], "{length}");
        }
    }
}

#[test]
fn the_same_call_gives_the_same_bits_and_scratch_is_reused() {
    let operations = Operations::new(&device());
    let stream = operations.device().stream().expect("a stream");
    let elements: Vec<f32> = (0..30_000).map(|index| (index as f32).sin()).collect();
    let input = operations.device().buffer_from(&elements).expect("memory");
    let once = || {
        operations.reduce(&stream, &input, Sum).expect("it runs").to_vec().expect("a copy to the host")[0]
            .to_bits()
    };
    let first = once();
    assert!((0..5).all(|_| once() == first));
    operations.release_scratch();
    assert_eq!(once(), first);
}

#[test]
fn mistakes_are_refused() {
    let operations = Operations::new(&device());
    let stream = operations.device().stream().expect("a stream");
    let nothing = operations.device().uninitialized::<f32>(0).expect("memory");
    assert!(matches!(operations.argmax(&stream, &nothing), Err(OperationError::Empty { .. })));
    let mut two = operations.device().uninitialized::<f32>(2).expect("memory");
    let error = operations.reduce_into(&stream, &nothing, &mut two, Sum).expect_err("two results");
    assert_eq!(error.to_string(), "the result of a reduction: expected a length of 1, found 2");
}
