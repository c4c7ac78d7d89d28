//! Operations made of several instructions, run on the emulator and compared with Rust: 8-bit
//! integers, 16-bit floats, and conversions that must not round twice.

use half::{bf16, f16};
use warpwright_lang::element::{DeviceFloat, Element};
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pointer::Global;
use warpwright_lang::recorder::stage;
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::value::constant;
use warpwright_lang::{Reg, device};

use crate::emulated;

const THREADS: usize = 256;

fn to_bytes<T: Element>(values: impl Iterator<Item = T>) -> Vec<u8> {
    values.flat_map(|value| value.bits().to_le_bytes()[..T::BYTES as usize].to_vec()).collect()
}

/// `operation` of each pair, as bits, from the emulator. The pairs are a multiple of 256.
pub(crate) fn run<T: Element, R: Element>(
    pairs: &[(T, T)],
    operation: impl Fn(Reg<T>, Reg<T>) -> Reg<R>,
) -> Vec<u64> {
    run_several(pairs, 1, |a, b| vec![operation(a, b)]).swap_remove(0)
}

/// The `results` values that `operation` makes of each pair; one list per value.
pub(crate) fn run_several<T: Element, R: Element>(
    pairs: &[(T, T)],
    results: usize,
    operation: impl Fn(Reg<T>, Reg<T>) -> Vec<Reg<R>>,
) -> Vec<Vec<u64>> {
    let author = || {
        let left = <&Global<T> as KernelParameter>::declare("left");
        let right = <&Global<T> as KernelParameter>::declare("right");
        let result = <&mut Global<R> as KernelParameter>::declare("result");
        let i = block_idx().x * THREADS as u32 + thread_idx().x;
        for (number, value) in operation(left.at(i).load(), right.at(i).load()).into_iter().enumerate() {
            result.at(i + (number * pairs.len()) as u32).store(value);
        }
    };
    let kernel = stage("narrow", author).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let mut buffers = [
        to_bytes(pairs.iter().map(|pair| pair.0)),
        to_bytes(pairs.iter().map(|pair| pair.1)),
        vec![0; results * pairs.len() * R::BYTES as usize],
    ];
    emulated::launch(kernel, [(pairs.len() / THREADS) as u32, 1, 1], [THREADS as u32, 1, 1], &mut buffers);
    let [.., bytes] = &buffers;
    let size = R::BYTES as usize;
    let bits = |chunk: &[u8]| chunk.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    bytes.chunks(pairs.len() * size).map(|values| values.chunks(size).map(bits).collect()).collect()
}

pub(crate) fn check<T: Element + std::fmt::Debug, R: Element>(
    pairs: &[(T, T)],
    operation: impl Fn(Reg<T>, Reg<T>) -> Reg<R>,
    expected: impl Fn(T, T) -> R,
) {
    for ((a, b), found) in pairs.iter().zip(run(pairs, operation)) {
        assert_eq!(found, expected(*a, *b).bits(), "of {a:?} and {b:?}");
    }
}

fn all_bytes() -> Vec<(u8, u8)> {
    (0..=u16::MAX).map(|both| (both as u8, (both >> 8) as u8)).collect()
}

#[test]
fn unsigned_bytes_wrap() {
    let pairs = all_bytes();
    check(&pairs, |a, b| a + b, u8::wrapping_add);
    check(&pairs, |a, b| a - b, u8::wrapping_sub);
    check(&pairs, |a, b| a * b, u8::wrapping_mul);
    check(&pairs, |a, _| !a, |a, _| !a);
    check(&pairs, |a, b| a / (b | 1), |a, b| a / (b | 1));
    check(&pairs, |a, b| a % (b | 1), |a, b| a % (b | 1));
    check(&pairs, |a, b| (a << 3) >> 2 | b, |a, b| (a << 3) >> 2 | b);
    check(&pairs, |a, b| a.lt(b), |a, b| a < b);
}

#[test]
fn signed_bytes_wrap() {
    let pairs: Vec<(i8, i8)> = all_bytes().into_iter().map(|(a, b)| (a as i8, b as i8)).collect();
    check(&pairs, |a, b| a + b, i8::wrapping_add);
    check(&pairs, |a, b| a - b, i8::wrapping_sub);
    check(&pairs, |a, b| a * b, i8::wrapping_mul);
    check(&pairs, |a, _| -a, |a, _| a.wrapping_neg());
    check(&pairs, |a, b| a / (b | 1), |a, b| a.wrapping_div(b | 1));
    check(&pairs, |a, b| (a << 2) >> 3 ^ b, |a, b| (a << 2) >> 3 ^ b);
    check(&pairs, |a, b| a.ge(b), |a, b| a >= b);
    check(&pairs, |a, _| a.convert::<f32>(), |a, _| f32::from(a));
}

