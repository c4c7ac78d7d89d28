//! Powers and roots of f64.

use super::exponential::{LN_2_HIGH, LN_2_LOW, exp_of_sum};
use super::logarithm::{Split, fraction, split};
use crate::conversion::{Rounding, Saturate};
use crate::operation::compute;
use crate::value::Reg;

#[track_caller]
pub(crate) fn sqrt(x: Reg<f64>) -> Reg<f64> {
    compute("sqrt.rn.f64", [x.operand()])
}

#[track_caller]
pub(crate) fn recip(x: Reg<f64>) -> Reg<f64> {
    compute("rcp.rn.f64", [x.operand()])
}

#[track_caller]
pub(crate) fn rsqrt(x: Reg<f64>) -> Reg<f64> {
    recip(sqrt(x))
}

#[track_caller]
pub(crate) fn cbrt(x: Reg<f64>) -> Reg<f64> {
    // |x| = 8^n * m; the root of m from f32 and two steps of Newton's method, times 2^n.
    let Split { exponent, .. } = split(x.abs());
    let third = (exponent * (1.0 / 3.0)).convert_with::<i32>(Rounding::NearestEven, Saturate::No);
    let m = super::scale(x, third * -3);
    let start = crate::math::single::cbrt(m.convert::<f32>()).convert::<f64>();
    let step = |root: Reg<f64>| {
        let square = root * root;
        let rest = square.mul_add(-root, m);
        (rest / (square * 3.0)) + root
    };
    let result = super::scale(step(step(start)), third);
    (x + x).eq(x).select(x, result)
}

#[track_caller]
pub(crate) fn hypot(x: Reg<f64>, y: Reg<f64>) -> Reg<f64> {
    let (x, y) = (x.abs(), y.abs());
    let longest = x.max(y);
    let is_large = longest.gt(1.0e150);
    let is_small = longest.lt(1.0e-140);
    let choose =
        |large: i32, small: i32| is_large.select(2f64.powi(large), is_small.select(2f64.powi(small), 1.0f64));
    let (a, b) = (x * choose(-600, 600), y * choose(-600, 600));
    let length = sqrt(a.mul_add(a, b * b)) * choose(600, -600);
    longest.eq(f64::INFINITY).select(f64::INFINITY, length)
}

/// `t^y` of a positive finite number.
#[track_caller]
fn magnitude(t: Reg<f64>, y: Reg<f64>) -> Reg<f64> {
    let Split { f, exponent, .. } = split(t);
    let (u, rest) = fraction(f, None);
    // The logarithm as a sum of two floats.
    let small = exponent.mul_add(LN_2_LOW, rest);
    let large = exponent * LN_2_HIGH;
    let sum = large + u;
    let lost = (large - sum) + u;
    let low = small + lost;
    let high = sum + low;
    let low = low - (high - sum);
    let product = y * high;
    let error = y.mul_add(low, y.mul_add(high, -product));
    let is_extreme = product.abs().gt(750.0);
    let clamped = product.gt(750.0).select(750.0f64, product.lt(-750.0).select(-750.0f64, product));
    let power = exp_of_sum(clamped, is_extreme.select(0.0f64, error));
    is_extreme.select(product.gt(0.0).select(f64::INFINITY, 0.0f64), power)
}

#[track_caller]
pub(crate) fn powf(x: Reg<f64>, y: Reg<f64>) -> Reg<f64> {
    crate::math::powf::powf((x, y), magnitude, |x| x.bit_cast::<i64>().lt(0))
}
