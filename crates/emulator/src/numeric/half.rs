//! f16 and bf16 arithmetic, alone and in pairs: PTX ISA, "Half Precision Floating Point
//! Instructions".
//!
//! One element is computed in f64, rounded to odd, and rounded once to 16 bits. NaN results are
//! 0x7fff.

use super::FloatMode;
use super::format::{Format, add_odd};

/// The NaN of every f16 and bf16 operation.
pub const CANONICAL_NAN: u16 = 0x7fff;

/// A subnormal becomes zero of its sign (`.ftz`).
#[inline(always)]
pub fn flush(format: Format, bits: u16) -> u16 {
    let exponent = ((1u16 << format.exponent_bits) - 1) << format.fraction_bits;
    if bits & exponent == 0 { bits & 0x8000 } else { bits }
}

#[inline(always)]
fn input(format: Format, bits: u16, mode: FloatMode) -> f64 {
    format.decode(u32::from(if mode.flush { flush(format, bits) } else { bits }))
}

#[inline(always)]
fn finish(format: Format, value: f64, mode: FloatMode) -> u16 {
    let value = match mode.saturate {
        true if value > 0.0 => value.min(1.0),
        true => 0.0,
        false => value,
    };
    let bits = format.encode(value, mode.rounding, false) as u16;
    let is_flushed = mode.flush && format.rounds_to_subnormal(value, mode.rounding);
    let bits = if is_flushed { bits & 0x8000 } else { bits };
    if mode.relu { relu(bits) } else { bits }
}

/// A negative number becomes +0; NaN stays (`.relu`).
#[inline(always)]
pub fn relu(bits: u16) -> u16 {
    if bits & 0x8000 != 0 { 0 } else { bits }
}

/// `abs`. A NaN becomes the canonical one.
#[inline(always)]
pub fn abs(format: Format, bits: u16, ftz: bool) -> u16 {
    sign(format, bits, bits & 0x7fff, ftz)
}

/// `neg`. A NaN becomes the canonical one.
#[inline(always)]
pub fn neg(format: Format, bits: u16, ftz: bool) -> u16 {
    sign(format, bits, bits ^ 0x8000, ftz)
}

#[inline(always)]
fn sign(format: Format, bits: u16, result: u16, ftz: bool) -> u16 {
    if u32::from(bits & 0x7fff) > format.largest() + 1 {
        return CANONICAL_NAN;
    }
    if ftz { flush(format, result) } else { result }
}

/// `add`
#[inline(always)]
pub fn add(format: Format, a: u16, b: u16, mode: FloatMode) -> u16 {
    // With f32's exponents, and 8 or 11 bits, the odd sum is needed only if the operands' exponents
    // are far apart.
    finish(format, add_odd(input(format, a, mode), input(format, b, mode)), mode)
}

/// `sub`
#[inline(always)]
pub fn sub(format: Format, a: u16, b: u16, mode: FloatMode) -> u16 {
    add(format, a, b ^ 0x8000, mode)
}

/// `mul`
#[inline(always)]
pub fn mul(format: Format, a: u16, b: u16, mode: FloatMode) -> u16 {
    finish(format, input(format, a, mode) * input(format, b, mode), mode)
}

/// `fma`
#[inline(always)]
pub fn fma(format: Format, a: u16, b: u16, c: u16, mode: FloatMode) -> u16 {
    let product = input(format, a, mode) * input(format, b, mode);
    finish(format, add_odd(product, input(format, c, mode)), mode)
}

/// `fma.rn.oob`: zero if an operand of the product is the out-of-bounds NaN 0xffff, which TMA and
/// `cp.async` fills may leave.
#[inline(always)]
pub fn fma_out_of_bounds(format: Format, a: u16, b: u16, c: u16, mode: FloatMode) -> u16 {
    if a == 0xffff || b == 0xffff { c } else { fma(format, a, b, c, mode) }
}

/// Applies a 16-bit operation to both halves of a pair.
#[inline(always)]
pub fn pair1(a: u32, operation: impl Fn(u16) -> u16) -> u32 {
    u32::from(operation(a as u16)) | u32::from(operation((a >> 16) as u16)) << 16
}

/// Applies a 16-bit operation to the halves of two pairs.
#[inline(always)]
pub fn pair2(a: u32, b: u32, operation: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(operation(a as u16, b as u16)) | u32::from(operation((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// Applies a 16-bit operation to the halves of three pairs.
#[inline(always)]
pub fn pair3(a: u32, b: u32, c: u32, operation: impl Fn(u16, u16, u16) -> u16) -> u32 {
    u32::from(operation(a as u16, b as u16, c as u16))
        | u32::from(operation((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16)) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an H200 gives (driver 580.159.04), which flushes a result that is subnormal once it is rounded
    /// to 11 bits with any exponent.
    #[test]
    fn ftz_flushes_what_rounds_to_a_subnormal() {
        let mode = FloatMode { flush: true, ..FloatMode::NEAREST };
        let rows = [
            ([0x387e, 0x071f], 0),
            ([0x10b9, 0x2ec6], 0),
            ([0x1e6f, 0xa0f9], 0x8000),
            ([0x1724, 0xa87b], 0x8400),
            ([0x3403, 0x8bfa], 0x8400),
        ];
        for ([a, b], expected) in rows {
            assert_eq!(mul(Format::F16, a, b, mode), expected, "{a:#x} * {b:#x}");
            assert_eq!(fma(Format::F16, a, b, 0, mode), expected, "{a:#x} * {b:#x} + 0");
        }
    }
}