/// Numbers of many magnitudes and signs, from a fixed seed.
fn samples(count: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A float between 2^-6 and 2^6 in magnitude, from 16 random bits.
fn moderate(bits: u32) -> f32 {
    let magnitude = (1.0 + (bits & 0x3ff) as f32 / 1024.0) * 2f32.powi((bits >> 10 & 0xf) as i32 % 12 - 6);
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// `value` rounded once, to the nearest even float with `digits` binary digits; for results well
/// inside the range.
fn rounded(value: f64, digits: u32) -> f32 {
    let dropped = 53 - digits;
    let bits = value.to_bits();
    let odd = bits >> dropped & 1;
    let bits = (bits + (1 << (dropped - 1)) - 1 + odd) >> dropped << dropped;
    f64::from_bits(bits) as f32
}

fn to_bf16(value: f64) -> bf16 {
    bf16::from_f32(rounded(value, 8))
}

#[test]
fn sixteen_bit_floats_round_once() {
    let bits = samples(4096);
    let pairs: Vec<(bf16, bf16)> = bits
        .iter()
        .map(|bits| (bf16::from_f32(moderate(*bits)), bf16::from_f32(moderate(bits >> 16))))
        .collect();
    check(&pairs, |a, b| a + b, |a, b| to_bf16(a.to_f64() + b.to_f64()));
    check(&pairs, |a, b| a - b, |a, b| to_bf16(a.to_f64() - b.to_f64()));
    check(&pairs, |a, b| a * b, |a, b| to_bf16(a.to_f64() * b.to_f64()));
    check(&pairs, |a, b| a / b, |a, b| to_bf16(a.to_f64() / b.to_f64()));
    check(&pairs, |a, b| a.lt(b), |a, b| a < b);
    let pairs: Vec<(f16, f16)> = bits
        .iter()
        .map(|bits| (f16::from_f32(moderate(*bits)), f16::from_f32(moderate(bits >> 16))))
        .collect();
    check(&pairs, |a, b| a / b, |a, b| f16::from_f32(rounded(a.to_f64() / b.to_f64(), 11)));
}

#[test]
fn integers_become_bf16_with_one_rounding() {
    // Just above and below the midpoint of two bf16, where rounding by way of f32 goes wrong.
    let near_midpoint = |bits: &u32| (0x0181_0000 << (bits & 3)) + (bits >> 8 & 3) as i32 - 1;
    let bits = samples(4096);
    let numbers = bits.iter().map(|bits| *bits as i32).chain(bits.iter().map(near_midpoint));
    let pairs: Vec<(i32, i32)> = numbers.map(|number| (number, 0)).collect();
    check(&pairs, |a, _| a.convert::<bf16>(), |a, _| to_bf16(f64::from(a)));
}

/// A bit for each comparison with a literal.
#[device]
fn beside_literals<T: DeviceFloat>(x: Reg<T>) -> Reg<u32> {
    let held = [x == 0.5, x != 0.5, x < 0.5, 0.5 <= x, x > -1.5, -1.5 >= x];
    held.into_iter().enumerate().fold(constant(0), |bits, (i, holds)| bits | holds.select(1u32 << i, 0))
}

#[test]
fn floats_of_every_type_compare_with_literals() {
    fn of<T: DeviceFloat + PartialOrd + std::fmt::Debug>() {
        let [half, low] = [0.5, -1.5].map(T::from_f64);
        let special = [0.5, -1.5, 0.0, -0.0, 7.0, -7.0, f64::NAN, f64::INFINITY].map(T::from_f64);
        let pairs: Vec<(T, T)> = special.into_iter().cycle().take(THREADS).map(|x| (x, x)).collect();
        check(
            &pairs,
            |x, _| beside_literals(x),
            |x, _| {
                let held = [x == half, x != half, x < half, half <= x, x > low, low >= x];
                held.into_iter().enumerate().map(|(i, holds)| u32::from(holds) << i).sum::<u32>()
            },
        );
    }
    of::<f16>();
    of::<bf16>();
    of::<f32>();
    of::<f64>();
}
