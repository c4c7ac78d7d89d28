//! Rounding to integers, of f32.

use crate::conversion::Rounding;
use crate::value::Reg;

#[track_caller]
pub(crate) fn floor(x: Reg<f32>) -> Reg<f32> {
    x.round_with(Rounding::Down)
}

#[track_caller]
pub(crate) fn ceil(x: Reg<f32>) -> Reg<f32> {
    x.round_with(Rounding::Up)
}

#[track_caller]
pub(crate) fn trunc(x: Reg<f32>) -> Reg<f32> {
    x.round_with(Rounding::Zero)
}

#[track_caller]
pub(crate) fn round_ties_even(x: Reg<f32>) -> Reg<f32> {
    x.round_with(Rounding::NearestEven)
}

#[track_caller]
pub(crate) fn round(x: Reg<f32>) -> Reg<f32> {
    // The largest number below 1/2 does not carry 1/2 - 2^-25 to 1.
    let almost_half = crate::value::constant(0.499_999_97f32).copysign(x);
    let sum = x.add_with(almost_half, Rounding::NearestEven);
    trunc(sum).copysign(x)
}
