//! f32 arithmetic: PTX ISA, "Floating Point Instructions".
//!
//! Nearest-even results are the host's own. The other modes compute the operation in f64, rounded
//! to odd, and round once more (see [`format`](super::format)). NaN results are the canonical
//! 0x7fffffff for any payloads of the operands.

use super::format::{add_odd, to_odd};
use super::{FloatMode, Rounding};

/// The NaN of every f32 operation.
pub const CANONICAL_NAN: u32 = 0x7fff_ffff;

/// A subnormal becomes zero of its sign (`.ftz`).
#[inline(always)]
pub fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// NaN becomes the canonical NaN.
#[inline(always)]
pub fn canonical(value: f32) -> u32 {
    if value.is_nan() { CANONICAL_NAN } else { value.to_bits() }
}

/// Clamps to [0, 1]; NaN becomes +0 (`.sat`).
#[inline(always)]
pub fn saturate(bits: u32) -> u32 {
    let value = f32::from_bits(bits);
    // The comparisons are false for NaN.
    let low = if value > 0.0 { bits } else { 0 };
    if f32::from_bits(low) > 1.0 { 1.0f32.to_bits() } else { low }
}

#[inline(always)]
fn input(bits: u32, mode: FloatMode) -> f32 {
    f32::from_bits(if mode.flush { flush(bits) } else { bits })
}

#[inline(always)]
fn finish(value: f32, mode: FloatMode) -> u32 {
    let bits = canonical(value);
    let bits = if mode.flush { flush(bits) } else { bits };
    if mode.saturate { saturate(bits) } else { bits }
}

/// An f64 rounded to odd, rounded to f32 in any mode.
#[inline(always)]
pub fn narrow(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    if rounding == Rounding::NearestEven {
        return nearest;
    }
    let (got, exact) = (f64::from(nearest).abs(), value.abs());
    let negative = value.is_sign_negative();
    let too_large = match rounding {
        Rounding::Zero => got > exact,
        Rounding::Down => !negative && got > exact,
        Rounding::Up => negative && got > exact,
        Rounding::NearestEven | Rounding::NearestAway => false,
    };
    let too_small = match rounding {
        Rounding::Down => negative && got < exact,
        Rounding::Up => !negative && got < exact,
        Rounding::NearestAway => got < exact && exact - got >= f64::from(next_up(nearest).abs()) - exact,
        Rounding::NearestEven | Rounding::Zero => false,
    };
    f32::from_bits(nearest.to_bits().wrapping_add(u32::from(too_small)).wrapping_sub(u32::from(too_large)))
}

#[inline(always)]
fn next_up(value: f32) -> f32 {
    f32::from_bits(value.to_bits() + 1)
}

/// Zero of the sign of a result that is below the smallest normal number before it is rounded, with
/// `.ftz` (measured on H200).
#[inline(always)]
fn underflow(exact: f64, mode: FloatMode) -> Option<u32> {
    let flushes = mode.flush && exact.abs() < f64::from(f32::MIN_POSITIVE);
    let sign = if mode.saturate { 0 } else { 0x8000_0000 };
    flushes.then(|| (exact as f32).to_bits() & sign)
}

/// `a + b` of f64 values that hold f32 operands or products of them, rounded to odd; `rounding` gives
/// the sign of zero.
#[inline(always)]
fn sum_odd(a: f64, b: f64, rounding: Rounding) -> f64 {
    let sum = add_odd(a, b);
    // An exact zero from terms of opposite sign is -0 when rounding down, +0 otherwise (IEEE 754,
    // 6.3).
    let opposite = a.is_sign_negative() != b.is_sign_negative();
    if sum == 0.0 && opposite && rounding == Rounding::Down { -0.0 } else { sum }
}

/// `add.f32`
#[inline(always)]
pub fn add(a: u32, b: u32, mode: FloatMode) -> u32 {
    let (a, b) = (input(a, mode), input(b, mode));
    finish(
        match mode.rounding {
            Rounding::NearestEven => a + b,
            rounding => narrow(sum_odd(f64::from(a), f64::from(b), rounding), rounding),
        },
        mode,
    )
}

/// `sub.f32`
#[inline(always)]
pub fn sub(a: u32, b: u32, mode: FloatMode) -> u32 {
    add(a, b ^ 0x8000_0000, mode)
}

/// `mul.f32`
#[inline(always)]
pub fn mul(a: u32, b: u32, mode: FloatMode) -> u32 {
    let (a, b) = (input(a, mode), input(b, mode));
    if let Some(zero) = underflow(f64::from(a) * f64::from(b), mode) {
        return zero;
    }
    finish(
        match mode.rounding {
            Rounding::NearestEven => a * b,
            rounding => narrow(f64::from(a) * f64::from(b), rounding),
        },
        mode,
    )
}

/// `fma.f32`, and `mad.f32`, which is the same on every architecture here.
#[inline(always)]
pub fn fma(a: u32, b: u32, c: u32, mode: FloatMode) -> u32 {
    let (a, b, c) = (input(a, mode), input(b, mode), input(c, mode));
    // The product of two f32 is exact in f64.
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = sum_odd(product, c, mode.rounding);
    underflow(sum, mode).unwrap_or_else(|| finish(narrow(sum, mode.rounding), mode))
}

/// `div.rn.f32` and its directed forms.
#[inline(always)]
pub fn div(a: u32, b: u32, mode: FloatMode) -> u32 {
    let (a, b) = (input(a, mode), input(b, mode));
    if mode.flush
        && let Some(zero) = underflow(div_odd(a, b), mode)
    {
        return zero;
    }
    finish(
        match mode.rounding {
            Rounding::NearestEven => a / b,
            rounding => narrow(div_odd(a, b), rounding),
        },
        mode,
    )
}

/// `rcp.rn.f32` and its directed forms.
#[inline(always)]
pub fn rcp(a: u32, mode: FloatMode) -> u32 {
    div(1.0f32.to_bits(), a, mode)
}

/// `sqrt.rn.f32` and its directed forms.
#[inline(always)]
pub fn sqrt(a: u32, mode: FloatMode) -> u32 {
    let a = input(a, mode);
    finish(
        match mode.rounding {
            Rounding::NearestEven => a.sqrt(),
            rounding => narrow(sqrt_odd(a), rounding),
        },
        mode,
    )
}

/// The quotient rounded to odd. The sign of the remainder gives the side of the nearest f64.
fn div_odd(a: f32, b: f32) -> f64 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    if quotient == 0.0 || !quotient.is_finite() || !b.is_finite() {
        return quotient;
    }
    let remainder = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -remainder } else { remainder })
}

/// The square root rounded to odd.
fn sqrt_odd(a: f32) -> f64 {
    let a = f64::from(a);
    let root = a.sqrt();
    to_odd(root, if a > 0.0 && a.is_finite() { (-root).mul_add(root, a) } else { 0.0 })
}
