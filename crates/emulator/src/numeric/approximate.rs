//! Approximate functions: PTX ISA, "Floating Point Instructions", the `.approx` and `.full` forms.
//!
//! The hardware interpolates tables; PTX documents only the error. Results here are the f64
//! function rounded once, well within it, with the documented values at the special points.

use super::format::Format;
use super::single::{canonical, flush, narrow};
use super::{Rounding, half};

#[inline(always)]
fn apply(bits: u32, ftz: bool, function: impl Fn(f64) -> f64) -> u32 {
    let input = if ftz { flush(bits) } else { bits };
    let result = canonical(function(f64::from(f32::from_bits(input))) as f32);
    if ftz { flush(result) } else { result }
}

/// `div.approx.f32`: for a divisor past 2^126 the quotient is zero, or NaN for an infinite
/// dividend.
#[inline(always)]
pub fn div(a: u32, b: u32, ftz: bool) -> u32 {
    let flushed = |x: u32| if ftz { flush(x) } else { x };
    let (x, y) = (f32::from_bits(flushed(a)), f32::from_bits(flushed(b)));
    let huge = y.abs() > 2f32.powi(126) && y.is_finite();
    let quotient = if huge { x * 0.0f32.copysign(y) } else { x / y };
    flushed(canonical(quotient))
}

/// `div.full.f32`: two ulp, any divisor.
#[inline(always)]
pub fn div_full(a: u32, b: u32, ftz: bool) -> u32 {
    let flushed = |x: u32| if ftz { flush(x) } else { x };
    flushed(canonical(f32::from_bits(flushed(a)) / f32::from_bits(flushed(b))))
}

/// `rcp.approx.f32`
#[inline(always)]
pub fn rcp(a: u32, ftz: bool) -> u32 {
    apply(a, ftz, |x| 1.0 / x)
}

/// `sqrt.approx.f32`
#[inline(always)]
pub fn sqrt(a: u32, ftz: bool) -> u32 {
    apply(a, ftz, f64::sqrt)
}

/// `rsqrt.approx.f32`
#[inline(always)]
pub fn rsqrt(a: u32, ftz: bool) -> u32 {
    apply(a, ftz, |x| 1.0 / x.sqrt())
}

/// The angle within a turn. It is first reduced to turns in f32, truncated, without subnormals, as
/// the hardware does, so large angles have the hardware's error (measured on H200).
#[inline(always)]
fn turns(a: u32) -> f64 {
    let product = f64::from(f32::from_bits(a)) * f64::from(std::f32::consts::FRAC_1_PI * 0.5);
    let turns = f64::from(f32::from_bits(flush(narrow(product, Rounding::Zero).to_bits())));
    // A zero keeps its sign, which the difference of two zeros has lost.
    let fraction = if turns == 0.0 { turns } else { turns - turns.trunc() };
    fraction * std::f64::consts::TAU
}

/// `sin.approx.f32`
#[inline(always)]
pub fn sin(a: u32, ftz: bool) -> u32 {
    let result = canonical(turns(a).sin() as f32);
    if ftz { flush(result) } else { result }
}

/// `cos.approx.f32`
#[inline(always)]
pub fn cos(a: u32, ftz: bool) -> u32 {
    let result = canonical(turns(a).cos() as f32);
    if ftz { flush(result) } else { result }
}

/// `lg2.approx.f32`
#[inline(always)]
pub fn lg2(a: u32, ftz: bool) -> u32 {
    apply(a, ftz, f64::log2)
}

/// `ex2.approx.f32`
#[inline(always)]
pub fn ex2(a: u32, ftz: bool) -> u32 {
    apply(a, ftz, f64::exp2)
}

/// `tanh.approx.f32`
#[inline(always)]
pub fn tanh(a: u32) -> u32 {
    apply(a, false, f64::tanh)
}

/// `ex2.approx` of f16 or bf16.
#[inline(always)]
pub fn ex2_half(format: Format, a: u16, ftz: bool) -> u16 {
    apply_half(format, a, ftz, f64::exp2)
}

/// `tanh.approx` of f16 or bf16.
#[inline(always)]
pub fn tanh_half(format: Format, a: u16) -> u16 {
    apply_half(format, a, false, f64::tanh)
}

#[inline(always)]
fn apply_half(format: Format, bits: u16, ftz: bool, function: impl Fn(f64) -> f64) -> u16 {
    let flushed = |x: u16| if ftz { half::flush(format, x) } else { x };
    let value = function(format.decode(u32::from(flushed(bits))));
    flushed(format.encode(value, Rounding::NearestEven, false) as u16)
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.f64` keep the top 32 bits of the result; the low word is
/// zero.
#[inline(always)]
fn high_word(value: f64) -> u64 {
    if value.is_nan() { 0x7fff_ffff_0000_0000 } else { value.to_bits() & 0xffff_ffff_0000_0000 }
}

#[inline(always)]
fn flush_f64(bits: u64) -> f64 {
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & (1 << 63) } else { bits })
}

/// `rcp.approx.ftz.f64`: of the operand's top 32 bits.
#[inline(always)]
pub fn rcp_f64(a: u64) -> u64 {
    let result = high_word(1.0 / flush_f64(a & 0xffff_ffff_0000_0000));
    flush_f64(result).to_bits()
}

/// `rsqrt.approx.f64`, and with `ftz` `rsqrt.approx.ftz.f64`, which reads only the operand's top 32
/// bits.
#[inline(always)]
pub fn rsqrt_f64(a: u64, ftz: bool) -> u64 {
    if ftz {
        return high_word(1.0 / flush_f64(a & 0xffff_ffff_0000_0000).sqrt());
    }
    let result = 1.0 / f64::from_bits(a).sqrt();
    if result.is_nan() { super::double::DEFAULT_NAN } else { result.to_bits() }
}
