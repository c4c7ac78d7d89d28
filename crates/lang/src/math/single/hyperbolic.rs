//! Hyperbolic functions and their inverses, of f32.

use std::f32::consts::{LN_2, LOG2_E};

use super::exponential::{E, power};
use super::logarithm::{ln_1p_finite, ln_1p_moderate};
use super::{exp2_normal, odd_above, reciprocal, square_root};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(tanh(x) - x) / x^3` in powers of x^2, for |x| up to 0.55: relative error below 2^-24.7.
const TANH: [f32; 4] = [-0.333_329_47, 0.133_207_25, -0.052_671_812, 0.016_437_583];

/// `(sinh(x) - x) / x^3` in powers of x^2, for |x| up to 1: relative error below 2^-27.
const SINH: [f32; 4] = [0.166_666_67, 0.008_333_35, 0.000_198_361_6, 2.816_951e-6];

#[track_caller]
pub(crate) fn tanh(x: Reg<f32>) -> Reg<f32> {
    let magnitude = x.abs();
    // 1 - 2 / (e^2|x| + 1)
    let power = exp2_normal(magnitude * (2.0 * LOG2_E));
    let large = reciprocal(power + 1.0).mul_add(-2.0, 1.0).copysign(x);
    let s = x * x;
    // `odd_below` with its products in the order that leaves x for last: 4 % faster on an H200, where
    // the loop of `xtask math speed` is limited by more than its number of instructions.
    let small = x.mul_add(s.mul_add(polynomial(s, &TANH), 0.0), x);
    magnitude.lt(0.55).select(small, large)
}

/// `e^|x| / 2`, which is finite wherever `cosh(x)` is.
#[track_caller]
fn half_power(x: Reg<f32>) -> Reg<f32> {
    let power = power(x.abs(), E);
    power.fraction * (power.scale * 0.5)
}

#[track_caller]
pub(crate) fn sinh(x: Reg<f32>) -> Reg<f32> {
    let s = x * x;
    let small = odd_above(x, s, polynomial(s, &SINH));
    let power = half_power(x);
    let large = reciprocal(power).mul_add(-0.25, power).copysign(x);
    x.abs().lt(1.0).select(small, large)
}

#[track_caller]
pub(crate) fn cosh(x: Reg<f32>) -> Reg<f32> {
    let power = half_power(x);
    reciprocal(power).mul_add(0.25, power)
}

/// Where the square of an argument may overflow, and 1 is negligible beside it.
const LARGE: f32 = 1.0e9;

#[track_caller]
pub(crate) fn asinh(x: Reg<f32>) -> Reg<f32> {
    // asinh(t) = ln(1 + t + t^2 / (1 + sqrt(1 + t^2)))
    let t = x.abs();
    let is_large = t.gt(LARGE);
    let square = t * t;
    let rest = square * reciprocal(square_root(square + 1.0) + 1.0);
    let near = is_large.select(t, t + rest);
    let logarithm = ln_1p_finite(near);
    let logarithm = is_large.select(logarithm + LN_2, logarithm);
    // Infinity and NaN are their own results.
    t.lt(f32::INFINITY).select(logarithm.copysign(x), x)
}

#[track_caller]
pub(crate) fn acosh(x: Reg<f32>) -> Reg<f32> {
    // acosh(1 + t) = ln(1 + t + sqrt(t * (t + 2)))
    let t = x - 1.0;
    let is_large = t.gt(LARGE);
    let root = square_root(t.mul_add(t, t + t));
    let near = is_large.select(t, t + root);
    let logarithm = ln_1p_finite(near);
    let logarithm = is_large.select(logarithm + LN_2, logarithm);
    // Below 1 the difference is the root of a negative number, or the magnitude is large: NaN.
    let result = x.lt(1.0).select(f32::NAN, logarithm);
    x.lt(f32::INFINITY).select(result, x)
}

#[track_caller]
pub(crate) fn atanh(x: Reg<f32>) -> Reg<f32> {
    // atanh(t) = ln(1 + 2 t / (1 - t)) / 2
    let t = x.abs();
    let (numerator, denominator) = (t + t, 1.0 - t);
    let inverse = reciprocal(denominator);
    let start = numerator * inverse;
    // What the reciprocal and the product lost.
    let lost = start.mul_add(-denominator, numerator);
    let finite = ln_1p_moderate(lost.mul_add(inverse, start)) * 0.5;
    // The reciprocal of zero is infinite; that of a negative number makes NaN.
    let special = inverse.mul_add(f32::INFINITY, f32::INFINITY);
    t.lt(1.0).select(finite, special).copysign(x)
}
