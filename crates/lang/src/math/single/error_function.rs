//! The error function and its complement, of f32.

use std::f32::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};

use super::{bits, exp2_normal, from_bits, reciprocal};
use crate::math::polynomial::{either_polynomial, polynomial};
use crate::value::Reg;

/// `erf(x) / x - 1` in powers of x^2, for |x| up to 1: relative error below 2^-28.
const NEAR: [f32; 7] = [
    0.128_379_17,
    -0.376_126_26,
    0.112_835_854,
    -0.026_853_813,
    0.005_188_327_7,
    -0.000_801_019_4,
    0.000_078_538_644,
];

/// `-log2(erfc(x)) / x - 1` for x from 1 to 4, and large beyond: absolute error of erf below 2^-28.
const FAR: [f32; 7] = [
    0.628_414_9,
    0.915_848_1,
    0.154_061_02,
    -0.034_964_34,
    0.005_578_349_3,
    -0.000_545_537_86,
    0.000_024_222_9,
];

#[track_caller]
pub(crate) fn erf(x: Reg<f32>) -> Reg<f32> {
    let t = x.abs();
    let is_near = t.lt(1.0);
    let argument = is_near.select(x * x, t);
    let result = either_polynomial(is_near, argument, &NEAR, &FAR).mul_add(x, x);
    let far = exp2_normal(-result.abs()).mul_add(-1.0, 1.0).copysign(x);
    is_near.select(result, far)
}

/// `erfc(t) e^(t^2) / w` in powers of `w - 1/2`, where `w = 1 / (1 + t / 2)`, for t up to 10.3:
/// relative error below 2^-25.7.
const TAIL: [f32; 11] = [
    0.510_791_36,
    0.687_160_7,
    0.558_941_7,
    0.145_763_49,
    -0.171_971,
    -0.103_540_204,
    0.096_958_96,
    0.052_945_763,
    -0.070_389_956,
    -0.012_814_853,
    0.028_238_421,
];

/// `(2^r - 1) / r` for |r| up to 1/2: relative error of `2^r` below 2^-28.
const EXP2: [f32; 6] = [LN_2, 0.240_226_48, 0.055_503_592, 0.009_618_505, 0.001_339_124_2, 0.000_153_274_97];

/// A number `fraction * scale * TAIL_UNIT`. With that order of the products, only the last may be
/// subnormal.
pub(super) struct Tail {
    pub(super) fraction: Reg<f32>,
    pub(super) scale: Reg<f32>,
}

pub(super) const TAIL_UNIT: f32 = 1.0 / 281_474_976_710_656.0;

/// `erfc(t)`, where `t^2 = square + rest`, the rest is small and t is from 0 to 10.6.
#[track_caller]
fn complement(t: Reg<f32>, square: Reg<f32>, rest: Reg<f32>) -> Tail {
    let half = t * 0.5;
    let start = reciprocal(half + 1.0);
    // What the sum and the reciprocal lost, as a part of the result: w = start * (1 + lost).
    let lost = start.mul_add(-half, start.mul_add(-1.0, 1.0));
    let factor = polynomial(start.mul_add(lost, start - 0.5), &TAIL) * start;
    // 2^48 e^-square is 2^exponent * 2^r. Adding TO_INTEGER rounds to an integer, and leaves the
    // exponent with its bias in the low bits.
    const TO_INTEGER: f32 = 12_582_912.0 + 127.0 + 48.0;
    const LOG2_E_LOW: f32 = (std::f64::consts::LOG2_E - LOG2_E as f64) as f32;
    let integer = square.mul_add(-LOG2_E, TO_INTEGER);
    let r = square.mul_add(-LOG2_E, TO_INTEGER - integer);
    let r = (lost - rest).mul_add(LOG2_E, square.mul_add(-LOG2_E_LOW, r));
    let fraction = factor.mul_add(r * polynomial(r, &EXP2), factor);
    Tail { fraction, scale: from_bits(bits(integer) << 23) }
}

#[track_caller]
pub(crate) fn erfc(x: Reg<f32>) -> Reg<f32> {
    // Beyond 10.1 the complement is zero.
    let t = x.abs().min_nan(10.5);
    let square = t * t;
    let tail = complement(t, square, t.mul_add(t, -square));
    let tail = tail.fraction * tail.scale * TAIL_UNIT;
    x.lt(0.0).select(tail.mul_add(-1.0, 2.0), tail)
}

/// Twice the integral of the normal distribution from `t` to infinity; `t` is from 0 to 15.
#[track_caller]
pub(super) fn normal_tail(t: Reg<f32>) -> Tail {
    // erfc(t / sqrt(2)), with the square of t / sqrt(2) exact.
    let half = t * 0.5;
    let square = half * t;
    complement(t * FRAC_1_SQRT_2, square, half.mul_add(t, -square))
}
