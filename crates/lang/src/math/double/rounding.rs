//! Rounding to integers and other simple functions, of f64.

use crate::conversion::Rounding;
use crate::value::Reg;

#[track_caller]
pub(crate) fn floor(x: Reg<f64>) -> Reg<f64> {
    x.round_with(Rounding::Down)
}

#[track_caller]
pub(crate) fn ceil(x: Reg<f64>) -> Reg<f64> {
    x.round_with(Rounding::Up)
}

#[track_caller]
pub(crate) fn trunc(x: Reg<f64>) -> Reg<f64> {
    x.round_with(Rounding::Zero)
}

#[track_caller]
pub(crate) fn round_ties_even(x: Reg<f64>) -> Reg<f64> {
    x.round_with(Rounding::NearestEven)
}

#[track_caller]
pub(crate) fn round(x: Reg<f64>) -> Reg<f64> {
    // The largest number below 1/2 does not carry 1/2 - 2^-54 to 1.
    trunc(x + crate::value::constant(0.499_999_999_999_999_94f64).copysign(x))
}

#[track_caller]
pub(crate) fn fract(x: Reg<f64>) -> Reg<f64> {
    x - trunc(x)
}

#[track_caller]
pub(crate) fn signum(x: Reg<f64>) -> Reg<f64> {
    x.is_nan().select(x, crate::value::constant(1.0f64).copysign(x))
}

#[track_caller]
pub(crate) fn to_degrees(x: Reg<f64>) -> Reg<f64> {
    x * (180.0 / std::f64::consts::PI)
}

#[track_caller]
pub(crate) fn to_radians(x: Reg<f64>) -> Reg<f64> {
    x * (std::f64::consts::PI / 180.0)
}

#[track_caller]
pub(crate) fn fdim(x: Reg<f64>, y: Reg<f64>) -> Reg<f64> {
    x.le(y).select(0.0f64, x - y)
}
