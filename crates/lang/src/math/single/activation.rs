//! Activation functions of f32.

use super::error_function::{TAIL_UNIT, normal_tail};
use super::exponential::{E, power};
use super::logarithm::ln_1p_moderate;
use super::reciprocal;
use crate::value::Reg;

/// `x / (1 + e^-x)`, or with `x = 1` the sigmoid of `z` itself.
#[track_caller]
fn times_sigmoid(x: Option<Reg<f32>>, z: Reg<f32>) -> Reg<f32> {
    // e^-|z| is at most 1. Where z is negative, it is also the numerator.
    let power = power(-z.abs(), E);
    let quotient = reciprocal(power.fraction.mul_add(power.scale, 1.0));
    let factor = x.map_or(quotient, |x| x * quotient);
    // The scale comes last: only then may the result be subnormal.
    let negative = factor * power.fraction * power.scale;
    z.lt(0.0).select(negative, factor)
}

#[track_caller]
pub(crate) fn sigmoid(x: Reg<f32>) -> Reg<f32> {
    times_sigmoid(None, x)
}

#[track_caller]
pub(crate) fn silu(x: Reg<f32>) -> Reg<f32> {
    // Minus infinity times zero would be NaN.
    let x = x.max_nan(-200.0);
    times_sigmoid(Some(x), x)
}

#[track_caller]
pub(crate) fn gelu_tanh(x: Reg<f32>) -> Reg<f32> {
    // (1 + tanh(u)) / 2 is the sigmoid of 2 u; u = sqrt(2 / pi) (x + 0.044715 x^3).
    const LINEAR: f64 = 2.0 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    let x = x.max_nan(-20.0);
    let slope = (x * x).mul_add((LINEAR * 0.044_715) as f32, LINEAR as f32);
    times_sigmoid(Some(x), x * slope)
}

#[track_caller]
pub(crate) fn gelu(x: Reg<f32>) -> Reg<f32> {
    // x Phi(x), where Phi(-|x|) is the tail and Phi(|x|) is 1 less the tail.
    // An infinity times zero would be NaN.
    let clamped = x.max_nan(-15.0).min_nan(15.0);
    let tail = normal_tail(clamped.abs());
    let negative = clamped * tail.fraction * tail.scale * (TAIL_UNIT * 0.5);
    x.bit_cast::<i32>().lt(0).select(negative, x - negative)
}

#[track_caller]
pub(crate) fn softplus(x: Reg<f32>) -> Reg<f32> {
    let power = power(-x.abs(), E);
    let logarithm = ln_1p_moderate(power.fraction * power.scale);
    x.max_nan(0.0) + logarithm
}
