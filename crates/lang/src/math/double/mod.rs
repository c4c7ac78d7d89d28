//! The functions of f64.

mod activation;
mod error_function;
mod exponential;
mod hyperbolic;
mod inverse_trigonometric;
mod logarithm;
mod power;
mod trigonometric;

pub(super) use activation::*;
pub(super) use error_function::*;
pub(super) use exponential::*;
pub(super) use hyperbolic::*;
pub(super) use inverse_trigonometric::*;
pub(super) use logarithm::*;
pub(super) use power::*;
pub(super) use trigonometric::*;

pub(super) use super::rounding::*;

use crate::value::Reg;

/// `2^exponent` of a normal number.
#[track_caller]
fn power_of_two(exponent: Reg<i32>) -> Reg<f64> {
    ((exponent + 1023).convert::<i64>().bit_cast::<u64>() << 52).bit_cast()
}

/// `x * 2^exponent`, where the power alone may overflow or be subnormal.
#[track_caller]
fn scale(x: Reg<f64>, exponent: Reg<i32>) -> Reg<f64> {
    let half = exponent >> 1;
    x * power_of_two(half) * power_of_two(exponent - half)
}

/// Adding it rounds a number below 2^31 to an integer.
const TO_INTEGER: f64 = 6_755_399_441_055_744.0;

/// The nearest integer of a number below 2^31, as a float and as an integer.
#[track_caller]
fn nearest(x: Reg<f64>, factor: f64) -> (Reg<f64>, Reg<i32>) {
    let shifted = x.mul_add(factor, TO_INTEGER);
    (shifted - TO_INTEGER, shifted.bit_cast::<u64>().convert::<u32>().bit_cast())
}
