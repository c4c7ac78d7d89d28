//! The functions of f32.

mod activation;
mod error_function;
mod exponential;
mod gamma;
mod hyperbolic;
mod inverse_trigonometric;
mod logarithm;
mod power;
mod root;
mod trigonometric;

pub(super) use activation::*;
pub(super) use error_function::*;
pub(super) use exponential::*;
pub(super) use gamma::*;
pub(super) use hyperbolic::*;
pub(super) use inverse_trigonometric::*;
pub(super) use logarithm::*;
pub(super) use power::*;
pub(super) use root::*;
pub(super) use trigonometric::*;

pub(super) use super::rounding::*;

use crate::operation::compute;
use crate::value::Reg;

/// `1 / x` to 1 ulp; subnormals are zero.
#[track_caller]
fn reciprocal(x: Reg<f32>) -> Reg<f32> {
    compute("rcp.approx.ftz.f32", [x.operand()])
}

/// `2^x` to 2 ulp; subnormals are zero.
#[track_caller]
fn exp2_normal(x: Reg<f32>) -> Reg<f32> {
    compute("ex2.approx.ftz.f32", [x.operand()])
}

/// The logarithm to base 2, for what needs few bits of it; subnormals are zero.
#[track_caller]
fn log2_normal(x: Reg<f32>) -> Reg<f32> {
    compute("lg2.approx.ftz.f32", [x.operand()])
}

/// The square root to 1 ulp; subnormals are zero.
#[track_caller]
fn square_root(x: Reg<f32>) -> Reg<f32> {
    compute("sqrt.approx.ftz.f32", [x.operand()])
}

/// The float with these bits.
#[track_caller]
fn from_bits(bits: Reg<u32>) -> Reg<f32> {
    bits.bit_cast()
}

/// The bits of a float.
#[track_caller]
fn bits(x: Reg<f32>) -> Reg<u32> {
    x.bit_cast()
}

/// `x + x * s * polynomial`, with a positive polynomial of the square `s` of `x`: an odd function
/// that grows faster than `x`.
#[track_caller]
fn odd_above(x: Reg<f32>, s: Reg<f32>, polynomial: Reg<f32>) -> Reg<f32> {
    (x * s).mul_add(polynomial, x)
}

/// `x + x * s * polynomial`, with a negative polynomial of the square `s` of `x`: an odd function
/// that grows more slowly than `x`.
#[track_caller]
fn odd_below(x: Reg<f32>, s: Reg<f32>, polynomial: Reg<f32>) -> Reg<f32> {
    // The sum with +0 makes a product of -0 positive, so that -0 stays -0.
    x.mul_add(s, 0.0).mul_add(polynomial, x)
}
