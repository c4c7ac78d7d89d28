//! Rounding to integers and other simple functions, of f32 and f64.

use std::f64::consts::PI;

use crate::conversion::Rounding;
use crate::element::DeviceFloat;
use crate::float::RoundedFloat;
use crate::value::{Reg, constant};

#[track_caller]
pub(super) fn floor<T: RoundedFloat>(x: Reg<T>) -> Reg<T> {
    x.round_with(Rounding::Down)
}

#[track_caller]
pub(super) fn ceil<T: RoundedFloat>(x: Reg<T>) -> Reg<T> {
    x.round_with(Rounding::Up)
}

#[track_caller]
pub(super) fn trunc<T: RoundedFloat>(x: Reg<T>) -> Reg<T> {
    x.round_with(Rounding::Zero)
}

#[track_caller]
pub(super) fn round_ties_even<T: RoundedFloat>(x: Reg<T>) -> Reg<T> {
    x.round_with(Rounding::NearestEven)
}

#[track_caller]
pub(super) fn round<T: RoundedFloat + DeviceFloat>(x: Reg<T>) -> Reg<T> {
    // The largest number below 1/2: added to itself it does not round up to 1, as 1/2 would.
    let digits = if T::BYTES == 4 { f32::MANTISSA_DIGITS } else { f64::MANTISSA_DIGITS };
    let almost_half = T::from_f64(0.5 - 0.5f64.powi(digits as i32 + 1));
    trunc(x + constant(almost_half).copysign(x))
}

#[track_caller]
pub(super) fn fract<T: RoundedFloat>(x: Reg<T>) -> Reg<T> {
    x - trunc(x)
}

#[track_caller]
pub(super) fn signum<T: RoundedFloat + DeviceFloat>(x: Reg<T>) -> Reg<T> {
    // One comparison; ptxas makes two instructions of `testp`.
    x.ne(x).select(x, constant(T::ONE).copysign(x))
}

#[track_caller]
pub(super) fn to_degrees<T: DeviceFloat>(x: Reg<T>) -> Reg<T> {
    x * T::from_f64(180.0 / PI)
}

#[track_caller]
pub(super) fn to_radians<T: DeviceFloat>(x: Reg<T>) -> Reg<T> {
    x * T::from_f64(PI / 180.0)
}

#[track_caller]
pub(super) fn fdim<T: DeviceFloat>(x: Reg<T>, y: Reg<T>) -> Reg<T> {
    x.le(y).select(T::ZERO, x - y)
}
