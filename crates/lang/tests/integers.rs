//! Rust's methods on device integers: each is compared with Rust's own, on values about the ends of
//! the type's range and a thinned list of all pairs of bytes.

use warpwright_lang::Reg;
use warpwright_lang::element::Element;

use crate::narrow::{check, run_several};

/// Pairs of interesting values: a multiple of 256.
fn pairs<T: Copy>(values: &[T]) -> Vec<(T, T)> {
    let all = values.iter().flat_map(|a| values.iter().map(|b| (*a, *b)));
    let count = (values.len() * values.len()).next_multiple_of(256);
    all.cycle().take(count).collect()
}

/// Compares the lists of results that the device and Rust make of each pair.
fn agree<T: Element + std::fmt::Debug>(
    pairs: &[(T, T)],
    on_device: fn(Reg<T>, Reg<T>) -> Vec<Reg<T>>,
    in_rust: fn(T, T) -> Vec<T>,
) {
    let results = in_rust(pairs[0].0, pairs[0].1).len();
    for (number, found) in run_several(pairs, results, on_device).into_iter().enumerate() {
        for ((a, b), found) in pairs.iter().zip(found) {
            let expected = in_rust(*a, *b)[number].bits();
            assert_eq!(found, expected, "result {number} of {a:?} and {b:?}");
        }
    }
}

/// One function for the device and one for Rust, with the same body.
macro_rules! twice {
    ($ty:ty: $($name:ident($a:ident, $b:ident) $body:block)*) => {
        mod on_device {
            use super::*;
            $(#[warpwright_lang::device]
            pub(super) fn $name($a: Reg<$ty>, $b: Reg<$ty>) -> Vec<Reg<$ty>> $body)*
        }
        mod in_rust {
            $(pub(super) fn $name($a: $ty, $b: $ty) -> Vec<$ty> $body)*
        }
    };
}

macro_rules! of_types {
    ($($ty:ident [$($value:expr),*];)*) => {
        $(mod $ty {
            use super::*;

            twice! { $ty:
                all(a, b) {
                    vec![
                        a.count_ones() as $ty, a.count_zeros() as $ty, a.leading_zeros() as $ty,
                        a.trailing_zeros() as $ty, a.leading_ones() as $ty, a.trailing_ones() as $ty,
                        a.reverse_bits(), a.swap_bytes(),
                        a.rotate_left(b as u32), a.rotate_right(b as u32), a.rotate_left(3), a.rotate_right(0),
                        a.wrapping_shl(b as u32), a.wrapping_shr(b as u32),
                        a.abs_diff(b) as $ty,
                        a.wrapping_add(b), a.wrapping_sub(b), a.wrapping_mul(b), a.wrapping_neg(),
                        a.overflowing_add(b).0, a.overflowing_add(b).1 as $ty,
                        a.overflowing_sub(b).0, a.overflowing_sub(b).1 as $ty,
                        a.saturating_add(b), a.saturating_sub(b),
                        (a & 3).pow(b as u32 & 1), (a & 1).pow(5), (a & 7).pow(2), a.pow(1), a.pow(0),
                    ]
                }
                divided(a, b) {
                    vec![a.rem_euclid(b), a.div_euclid(b)]
                }
            }

            #[test]
            fn as_in_rust() {
                let values: Vec<$ty> =
                    vec![0, 1, 2, 3, 5, 7, 31, 100, $ty::MAX, $ty::MAX - 1, $ty::MIN, $ty::MIN + 1, $($value),*];
                let pairs = pairs(&values);
                agree(&pairs, on_device::all, in_rust::all);
                let divided = pairs.into_iter().map(|(a, b)| if a.checked_rem(b).is_some() { (a, b) } else { (a, 3) });
                agree(&divided.collect::<Vec<_>>(), on_device::divided, in_rust::divided);
            }
        })*
    };
}

of_types! {
    u8 [128, 200, 64];
    i8 [-1, -2, -100];
    u16 [0x1234, 0x8000];
    i16 [-1, 0x1234, -7];
    u32 [0x1234_5678, 1 << 31];
    i32 [-1, 0x1234_5678, -7];
    u64 [0x1234_5678_9abc_def0, 1 << 63];
    i64 [-1, 0x1234_5678_9abc_def0, -7];
}

mod some {
    use super::*;

    twice! { u32:
        unsigned(a, b) {
            vec![a.isqrt(), a.ilog2(), a.is_power_of_two() as u32, a.div_ceil(b), (a >> 1).next_multiple_of((b >> 1) | 1)]
        }
    }

    #[test]
    fn types_have() {
        let values = [
            1,
            2,
            3,
            4,
            15,
            16,
            17,
            24,
            25,
            0xfffe_0000,
            0xfffe_0001,
            0xfffe_0002,
            1 << 24,
            u32::MAX,
            65536,
            99,
        ];
        agree(&pairs(&values), on_device::unsigned, in_rust::unsigned);
        let values = [-9i32, -8, -1, 0, 1, 2, 7, 8, i32::MAX, i32::MIN, 100, -100, 55, -55, 3, -3];
        check(&pairs(&values), |a, _| a.signum(), |a, _| a.signum());
        check(&pairs(&values), |a, _| a.unsigned_abs(), |a, _| a.unsigned_abs());
        let rounded_up = |a: i32, b: i32| {
            let (a, b) = (i64::from(a >> 1), i64::from(b | 1));
            (a as f64 / b as f64).ceil() as i32
        };
        check(&pairs(&values), |a, b| (a >> 1).div_ceil(b | 1), rounded_up);
    }
}
