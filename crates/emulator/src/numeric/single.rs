//! f32 arithmetic: PTX ISA, "Floating Point Instructions".
//!
//! Nearest-even results are the host's own. The other modes compute the operation in f64, rounded
//! to odd, and round once more (see [`format`](super::format)). NaN results are the canonical
//! 0x7fffffff for any payloads of the operands.

use super::format::{Format, add_odd, to_odd};
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

/// The smallest normal number.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

/// 2^64.
const SCALE: f32 = 18_446_744_073_709_551_616.0;

/// What `.ftz` makes of a result that is [subnormal](Format::rounds_to_subnormal): zero of its sign.
#[inline(always)]
fn zero_of(result: f32, mode: FloatMode) -> u32 {
    if mode.saturate { 0 } else { result.to_bits() & 0x8000_0000 }
}

/// `a + b` of f64 values that hold f32 operands or products of them, rounded to odd; `rounding`
/// gives the sign of zero.
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
    if mode.flush && Format::F32.rounds_to_subnormal(f64::from(a) * f64::from(b), mode.rounding) {
        return zero_of(a * b, mode);
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
    if mode.flush && Format::F32.rounds_to_subnormal(sum, mode.rounding) {
        return zero_of(sum as f32, mode);
    }
    finish(narrow(sum, mode.rounding), mode)
}

/// `mul.rn.ftz.f32` in straight-line f32 arithmetic, which compilers make vectors of.
#[inline(always)]
pub fn mul_flushed(a: u32, b: u32) -> u32 {
    let (a, b) = (f32::from_bits(flush(a)), f32::from_bits(flush(b)));
    let product = a * b;
    // 2^64 times as large, the product is rounded with any exponent. NaN, of infinity and zero, is not
    // small; the product is zero then.
    let is_small = (a * SCALE * b).abs() < f32::MIN_POSITIVE * SCALE;
    if is_small { zero_of(product, FloatMode::NEAREST) } else { canonical(product) }
}

/// `fma.rn.ftz.f32` in straight-line arithmetic, which compilers make vectors of.
#[inline(always)]
pub fn fma_flushed(a: u32, b: u32, c: u32) -> u32 {
    let [a, b, c] = [a, b, c].map(|operand| f32::from_bits(flush(operand)));
    let sum = a.mul_add(b, c);
    // Only a sum that is rounded to the smallest normal number can be flushed yet. 2^64 times as large, it is
    // rounded with any exponent; the operands that give such a sum do not overflow (|c| < 2^-75: a product that
    // cancels a larger c is a multiple of 2^-123).
    let scaled = (a * SCALE).mul_add(b, c * SCALE);
    let is_small = sum.abs() == f32::MIN_POSITIVE && scaled.abs() < f32::MIN_POSITIVE * SCALE;
    if is_small { zero_of(sum, FloatMode::NEAREST) } else { flush(canonical(sum)) }
}

/// `div.rn.f32` and its directed forms.
#[inline(always)]
pub fn div(a: u32, b: u32, mode: FloatMode) -> u32 {
    let (a, b) = (input(a, mode), input(b, mode));
    // Both sides are exact. No quotient is so close to the smallest normal number that it is rounded up to it.
    if mode.flush && f64::from(a).abs() < SMALLEST * f64::from(b).abs() {
        return zero_of(a / b, mode);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What an H200 gives (driver 580.159.04), which flushes a result that is subnormal once it is rounded
    /// to 24 bits with any exponent.
    #[test]
    fn ftz_flushes_what_rounds_to_a_subnormal() {
        use Rounding::{Down, NearestEven, Up, Zero};
        let rows = [
            (NearestEven, [0x2202_6f1e, 0x1dfb_3905, 0], 0),
            (NearestEven, [0x2000_0200, 0x1fff_fc00, 0], 0x0080_0000),
            (Zero, [0x2000_0200, 0x1fff_fc00, 0], 0),
            (Down, [0x2000_0200, 0x1fff_fc00, 0], 0),
            (Up, [0x2000_0200, 0x1fff_fc00, 0], 0x0080_0000),
            (Down, [0x232b_8f7a, 0x1c3b_8d6c, 0x80be_d84a], 0x8080_0000),
        ];
        for (rounding, [a, b, c], expected) in rows {
            let mode = FloatMode { rounding, flush: true, ..FloatMode::NEAREST };
            assert_eq!(fma(a, b, c, mode), expected, "{rounding:?} {a:#x} * {b:#x} + {c:#x}");
            if c == 0 {
                assert_eq!(mul(a, b, mode), expected, "{rounding:?} {a:#x} * {b:#x}");
            }
        }
    }

    /// The straight-line forms give what the general ones give, which `tests/measured.rs` holds to
    /// a GPU, around the smallest normal number and at special values.
    #[test]
    fn straight_line_forms_agree_with_the_general_ones() {
        let mode = FloatMode { flush: true, ..FloatMode::NEAREST };
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let special =
            [0, 1, 0x007f_ffff, 0x0080_0000, 0x0080_0001, 0x3f80_0000, 0x3f7f_ffff, 0x7f80_0000, 0x7fc0_0001];
        let mut small = 0;
        for turn in 0..2_000_000 {
            // Factors whose product is about 2^-126, down to subnormal factors and up to NaN.
            let exponent = random() % 256;
            let sign = random() & 0x8000_0000;
            let a = sign | exponent << 23 | random() >> 9;
            let b = (128 + 255 - exponent).saturating_sub(126 + 128 - random() % 3) << 23 | random() >> 9;
            let near = f32::from_bits(a) * f32::from_bits(b);
            let c = match turn % 4 {
                0 => 0,
                1 => special[turn % special.len()] | random() & 0x8000_0000,
                2 => (-near + f32::MIN_POSITIVE).to_bits(),
                _ => random() >> 8 | random() & 0x8000_0000,
            };
            let [a, b] = match turn % 5 {
                0 => [special[random() as usize % special.len()], b],
                1 => [a, special[random() as usize % special.len()]],
                2 => [0x3f7f_ffff ^ sign, 0x0080_0000 | random() & 3],
                _ => [a, b],
            };
            let expected = fma(a, b, c, mode);
            assert_eq!(fma_flushed(a, b, c), expected, "{a:#x} * {b:#x} + {c:#x}");
            assert_eq!(mul_flushed(a, b), mul(a, b, mode), "{a:#x} * {b:#x}");
            let rounded = fma(a, b, c, FloatMode::NEAREST) & 0x7fff_ffff;
            small += u32::from(rounded == 0x0080_0000 && expected & 0x7fff_ffff == 0);
        }
        assert!(small > 100, "{small} sums that f32 rounds up to the smallest normal number are flushed");
    }
}
