//! Roots and reciprocals of f32.

use super::exp2_normal;
use crate::operation::compute;
use crate::value::Reg;

#[track_caller]
pub(crate) fn sqrt(x: Reg<f32>) -> Reg<f32> {
    compute("sqrt.rn.f32", [x.operand()])
}

#[track_caller]
pub(crate) fn rsqrt(x: Reg<f32>) -> Reg<f32> {
    x.rsqrt_approx()
}

#[track_caller]
pub(crate) fn recip(x: Reg<f32>) -> Reg<f32> {
    compute("rcp.rn.f32", [x.operand()])
}

#[track_caller]
pub(crate) fn cbrt(x: Reg<f32>) -> Reg<f32> {
    // One step of Newton's method, from the inverse: 2^(-log2(|x|) / 3).
    let inverse = exp2_normal(x.abs().lg2_approx() * (-1.0 / 3.0));
    let start = x * (inverse * inverse);
    let error = inverse.mul_add(-start.abs(), 1.0);
    let result = (error * (2.0 / 3.0)).mul_add(start, start);
    // Zeros, infinities and NaN are their own roots.
    (x + x).eq(x).select(x, result)
}

#[track_caller]
pub(crate) fn hypot(x: Reg<f32>, y: Reg<f32>) -> Reg<f32> {
    let (x, y) = (x.abs(), y.abs());
    let longest = x.max(y);
    // The squares of scaled sides neither overflow nor underflow.
    let is_large = longest.gt(1.0e18);
    let is_small = longest.lt(1.0e-18);
    let down =
        is_large.select(f32::from_bits(0x1f80_0000), is_small.select(f32::from_bits(0x6b80_0000), 1.0f32));
    let up =
        is_large.select(f32::from_bits(0x5f80_0000), is_small.select(f32::from_bits(0x1380_0000), 1.0f32));
    let (a, b) = (x * down, y * down);
    let length = a.mul_add(a, b * b).sqrt_approx() * up;
    // An infinite side makes it infinite, also beside NaN.
    longest.eq(f32::INFINITY).select(f32::INFINITY, length)
}
