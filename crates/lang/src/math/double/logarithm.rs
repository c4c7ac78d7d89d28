//! Logarithms of f64.

use std::f64::consts::{LOG2_E, LOG10_2, LOG10_E};

use super::exponential::{LN_2_HIGH, LN_2_LOW};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(ln((2 + u) / (2 - u)) - u) / u^3` in powers of u^2, for u^2 up to 0.118.
const LOGARITHM: [f64; 8] = [
    0.083_333_333_333_333_33,
    0.012_500_000_000_001_95,
    0.002_232_142_856_959_95,
    0.000_434_027_786_065_832_35,
    8.877_820_158_130_89e-05,
    1.878_306_878_179_947e-05,
    4.043_620_796_064_434e-06,
    1.010_983_225_595_515_2e-06,
];

/// The bits of sqrt(1/2), of which only the upper half counts.
const SQRT_HALF: u64 = 0x3fe6_a09e_0000_0000;

/// `ln(1 + f) = high + low`, for 1 + f from sqrt(1/2) to sqrt(2), where `f` lacks `f_low`.
#[track_caller]
pub(super) fn fraction(f: Reg<f64>, f_low: Option<Reg<f64>>) -> (Reg<f64>, Reg<f64>) {
    // u = 2 f / (2 + f), and what its rounding lost.
    let inverse = super::recip(f + 2.0);
    let u = (f + f) * inverse;
    let lost = u.mul_add(-f, (f - u) * 2.0);
    let u_low = lost * inverse;
    let u_low = f_low.map_or(u_low, |low| u_low + low);
    let square = u * u;
    (u, (square * polynomial(square, &LOGARITHM)).mul_add(u, u_low))
}

/// A number `2^exponent * (1 + f)`, with `1 + f` between sqrt(1/2) and sqrt(2).
pub(super) struct Split {
    pub(super) f: Reg<f64>,
    pub(super) exponent: Reg<f64>,
}

#[track_caller]
pub(super) fn split_normal(x: Reg<f64>) -> Split {
    let bits = x.bit_cast::<u64>();
    let exponent = (bits - SQRT_HALF) & 0xfff0_0000_0000_0000;
    let f = (bits - exponent).bit_cast::<f64>() - 1.0;
    let integer = (exponent.bit_cast::<i64>() >> 52).convert::<i32>();
    Split { f, exponent: integer.convert() }
}

#[track_caller]
pub(super) fn split(x: Reg<f64>) -> Split {
    let is_small = x.lt(f64::MIN_POSITIVE);
    let split = split_normal(is_small.select(x * 18_014_398_509_481_984.0, x));
    let exponent = split.exponent + is_small.select(-54.0f64, 0.0f64);
    Split { exponent, ..split }
}

/// The logarithm's value at infinity, NaN, zero and negative numbers, and `finite` elsewhere.
#[track_caller]
fn with_special(x: Reg<f64>, finite: Reg<f64>) -> Reg<f64> {
    let special = x.mul_add(f64::INFINITY, f64::INFINITY);
    let is_ordinary = x.gt(0.0) & x.lt(f64::INFINITY);
    let result = is_ordinary.select(finite, special);
    x.eq(0.0).select(f64::NEG_INFINITY, result)
}

#[track_caller]
pub(crate) fn ln(x: Reg<f64>) -> Reg<f64> {
    let Split { f, exponent } = split(x);
    let (high, low) = fraction(f, None);
    let low = exponent.mul_add(LN_2_LOW, low);
    with_special(x, exponent.mul_add(LN_2_HIGH, high + low))
}

/// `exponent * of_2 + (high + low) * of_e`, where the constants are logarithms to one base.
#[track_caller]
fn to_base(x: Reg<f64>, of_e: [f64; 2], of_2: [f64; 2]) -> Reg<f64> {
    let Split { f, exponent } = split(x);
    let (high, low) = fraction(f, None);
    let product = high * of_e[0];
    let error = high.mul_add(of_e[0], -product);
    let small = low.mul_add(of_e[0], high.mul_add(of_e[1], error));
    let small = exponent.mul_add(of_2[1], small);
    with_special(x, exponent.mul_add(of_2[0], product + small))
}

#[track_caller]
pub(crate) fn log2(x: Reg<f64>) -> Reg<f64> {
    to_base(x, [LOG2_E, 2.035_527_374_093_103_3e-17], [1.0, 0.0])
}

#[track_caller]
pub(crate) fn log10(x: Reg<f64>) -> Reg<f64> {
    const HIGH: f64 = f64::from_bits(LOG10_2.to_bits() & !0x1f_ffff);
    to_base(x, [LOG10_E, 1.098_319_650_216_765e-17], [HIGH, 1.145_110_089_802_183_8e-10])
}

/// `ln(1 + x)` of a number above -1, infinity apart.
#[track_caller]
pub(super) fn ln_1p_finite(x: Reg<f64>) -> Reg<f64> {
    let sum = x + 1.0;
    // What the sum lost.
    let is_large = x.gt(1.0);
    let lost = is_large.select(1.0 - (sum - x), x - (sum - 1.0));
    let Split { f, exponent } = split_normal(sum);
    // Without an exponent, f is x itself.
    let is_near = exponent.eq(0.0);
    let f = is_near.select(x, f);
    let f_low = is_near.select(0.0f64, lost * super::recip(sum));
    let (high, low) = fraction(f, Some(f_low));
    let low = exponent.mul_add(LN_2_LOW, low);
    exponent.mul_add(LN_2_HIGH, high + low)
}

#[track_caller]
pub(crate) fn ln_1p(x: Reg<f64>) -> Reg<f64> {
    let finite = ln_1p_finite(x);
    let special = (x + 1.0).mul_add(f64::INFINITY, f64::INFINITY);
    let is_ordinary = x.gt(-1.0) & x.lt(f64::INFINITY);
    let result = is_ordinary.select(finite, special);
    let result = x.eq(-1.0).select(f64::NEG_INFINITY, result);
    x.abs().lt(1.0e-17).select(x, result)
}
