//! Rounding to integers and other simple functions, of f32.

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
    trunc(x + almost_half)
}

#[track_caller]
pub(crate) fn fract(x: Reg<f32>) -> Reg<f32> {
    x - trunc(x)
}

#[track_caller]
pub(crate) fn signum(x: Reg<f32>) -> Reg<f32> {
    x.is_nan().select(x, crate::value::constant(1.0f32).copysign(x))
}

#[track_caller]
pub(crate) fn to_degrees(x: Reg<f32>) -> Reg<f32> {
    x * (180.0 / std::f64::consts::PI) as f32
}

#[track_caller]
pub(crate) fn to_radians(x: Reg<f32>) -> Reg<f32> {
    x * (std::f64::consts::PI / 180.0) as f32
}

#[track_caller]
pub(crate) fn fdim(x: Reg<f32>, y: Reg<f32>) -> Reg<f32> {
    x.le(y).select(0.0f32, x - y)
}
