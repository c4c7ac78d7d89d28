//! Powers of floats: the special cases, of f32 and f64.

use super::MathFloat;
use crate::element::DeviceFloat;
use crate::value::Reg;

/// `x^y`, where `magnitude` computes it for positive finite `x` other than 1, and `is_negative`
/// reads the sign bit.
#[track_caller]
pub(super) fn powf<T: MathFloat + DeviceFloat>(
    (x, y): (Reg<T>, Reg<T>),
    magnitude: impl FnOnce(Reg<T>, Reg<T>) -> Reg<T>,
    is_negative: impl FnOnce(Reg<T>) -> Reg<bool>,
) -> Reg<T> {
    let (infinity, nan) = (T::from_f64(f64::INFINITY), T::from_f64(f64::NAN));
    let t = x.abs();
    let finite = magnitude(t, y);
    let (is_zero, is_infinite) = (t.eq(T::ZERO), t.eq(infinity));
    let grows = is_zero ^ y.gt(T::ZERO);
    let limit = grows.select(infinity, T::ZERO);
    let power = (is_zero | is_infinite).select(limit, finite);
    let power = t.eq(T::ONE).select(T::ONE, power);
    let half = y * T::from_f64(0.5);
    let is_integer = y.trunc().eq(y);
    let is_odd = is_integer & half.trunc().ne(half);
    let is_negative = is_negative(x);
    let power = (is_negative & is_odd).select(-power, power);
    let is_undefined = x.lt(T::ZERO) & !is_integer & !is_infinite;
    let power = (is_undefined | x.is_nan() | y.is_nan()).select(nan, power);
    (x.eq(T::ONE) | y.eq(T::ZERO)).select(T::ONE, power)
}
