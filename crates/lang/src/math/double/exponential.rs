//! `exp` and its relatives, of f64.

use std::f64::consts::{LN_2, LN_10, LOG2_10, LOG2_E};

use super::{nearest, power_of_two, scale};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(e^r - 1 - r) / r^2` for |r| up to ln(2) / 2.
const EXP_M1: [f64; 11] = [
    0.5,
    0.166_666_666_666_666_77,
    0.041_666_666_666_666_49,
    0.008_333_333_333_320_737,
    0.001_388_888_888_896_838_3,
    0.000_198_412_698_886_850_52,
    2.480_158_716_470_208_8e-05,
    2.755_724_136_750_094_3e-06,
    2.755_740_598_034_034e-07,
    2.511_011_040_990_487_2e-08,
    2.087_530_578_774_923_4e-09,
];

/// `ln(2)` as the sum of a float whose products with exponents are exact, and a float.
pub(super) const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0x1f_ffff);
pub(super) const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// `e^r - 1` for |r| up to ln(2) / 2.
#[track_caller]
fn small(r: Reg<f64>) -> Reg<f64> {
    (r * r).mul_add(polynomial(r, &EXP_M1), r)
}

/// `x` less `exponent * ln(2)`.
#[track_caller]
fn reduced(x: Reg<f64>, exponent: Reg<f64>) -> Reg<f64> {
    exponent.mul_add(-LN_2_LOW, exponent.mul_add(-LN_2_HIGH, x))
}

/// `result`, or zero or infinity where the argument is past the range.
#[track_caller]
fn within(x: Reg<f64>, lowest: f64, highest: f64, result: Reg<f64>) -> Reg<f64> {
    let result = x.gt(highest).select(f64::INFINITY, result);
    x.lt(lowest).select(0.0f64, result)
}

#[track_caller]
pub(crate) fn exp(x: Reg<f64>) -> Reg<f64> {
    let (exponent, integer) = nearest(x, LOG2_E);
    let result = scale(small(reduced(x, exponent)) + 1.0, integer);
    within(x, -745.2, 709.79, result)
}

/// `e^(high + low)`, for a small `low` and a sum within 700 of zero.
#[track_caller]
pub(super) fn exp_of_sum(high: Reg<f64>, low: Reg<f64>) -> Reg<f64> {
    let (exponent, integer) = nearest(high, LOG2_E);
    scale(small(reduced(high, exponent) + low) + 1.0, integer)
}

#[track_caller]
pub(crate) fn exp2(x: Reg<f64>) -> Reg<f64> {
    let (exponent, integer) = nearest(x, 1.0);
    let result = scale(small((x - exponent) * LN_2) + 1.0, integer);
    within(x, -1076.0, 1024.5, result)
}

#[track_caller]
pub(crate) fn exp10(x: Reg<f64>) -> Reg<f64> {
    let (exponent, integer) = nearest(x, LOG2_10);
    // log10(2) as the sum of two floats, the first with zeros at its end.
    const HIGH: f64 = f64::from_bits(std::f64::consts::LOG10_2.to_bits() & !0x1f_ffff);
    const LOW: f64 = 1.145_110_089_802_183_8e-10;
    let rest = exponent.mul_add(-LOW, exponent.mul_add(-HIGH, x));
    const LN_10_LOW: f64 = -2.170_756_223_382_249_4e-16;
    let result = scale(small(rest.mul_add(LN_10, rest * LN_10_LOW)) + 1.0, integer);
    within(x, -323.7, 308.3, result)
}

#[track_caller]
pub(crate) fn exp_m1(x: Reg<f64>) -> Reg<f64> {
    // Below -50 the result is -1.
    let clamped = x.lt(-50.0).select(-50.0f64, x);
    let (exponent, integer) = nearest(clamped, LOG2_E);
    let less_one = small(reduced(clamped, exponent));
    // Half the power of two: 2^1024 has no float.
    let half_scale = power_of_two(integer - 1);
    let scaled = less_one.mul_add(half_scale, half_scale - 0.5) * 2.0;
    let result = x.gt(709.79).select(f64::INFINITY, scaled);
    // Subnormals would lose bits, and -0 its sign.
    x.abs().lt(1.0e-17).select(x, result)
}
