//! Hyperbolic functions and their inverses, of f64.

use std::f64::consts::LN_2;

use super::logarithm::ln_1p_finite;
use super::{exp, exp_m1, recip};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(tanh(x) - x) / x^3` in powers of x^2, for |x| up to 0.55: relative error of tanh below 2^-60.
const TANH: [f64; 11] = [
    -0.333_333_333_333_333,
    0.133_333_333_333_266_22,
    -0.053_968_253_963_760_83,
    0.021_869_488_385_859_28,
    -0.008_863_232_601_464_825,
    0.003_592_092_030_442_969,
    -0.001_455_542_844_788_423_9,
    0.000_588_444_479_477_380_7,
    -0.000_233_381_543_539_915_88,
    8.331_641_197_679_332e-05,
    -1.949_466_396_966_97e-05,
];

#[track_caller]
pub(crate) fn tanh(x: Reg<f64>) -> Reg<f64> {
    let magnitude = x.abs();
    // 1 - 2 / (e^2|x| + 1)
    let large = 1.0 - recip((exp(magnitude * 2.0) + 1.0) * 0.5);
    let s = x * x;
    let small = (magnitude * s).mul_add(polynomial(s, &TANH), magnitude);
    magnitude.lt(0.55).select(small, large).copysign(x)
}

/// Past it, `e^x` overflows before `sinh(x)` does.
const LARGE: f64 = 709.0;

/// `e^|x| / 2`, also where `e^|x|` overflows.
#[track_caller]
fn half_power(x: Reg<f64>) -> Reg<f64> {
    let magnitude = x.abs();
    let is_large = magnitude.gt(LARGE);
    let power = exp(is_large.select(magnitude * 0.5, magnitude));
    is_large.select(power * 0.5 * power, power * 0.5)
}

#[track_caller]
pub(crate) fn sinh(x: Reg<f64>) -> Reg<f64> {
    // (t + t / (t + 1)) / 2, where t = e^|x| - 1
    let t = exp_m1(x.abs());
    let near = (t + t / (t + 1.0)) * 0.5;
    x.abs().lt(20.0).select(near, half_power(x)).copysign(x)
}

#[track_caller]
pub(crate) fn cosh(x: Reg<f64>) -> Reg<f64> {
    let power = half_power(x);
    power + recip(power) * 0.25
}

/// Where the square of an argument may overflow, and 1 is negligible beside it.
const HUGE: f64 = 1.0e17;

#[track_caller]
pub(crate) fn asinh(x: Reg<f64>) -> Reg<f64> {
    let t = x.abs();
    let is_huge = t.gt(HUGE);
    let square = t * t;
    let near = is_huge.select(t, t + square / ((square + 1.0).sqrt() + 1.0));
    let logarithm = ln_1p_finite(near);
    let logarithm = is_huge.select(logarithm + LN_2, logarithm);
    let result = t.lt(1.0e-17).select(t, logarithm);
    t.lt(f64::INFINITY).select(result.copysign(x), x)
}

#[track_caller]
pub(crate) fn acosh(x: Reg<f64>) -> Reg<f64> {
    let t = x - 1.0;
    let is_huge = t.gt(HUGE);
    let near = is_huge.select(t, t + t.mul_add(t, t + t).sqrt());
    let logarithm = ln_1p_finite(near);
    let logarithm = is_huge.select(logarithm + LN_2, logarithm);
    let result = x.lt(1.0).select(f64::NAN, logarithm);
    x.lt(f64::INFINITY).select(result, x)
}

#[track_caller]
pub(crate) fn atanh(x: Reg<f64>) -> Reg<f64> {
    let t = x.abs();
    let logarithm = ln_1p_finite((t + t) / (1.0 - t)) * 0.5;
    let result = t.lt(1.0e-17).select(t, logarithm);
    let result = t.eq(1.0).select(f64::INFINITY, result).copysign(x);
    t.gt(1.0).select(f64::NAN, result)
}
