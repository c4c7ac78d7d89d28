//! Logarithms of f32.

use std::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E};

use super::{bits, from_bits};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(ln(1 + f) - f) / f^2` for |f| up to 1/3: relative error of `ln(1 + f)` below 2^-27.
const LN_1P: [f32; 9] = [
    -0.5,
    0.333_331_97,
    -0.249_999_21,
    0.200_114_98,
    -0.166_743_04,
    0.139_879_35,
    -0.122_779_1,
    0.140_736_3,
    -0.124_528_64,
];

/// A number `2^exponent * (1 + f)`, with `1 + f` between 2/3 and 4/3.
struct Split {
    f: Reg<f32>,
    exponent: Reg<f32>,
    /// What is not a positive finite number has its logarithm from this.
    scaled: Reg<f32>,
}

const TWO_THIRDS: u32 = 0x3f2a_aaab;
const EXPONENT_STEP: f32 = 1.0 / 8_388_608.0;

#[track_caller]
fn split(x: Reg<f32>) -> Split {
    // Subnormals are scaled to normal numbers.
    let is_small = x.lt(f32::MIN_POSITIVE);
    let scaled = is_small.select(x * 8_388_608.0, x);
    let offset = is_small.select(-23.0f32, 0.0f32);
    let exponent = (bits(scaled) - TWO_THIRDS) & 0xff80_0000;
    let f = from_bits(bits(scaled) - exponent) - 1.0;
    Split { f, exponent: exponent.bit_cast::<i32>().convert::<f32>().mul_add(EXPONENT_STEP, offset), scaled }
}

/// The logarithm's value at infinity, NaN, zero and negative numbers, and `finite` elsewhere.
#[track_caller]
fn with_special(scaled: Reg<f32>, finite: Reg<f32>) -> Reg<f32> {
    // Infinity stays; negative numbers, -0 too, have the largest patterns and become NaN.
    let special = scaled.mul_add(f32::INFINITY, f32::INFINITY);
    let finite = bits(scaled).ge(0x7f80_0000).select(special, finite);
    scaled.eq(0.0).select(f32::NEG_INFINITY, finite)
}

#[track_caller]
pub(crate) fn ln(x: Reg<f32>) -> Reg<f32> {
    let Split { f, exponent, scaled } = split(x);
    let fraction = (f * f).mul_add(polynomial(f, &LN_1P), f);
    with_special(scaled, exponent.mul_add(LN_2 as f32, fraction))
}

/// The logarithm to the base with these constants: of e, as a sum of two floats, and of 2.
#[track_caller]
fn logarithm(x: Reg<f32>, of_e: f64, of_2: f64) -> Reg<f32> {
    let Split { f, exponent, scaled } = split(x);
    let high = of_e as f32;
    let coefficients = LN_1P.map(|coefficient| (f64::from(coefficient) * of_e) as f32);
    let rest = f.mul_add(polynomial(f, &coefficients), (of_e - f64::from(high)) as f32);
    let fraction = f.mul_add(high, f * rest);
    let sum = if of_2 == 1.0 { exponent + fraction } else { exponent.mul_add(of_2 as f32, fraction) };
    with_special(scaled, sum)
}

#[track_caller]
pub(crate) fn log2(x: Reg<f32>) -> Reg<f32> {
    logarithm(x, LOG2_E, 1.0)
}

#[track_caller]
pub(crate) fn log10(x: Reg<f32>) -> Reg<f32> {
    logarithm(x, LOG10_E, LOG10_2)
}

/// `ln(1 + x)` of a number above -1, infinity apart.
#[track_caller]
pub(super) fn ln_1p_finite(x: Reg<f32>) -> Reg<f32> {
    let exponent = (bits(x + 1.0) - TWO_THIRDS) & 0xff80_0000;
    // (1 + x) * scale - 1, without the rounding of 1 + x.
    // The scale of the largest numbers, 2^-128, is subnormal.
    let scale = from_bits(4f32.to_bits() - exponent) * 0.25;
    let f = x.mul_add(scale, scale - 1.0);
    let fraction = (f * f).mul_add(polynomial(f, &LN_1P), f);
    (exponent.bit_cast::<i32>().convert::<f32>() * EXPONENT_STEP).mul_add(LN_2 as f32, fraction)
}

#[track_caller]
pub(crate) fn ln_1p(x: Reg<f32>) -> Reg<f32> {
    let finite = ln_1p_finite(x);
    let sum = x + 1.0;
    let special = sum.mul_add(f32::INFINITY, f32::INFINITY);
    let finite = bits(sum).ge(0x7f80_0000).select(special, finite);
    let result = sum.eq(0.0).select(f32::NEG_INFINITY, finite);
    x.eq(0.0).select(x, result)
}
