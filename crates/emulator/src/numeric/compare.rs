//! Comparisons, minimum, maximum and sign operations of the floating types, on f64 values or raw
//! bits.
//!
//! Every format's values are exact in f64, so one comparison serves all; the operations that return
//! an operand work on the format's own bits.

use super::format::Format;

/// The comparison of `setp` and `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `.eq`
    Equal,
    /// `.ne`
    NotEqual,
    /// `.lt`, and `.lo` of unsigned integers
    Less,
    /// `.le`, and `.ls`
    LessEqual,
    /// `.gt`, and `.hi`
    Greater,
    /// `.ge`, and `.hs`
    GreaterEqual,
    /// `.equ`: equal or unordered
    EqualUnordered,
    /// `.neu`
    NotEqualUnordered,
    /// `.ltu`
    LessUnordered,
    /// `.leu`
    LessEqualUnordered,
    /// `.gtu`
    GreaterUnordered,
    /// `.geu`
    GreaterEqualUnordered,
    /// `.num`: neither is NaN
    Ordered,
    /// `.nan`: one is NaN
    Unordered,
}

impl Comparison {
    /// Compares two values; for floats these are f32 or f64, for integers any integer type.
    #[inline(always)]
    pub fn test<T: PartialOrd>(self, a: T, b: T) -> bool {
        let unordered = a.partial_cmp(&b).is_none();
        match self {
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b && !unordered,
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterEqual => a >= b,
            Comparison::EqualUnordered => a == b || unordered,
            Comparison::NotEqualUnordered => a != b,
            Comparison::LessUnordered => a < b || unordered,
            Comparison::LessEqualUnordered => a <= b || unordered,
            Comparison::GreaterUnordered => a > b || unordered,
            Comparison::GreaterEqualUnordered => a >= b || unordered,
            Comparison::Ordered => !unordered,
            Comparison::Unordered => unordered,
        }
    }
}

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtremumMode {
    /// `max` rather than `min`.
    pub maximum: bool,
    /// `.ftz`
    pub flush: bool,
    /// `.NaN`: the result is NaN if either operand is; otherwise the operand that is a number wins.
    pub nan: bool,
    /// `.xorsign.abs`: of the magnitudes, with the product of the signs.
    pub xor_sign: bool,
}

/// `min` and `max` of f32, f16 or bf16 bits. -0 is less than +0.
#[inline(always)]
pub fn extremum(format: Format, a: u32, b: u32, mode: ExtremumMode) -> u32 {
    let sign = 1u32 << (format.width() - 1);
    let infinity = ((1u32 << format.exponent_bits) - 1) << format.fraction_bits;
    let flushed = |x: u32| if mode.flush && x & infinity == 0 { x & sign } else { x };
    let (a, b) = (flushed(a), flushed(b));
    let product = (a ^ b) & sign;
    let (a, b) = if mode.xor_sign { (a & !sign, b & !sign) } else { (a, b) };
    let (a_nan, b_nan) = ((a & !sign) > infinity, (b & !sign) > infinity);
    if a_nan && b_nan || mode.nan && (a_nan || b_nan) {
        return format.nan;
    }
    // As two's complement, sign and magnitude compare as the numbers do, and -0 below +0.
    let order = |x: u32| if x & sign != 0 { -1 - i64::from(x & !sign) } else { i64::from(x) };
    let a_wins = !a_nan && (b_nan || (order(a) > order(b)) == mode.maximum);
    let winner = if a_wins { a } else { b };
    if mode.xor_sign { winner & !sign | product } else { winner }
}

/// `min.f64` and `max.f64`, which have no modifiers. Of two NaNs the second is returned, made
/// quiet.
#[inline(always)]
pub fn extremum_f64(a: u64, b: u64, maximum: bool) -> u64 {
    const SIGN: u64 = 1 << 63;
    let nan = |x: u64| f64::from_bits(x).is_nan();
    if nan(a) && nan(b) {
        return b | 1 << 51;
    }
    let order = |x: u64| if x & SIGN != 0 { -1 - (x & !SIGN) as i64 } else { x as i64 };
    let a_wins = !nan(a) && (nan(b) || (order(a) > order(b)) == maximum);
    if a_wins { a } else { b }
}

/// The class that `testp` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `.finite`: neither infinite nor NaN
    Finite,
    /// `.infinite`
    Infinite,
    /// `.number`: not NaN
    Number,
    /// `.notanumber`
    NotANumber,
    /// `.normal`: neither subnormal, infinite nor NaN. Zero is normal (measured on H200).
    Normal,
    /// `.subnormal`
    Subnormal,
}

impl Class {
    /// `testp.f32`
    #[inline(always)]
    pub fn test_f32(self, bits: u32) -> bool {
        self.of(f32::from_bits(bits).classify())
    }

    /// `testp.f64`
    #[inline(always)]
    pub fn test_f64(self, bits: u64) -> bool {
        self.of(f64::from_bits(bits).classify())
    }

    fn of(self, category: std::num::FpCategory) -> bool {
        use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
        match self {
            Class::Finite => category != Infinite && category != Nan,
            Class::Infinite => category == Infinite,
            Class::Number => category != Nan,
            Class::NotANumber => category == Nan,
            Class::Normal => category == Normal || category == Zero,
            Class::Subnormal => category == Subnormal,
        }
    }
}

/// `abs` of f32: with `.ftz`, a subnormal becomes zero. A NaN becomes the canonical one.
#[inline(always)]
pub fn abs_f32(bits: u32, ftz: bool) -> u32 {
    sign_f32(bits, bits & 0x7fff_ffff, ftz)
}

/// `neg` of f32. A NaN becomes the canonical one.
#[inline(always)]
pub fn neg_f32(bits: u32, ftz: bool) -> u32 {
    sign_f32(bits, bits ^ 0x8000_0000, ftz)
}

#[inline(always)]
fn sign_f32(bits: u32, result: u32, ftz: bool) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return super::single::CANONICAL_NAN;
    }
    if ftz { super::single::flush(result) } else { result }
}

/// `abs` of f64. A NaN keeps its sign and becomes quiet.
#[inline(always)]
pub fn abs_f64(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { bits | 1 << 51 } else { bits & !(1 << 63) }
}

/// `neg` of f64. A NaN keeps its sign and becomes quiet.
#[inline(always)]
pub fn neg_f64(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { bits | 1 << 51 } else { bits ^ 1 << 63 }
}

/// `copysign.f32`: the magnitude of `b` with the sign of `a`.
#[inline(always)]
pub fn copysign_f32(a: u32, b: u32) -> u32 {
    a & 0x8000_0000 | b & 0x7fff_ffff
}

/// `copysign.f64`: the magnitude of `b` with the sign of `a`.
#[inline(always)]
pub fn copysign_f64(a: u64, b: u64) -> u64 {
    a & (1 << 63) | b & !(1 << 63)
}
