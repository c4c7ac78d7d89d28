//! `exp` and its relatives, of f32.

use std::f32::consts::{LOG2_10, LOG2_E};

use super::{bits, exp2_normal, from_bits};
use crate::float::Mode;
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// The logarithm to base 2 of a number, as the sum of two floats.
#[derive(Clone, Copy)]
pub(super) struct Base([f32; 2]);

pub(super) const E: Base = Base([LOG2_E, (std::f64::consts::LOG2_E - LOG2_E as f64) as f32]);
const TEN: Base = Base([LOG2_10, (std::f64::consts::LOG2_10 - LOG2_10 as f64) as f32]);

/// A power `fraction * scale`, where the scale is a power of two and a normal number. Where the
/// power overflows or is subnormal, the fraction is far from 1.
#[derive(Clone, Copy)]
pub(super) struct Power {
    pub(super) fraction: Reg<f32>,
    pub(super) scale: Reg<f32>,
}

/// `base^x`.
#[track_caller]
pub(super) fn power(x: Reg<f32>, base: Base) -> Power {
    // Exponents of the scale lie in -SPAN/2 ..= SPAN/2.
    const SPAN: f32 = 252.0;
    // Adding it rounds to an integer, and leaves the integer + 1 in the low bits of the fraction.
    const TO_INTEGER: f32 = 12_582_913.0;
    let Base([high, low]) = base;
    let clamped = x.mul_add_with(high / SPAN, 0.5, Mode { saturate: true, ..Mode::default() });
    let integer = clamped.mul_add(SPAN, TO_INTEGER);
    let minus_exponent = integer.mul_add(-1.0, TO_INTEGER + SPAN / 2.0);
    let fraction = x.mul_add(low, x.mul_add(high, minus_exponent));
    Power { fraction: exp2_normal(fraction), scale: from_bits(bits(integer) << 23) }
}

#[track_caller]
pub(crate) fn exp(x: Reg<f32>) -> Reg<f32> {
    let power = power(x, E);
    power.fraction * power.scale
}

#[track_caller]
pub(crate) fn exp10(x: Reg<f32>) -> Reg<f32> {
    let power = power(x, TEN);
    power.fraction * power.scale
}

#[track_caller]
pub(crate) fn exp2(x: Reg<f32>) -> Reg<f32> {
    x.ex2_approx()
}

/// `(e^x - 1 - x) / x^2` for |x| up to ln(2) / 2: relative error of `e^x - 1` below 2^-28.
const EXP_M1: [f32; 6] = [0.5, 0.166_666_34, 0.041_666_508, 0.008_341_807, 0.001_393_123_3, 0.000_149_059_15];

/// `ln(2)` as the sum of a float with zeros at its end and a float.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2_HIGH as f64) as f32;

#[track_caller]
pub(crate) fn exp_m1(x: Reg<f32>) -> Reg<f32> {
    // Beyond these the result is -1 or infinite.
    let clamped = x.max_nan(-30.0).min_nan(88.9);
    let exponent = clamped.mul_add(LOG2_E, 12_582_912.0) + -12_582_912.0;
    let r = exponent.mul_add(-LN_2_LOW, exponent.mul_add(-LN_2_HIGH, clamped));
    let less_one = (r * r).mul_add(polynomial(r, &EXP_M1), r);
    // Half the power of two: 2^128 has no float.
    let half_scale = from_bits((exponent.convert::<i32>().bit_cast::<u32>() << 23) + (126u32 << 23));
    let scaled = less_one.mul_add(half_scale, half_scale - 0.5) * 2.0;
    // Subnormals would lose bits, and -0 its sign.
    x.abs().lt(1.0e-8).select(x, scaled)
}
