//! Activation functions of f64.

use super::error_function::complement;
use super::logarithm::ln_1p_finite;
use super::{erfc, exp, recip};
use crate::value::Reg;

/// `x / (1 + e^-z)`.
#[track_caller]
fn times_sigmoid(x: Reg<f64>, z: Reg<f64>) -> Reg<f64> {
    // The root of e^-|z|: of its square times x, only the last product may be subnormal.
    let root = exp(z.abs() * -0.5);
    let factor = x * recip(root.mul_add(root, 1.0));
    z.lt(0.0).select(factor * root * root, factor)
}

/// A number, or where it is below `lowest`, that: minus infinity times zero would be NaN.
#[track_caller]
fn at_least(x: Reg<f64>, lowest: f64) -> Reg<f64> {
    x.lt(lowest).select(lowest, x)
}

#[track_caller]
pub(crate) fn sigmoid(x: Reg<f64>) -> Reg<f64> {
    times_sigmoid(crate::value::constant(1.0f64), x)
}

#[track_caller]
pub(crate) fn silu(x: Reg<f64>) -> Reg<f64> {
    let x = at_least(x, -800.0);
    times_sigmoid(x, x)
}

#[track_caller]
pub(crate) fn gelu_tanh(x: Reg<f64>) -> Reg<f64> {
    const LINEAR: f64 = 2.0 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    let x = at_least(x, -40.0);
    times_sigmoid(x, x * (x * x).mul_add(LINEAR * 0.044_715, LINEAR))
}

#[track_caller]
pub(crate) fn gelu(x: Reg<f64>) -> Reg<f64> {
    use std::f64::consts::FRAC_1_SQRT_2;
    let x = at_least(x, -40.0);
    // Below -2 by the tail, whose argument's square is exact.
    let near = x * 0.5 * erfc(x * -FRAC_1_SQRT_2);
    let half = x * 0.5;
    let square = half * x;
    let far = half * complement(x.abs() * FRAC_1_SQRT_2, square, half.mul_add(x, -square));
    x.lt(-2.0).select(far, near)
}

#[track_caller]
pub(crate) fn softplus(x: Reg<f64>) -> Reg<f64> {
    let logarithm = ln_1p_finite(exp(-x.abs()));
    x.lt(0.0).select(logarithm, x + logarithm)
}
