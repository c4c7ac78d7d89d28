//! `cvt`: PTX ISA, "Data Movement and Conversion Instructions: cvt" and "cvt.pack".
//!
//! One function serves every pair of types. A floating source becomes an exact f64 (a 64-bit
//! integer one rounded to odd, which is as good for any narrower target), and is rounded once into
//! the target.

use super::format::{Format, power_of_two};
use super::{Rounding, double};

/// A type that `cvt` reads or writes, one element of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// An integer of 8, 16, 32 or 64 bits.
    Integer {
        /// Bits.
        width: u32,
        /// Two's complement or unsigned.
        signed: bool,
    },
    /// `.f16`
    F16,
    /// `.bf16`
    Bf16,
    /// `.tf32`, in the top 19 bits of 32
    Tf32,
    /// `.f32`
    F32,
    /// `.f64`
    F64,
    /// `.e4m3`
    E4m3,
    /// `.e5m2`
    E5m2,
    /// `.e2m3`
    E2m3,
    /// `.e3m2`
    E3m2,
    /// `.e2m1`
    E2m1,
    /// `.ue8m0`: a power of two, without a sign.
    Ue8m0,
}

impl Scalar {
    /// Whether it is a floating type.
    pub fn is_float(self) -> bool {
        !matches!(self, Scalar::Integer { .. })
    }

    /// The layout of a floating type of at most 32 bits.
    #[inline(always)]
    fn format(self) -> Option<Format> {
        Some(match self {
            Scalar::F16 => Format::F16,
            Scalar::Bf16 => Format::BF16,
            Scalar::Tf32 => Format::TF32,
            Scalar::F32 => Format::F32,
            Scalar::E4m3 => Format::E4M3,
            Scalar::E5m2 => Format::E5M2,
            Scalar::E2m3 => Format::E2M3,
            Scalar::E3m2 => Format::E3M2,
            Scalar::E2m1 => Format::E2M1,
            Scalar::F64 | Scalar::Ue8m0 | Scalar::Integer { .. } => return None,
        })
    }

    /// Bits from one element of a pair to the next: those of 6 bits have a byte each.
    fn stride(self) -> u32 {
        match self.format().map_or(8, Format::width) {
            6 => 8,
            width => width,
        }
    }
}

/// The modifiers of `cvt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConvertMode {
    /// The rounding, of whichever kind the instruction names.
    pub rounding: Rounding,
    /// `.rni`, `.rzi`, `.rmi`, `.rpi`: round to an integral value.
    pub integral: bool,
    /// `.ftz`: subnormal f32 inputs and results become zero.
    pub flush: bool,
    /// `.sat`: clamp to the target's range, or to [0, 1] for a floating one.
    pub saturate: bool,
    /// `.satfinite`: a result past the largest finite number becomes that number.
    pub finite: bool,
    /// `.relu`: a negative result becomes +0.
    pub relu: bool,
}

/// `cvt.to.from` of one element. Source bits above its width are ignored, result bits above the
/// target's are zero; extending a narrow integer into a wider register is the caller's.
#[inline(always)]
pub fn convert(bits: u64, from: Scalar, to: Scalar, mode: ConvertMode) -> u64 {
    match (from, to) {
        (Scalar::Integer { width, signed }, Scalar::Integer { width: to_width, signed: to_signed }) => {
            integer_to_integer(extend(bits, width, signed), to_width, to_signed, mode.saturate)
        }
        (Scalar::Integer { width, signed }, _) => integer_to_float(extend(bits, width, signed), to, mode),
        (_, Scalar::Integer { width, signed }) => {
            let wide_nan = from == Scalar::F64 || width == 64;
            float_to_integer(widen(bits, from, mode), width, signed, wide_nan, mode.rounding)
        }
        _ => float_to_float(bits, from, to, mode),
    }
}

#[inline(always)]
fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

#[inline(always)]
fn extend(bits: u64, width: u32, signed: bool) -> i128 {
    let low = bits & mask(width);
    if signed { i128::from((low << (64 - width)) as i64 >> (64 - width)) } else { i128::from(low) }
}

