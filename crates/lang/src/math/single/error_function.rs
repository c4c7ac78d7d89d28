//! The error function and its complement, of f32.

use std::f32::consts::FRAC_1_SQRT_2;

use super::exponential::{E, Power, power};
use super::{exp2_normal, reciprocal};
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

/// `erfc(t) e^(t^2) / w` in powers of `w - 1/2`, where `w = 1 / (1 + t / 2)`, for t up to 10.6:
/// relative error below 2^-24.
const TAIL: [f32; 11] = [
    0.510_791_36,
    0.687_160_7,
    0.558_943_5,
    0.145_767_57,
    -0.172_043_67,
    -0.103_629_05,
    0.097_979_95,
    0.053_446_937,
    -0.075_872_16,
    -0.012_867_774,
    0.036_491_953,
];

/// `factor erfc(t) e^(t^2)` of a number that is not negative.
#[track_caller]
fn scaled_complement(t: Reg<f32>, factor: f32) -> Reg<f32> {
    let half = t * 0.5;
    let start = reciprocal(half + 1.0);
    // What the sum and the reciprocal lost: for small t it counts most.
    let error = start.mul_add(-half, start.mul_add(-1.0, 1.0));
    let w = start.mul_add(error, start);
    polynomial(w - 0.5, &TAIL.map(|coefficient| coefficient * factor)) * w
}

/// `factor e^-(high + low)`, as a fraction and a scale.
#[track_caller]
fn times_exponential(factor: Reg<f32>, high: Reg<f32>, low: Reg<f32>) -> Power {
    let Power { fraction, scale } = power(-high, E);
    // e^-low is 1 - low.
    let fraction = (fraction * -low).mul_add(1.0, fraction);
    Power { fraction: fraction * factor, scale }
}

#[track_caller]
pub(crate) fn erfc(x: Reg<f32>) -> Reg<f32> {
    // Beyond 10.1 the complement is zero.
    let t = x.abs().min_nan(10.5);
    let square = t * t;
    let rest = t.mul_add(t, -square);
    let tail = times_exponential(scaled_complement(t, 1.0), square, rest);
    let tail = tail.fraction * tail.scale;
    x.lt(0.0).select(tail.mul_add(-1.0, 2.0), tail)
}

/// The integral of the normal distribution from `t` to infinity; `t` is from 0 to 20.
#[track_caller]
pub(super) fn normal_tail(t: Reg<f32>) -> Power {
    // erfc(t / sqrt(2)) / 2, with the square of t / sqrt(2) exact.
    let half = t * 0.5;
    let square = half * t;
    let rest = half.mul_add(t, -square);
    times_exponential(scaled_complement(t * FRAC_1_SQRT_2, 0.5), square, rest)
}