#[inline(always)]
fn limits(width: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

#[inline(always)]
fn integer_to_integer(value: i128, width: u32, signed: bool, saturate: bool) -> u64 {
    let (low, high) = limits(width, signed);
    let value = if saturate { value.clamp(low, high) } else { value };
    value as u64 & mask(width)
}

#[inline(always)]
fn integer_to_float(value: i128, to: Scalar, mode: ConvertMode) -> u64 {
    let negative = value < 0;
    let magnitude = value.unsigned_abs() as u64;
    // An integer of up to 64 bits, split where both parts are exact in f64.
    let high = (magnitude >> 32) as f64 * 4_294_967_296.0;
    let low = (magnitude & 0xffff_ffff) as f64;
    let signed = |x: f64| if negative { -x } else { x };
    match to.format() {
        Some(format) => {
            let exact = signed(super::format::add_odd(high, low));
            finish(exact, format, to, mode)
        }
        None => {
            let rounding = super::FloatMode::rounding(mode.rounding);
            let sum = double::add(signed(high).to_bits(), signed(low).to_bits(), rounding);
            // Zero has no sign as an integer.
            let sum = if magnitude == 0 { 0 } else { sum };
            if mode.saturate { saturate_f64(sum) } else { sum }
        }
    }
}

/// The exact value of a floating source.
#[inline(always)]
fn widen(bits: u64, from: Scalar, mode: ConvertMode) -> f64 {
    match from {
        Scalar::F64 => f64::from_bits(bits),
        Scalar::Ue8m0 if bits & 0xff == UE8M0_NAN => f64::NAN,
        Scalar::Ue8m0 => power_of_two((bits & 0xff) as i32 - UE8M0_BIAS),
        Scalar::F32 => {
            let bits = bits as u32;
            f64::from(f32::from_bits(if mode.flush { super::single::flush(bits) } else { bits }))
        }
        Scalar::Tf32 => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
        _ => {
            from.format().map_or(f64::NAN, |format| format.decode(bits as u32 & mask(format.width()) as u32))
        }
    }
}

/// Rounds to an integral value.
#[inline(always)]
fn to_integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::NearestEven => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

#[inline(always)]
fn float_to_integer(value: f64, width: u32, signed: bool, wide_nan: bool, rounding: Rounding) -> u64 {
    if value.is_nan() {
        return if wide_nan { 1 << (width - 1) } else { 0 };
    }
    let (low, high) = limits(width, signed);
    // `as` clamps, as the hardware does with or without `.sat`.
    (to_integral(value, rounding) as i128).clamp(low, high) as u64 & mask(width)
}

#[inline(always)]
fn float_to_float(bits: u64, from: Scalar, to: Scalar, mode: ConvertMode) -> u64 {
    // `.ftz` flushes no input of a conversion to f16: rounded up, the smallest subnormal is the
    // smallest f16 (measured on H200).
    let flush = mode.flush && to != Scalar::F16;
    let mode = ConvertMode { flush, ..mode };
    let value = widen(bits, from, mode);
    if to == Scalar::Ue8m0 {
        return power(value.abs(), mode);
    }
    let value = if mode.integral { to_integral(value, mode.rounding) } else { value };
    if value.is_nan()
        && let Some(nan) = kept_nan(bits, from, to, mode)
    {
        return nan;
    }
    match to.format() {
        Some(format) => finish(value, format, to, mode),
        None => {
            let wide = value.to_bits();
            if mode.saturate { saturate_f64(wide) } else { wide }
        }
    }
}

const UE8M0_NAN: u64 = 0xff;
const UE8M0_BIAS: i32 = 127;

/// The ue8m0 of a magnitude. It has no zero: what is less than its least power becomes that.
fn power(magnitude: f64, mode: ConvertMode) -> u64 {
    if magnitude.is_nan() {
        return UE8M0_NAN;
    }
    if magnitude <= power_of_two(-UE8M0_BIAS) {
        return 0;
    }
    let bits = magnitude.to_bits();
    let is_power = bits << 12 == 0;
    let exponent = (bits >> 52) + u64::from(mode.rounding == Rounding::Up && !is_power);
    let biased = exponent - (1023 - UE8M0_BIAS as u64);
    let largest = UE8M0_NAN - 1;
    if biased <= largest {
        biased
    } else if mode.finite {
        largest
    } else {
        UE8M0_NAN
    }
}

/// One unit in the last place of a tf32, at its position in the register.
const TF32_UNIT: u64 = 1 << 13;

/// The NaN that a conversion from or to f64, from bf16, to tf32 by `.rna`, or to its own type makes of
/// another; all others make their target's canonical NaN (measured on H200 and H100).
#[inline(always)]
fn kept_nan(bits: u64, from: Scalar, to: Scalar, mode: ConvertMode) -> Option<u64> {
    if mode.saturate {
        return None;
    }
    match (from, to) {
        (Scalar::F32, Scalar::Tf32) if mode.rounding == Rounding::NearestAway => {
            let cut = bits & !(TF32_UNIT - 1);
            Some(if mode.finite { cut - TF32_UNIT } else { cut })
        }
        // A shift; with `.ftz` an instruction that makes NaN canonical.
        (Scalar::Bf16, Scalar::F32) if !mode.flush => Some((bits & 0xffff) << 16),
        // A move.
        (Scalar::F32, Scalar::F32) if !mode.flush && !mode.integral => Some(bits & 0xffff_ffff),
        (Scalar::F64, Scalar::F64) if !mode.integral => Some(bits),
        (Scalar::F64, Scalar::F64) => Some(bits | 1 << 51),
        (Scalar::F32, Scalar::F64) if mode.flush => Some(CANONICAL_F32_AS_F64),
        (_, Scalar::F64) => {
            let (width, fraction_bits) = match from {
                Scalar::F16 => (16, 10),
                Scalar::Bf16 => (16, 7),
                Scalar::F32 => (32, 23),
                _ => return Some(CANONICAL_F32_AS_F64),
            };
            let payload = bits & mask(fraction_bits);
            Some((bits >> (width - 1) & 1) << 63 | 0x7ff8 << 48 | payload << (52 - fraction_bits))
        }
        (Scalar::F64, Scalar::F16 | Scalar::Bf16 | Scalar::F32) => {
            let format = to.format()?;
            let payload = bits >> (52 - format.fraction_bits) & mask(format.fraction_bits);
            let quiet = 1 << (format.fraction_bits - 1);
            let exponent = u64::from(format.largest()) + 1;
            Some(bits >> 63 << (format.width() - 1) | exponent | quiet | payload)
        }
        _ => None,
    }
}

/// The canonical NaN of f32, converted to f64.
const CANONICAL_F32_AS_F64: u64 = 0x7fff_ffff_e000_0000;

#[inline(always)]
fn saturate_f64(bits: u64) -> u64 {
    let value = f64::from_bits(bits);
    if value > 0.0 { value.min(1.0).to_bits() } else { 0 }
}

#[inline(always)]
fn finish(value: f64, format: Format, to: Scalar, mode: ConvertMode) -> u64 {
    // The comparisons are false for NaN, which saturates to +0.
    let value = match mode.saturate {
        true if value > 0.0 => value.min(1.0),
        true => 0.0,
        false => value,
    };
    let encoded = format.encode(value, mode.rounding, mode.finite);
    let is_flushed = mode.flush && to == Scalar::F32 && format.rounds_to_subnormal(value, mode.rounding);
    let encoded = if is_flushed { encoded & 1 << 31 } else { encoded };
    let negative = encoded >> (format.width() - 1) & 1 == 1;
    let encoded = if mode.relu && negative { 0 } else { encoded };
    u64::from(if to == Scalar::Tf32 { encoded << 13 } else { encoded })
}

/// `cvt.x2`: converts `high` and `low` (the first and the second source of the instruction) and
/// packs them.
#[inline(always)]
pub fn convert_pair(high: u64, low: u64, from: Scalar, to: Scalar, mode: ConvertMode) -> u64 {
    convert(high, from, to, mode) << to.stride() | convert(low, from, to, mode)
}

/// `cvt.rs` of two f32, packed. `random` has the random bits: 16 for both, which `high` reads in
/// reverse (measured for e4m3 on sm_100a by torchao), or for f16 and bf16 as many as the conversion
/// drops, in the upper half for `high` and in the lower one for `low`.
pub fn convert_randomly(high: u32, low: u32, random: u32, to: Scalar, mode: ConvertMode) -> u64 {
    let Some(format) = to.format() else { return 0 };
    let width = if to == Scalar::F16 { 13 } else { 16 };
    let one = |bits: u32, random: u32| {
        let random = f64::from(random & ((1 << width) - 1)) / f64::from(1 << width);
        let encoded = format.encode_randomly(f64::from(f32::from_bits(bits)), random, mode.finite);
        let is_negative = encoded >> (format.width() - 1) & 1 == 1;
        u64::from(if mode.relu && is_negative { 0 } else { encoded })
    };
    let of_high = if format.width() == 16 { random >> 16 } else { u32::from((random as u16).reverse_bits()) };
    one(high, of_high) << to.stride() | one(low, random)
}

/// `cvt.pack.sat`: `a` and `b`, clamped to `width` bits and packed with `b` lowest; `c`, shifted up
/// by both, above.
#[inline(always)]
pub fn pack(a: u32, b: u32, c: u32, width: u32, signed: bool) -> u32 {
    let clamp = |x: u32| integer_to_integer(i128::from(x as i32), width, signed, true);
    let pair = clamp(a) << width | clamp(b);
    (pair | u64::from(c) << (2 * width)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an H100 gives (driver 580.159.04).
    #[test]
    fn ftz_flushes_what_is_subnormal_when_rounded_to_24_bits() {
        use Rounding::{Down, NearestEven, Up, Zero};
        const LEAST: u64 = 0x3810_0000_0000_0000;
        let rows = [
            // Rounded up to the least normal f32, and flushed.
            (NearestEven, 0x380f_ffff_e000_0000, 0),
            (NearestEven, 0x380f_ffff_efff_ffff, 0),
            (NearestEven, 0x380f_ffff_f000_0000, 0x0080_0000),
            (NearestEven, LEAST, 0x0080_0000),
            (Up, 0x380f_ffff_e000_0000, 0),
            (Up, 0x380f_ffff_e000_0001, 0x0080_0000),
            (Up, (LEAST - 1) | (1 << 63), 0x8000_0000),
            (Down, LEAST - 1, 0),
            (Down, 0x380f_ffff_e000_0001 | 1 << 63, 0x8080_0000),
            (Zero, LEAST - 1, 0),
            (Zero, LEAST | 1 << 63, 0x8080_0000),
        ];
        for (rounding, bits, expected) in rows {
            for saturate in [false, true] {
                let mode = ConvertMode { rounding, flush: true, saturate, ..ConvertMode::default() };
                let expected = if saturate && expected >> 31 == 1 { 0 } else { expected };
                let found = convert(bits, Scalar::F64, Scalar::F32, mode);
                assert_eq!(found, expected, "{rounding:?} {bits:#x} {saturate}");
            }
        }
    }

    /// What an H100 gives (driver 580.159.04).
    #[test]
    fn a_move_keeps_a_nan_and_ftz_makes_it_canonical() {
        let plain = ConvertMode::default();
        let flush = ConvertMode { flush: true, ..plain };
        assert_eq!(convert(0xff80_0005, Scalar::F32, Scalar::F32, plain), 0xff80_0005);
        assert_eq!(convert(0xff80_0005, Scalar::F32, Scalar::F32, flush), 0x7fff_ffff);
        assert_eq!(convert(0xfff0_0000_0000_0005, Scalar::F64, Scalar::F64, plain), 0xfff0_0000_0000_0005);
        assert_eq!(convert(0xffff, Scalar::Bf16, Scalar::F32, plain), 0xffff_0000);
        assert_eq!(convert(0xffff, Scalar::Bf16, Scalar::F32, flush), 0x7fff_ffff);
        assert_eq!(convert(0x0001, Scalar::Bf16, Scalar::F32, flush), 0);
    }
}
