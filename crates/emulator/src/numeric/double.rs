//! f64 arithmetic: PTX ISA, "Floating Point Instructions".
//!
//! Nearest-even results are the host's own. Directed ones are computed on 128-bit significands,
//! with a sticky last bit. f64 operations keep the payload of a NaN operand: of two, sums and
//! products keep the second's, the others the first's (measured on H200).

use super::{FloatMode, Rounding};

/// The NaN of an invalid f64 operation, such as infinity minus infinity.
pub const DEFAULT_NAN: u64 = 0xfff8_0000_0000_0000;
const SIGN: u64 = 1 << 63;
const QUIET: u64 = 1 << 51;
const INFINITY: u64 = 0x7ff0_0000_0000_0000;

#[inline(always)]
fn is_nan(bits: u64) -> bool {
    bits & !SIGN > INFINITY
}

/// The first NaN of `operands`, made quiet; `result` if none is NaN, or the default NaN if `result`
/// is NaN.
#[inline(always)]
fn propagate<const N: usize>(operands: [u64; N], result: u64) -> u64 {
    for operand in operands {
        if is_nan(operand) {
            return operand | QUIET;
        }
    }
    if is_nan(result) { DEFAULT_NAN } else { result }
}

/// A finite number other than zero: `significand * 2^exponent`, the significand's top bit at
/// [`Self::TOP`].
#[derive(Clone, Copy)]
struct Unpacked {
    negative: bool,
    exponent: i32,
    significand: u128,
}

impl Unpacked {
    /// Room for a carry above it.
    const TOP: u32 = 125;

    fn of(bits: u64) -> Unpacked {
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = u128::from(bits & ((1 << 52) - 1));
        let (exponent, significand) =
            if field == 0 { (-1074, fraction) } else { (field - 1075, fraction | 1 << 52) };
        Unpacked { negative: bits & SIGN != 0, exponent, significand }.normalized()
    }

    fn normalized(self) -> Unpacked {
        let top = 127 - self.significand.leading_zeros() as i32;
        let shift = Self::TOP as i32 - top;
        let significand = if shift >= 0 {
            self.significand << shift
        } else {
            shift_right_sticky(self.significand, (-shift) as u32)
        };
        Unpacked { exponent: self.exponent - shift, significand, ..self }
    }

    /// `self + other`, or `None` if they cancel.
    fn plus(self, other: Unpacked) -> Option<Unpacked> {
        let (large, small) = if (self.exponent, self.significand) >= (other.exponent, other.significand) {
            (self, other)
        } else {
            (other, self)
        };
        let aligned = shift_right_sticky(small.significand, (large.exponent - small.exponent) as u32);
        let significand = if large.negative == small.negative {
            large.significand + aligned
        } else {
            large.significand - aligned
        };
        (significand != 0).then(|| Unpacked { significand, ..large }.normalized())
    }

    fn times(self, other: Unpacked) -> Unpacked {
        // Both hold 53 bits at most, so their product holds 106.
        let drop = Self::TOP - 52;
        Unpacked {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent + 2 * drop as i32,
            significand: (self.significand >> drop) * (other.significand >> drop),
        }
        .normalized()
    }

    fn round(self, rounding: Rounding) -> u64 {
        // The exponent of the last bit that can be kept: 53 bits, or down to the smallest
        // subnormal.
        let last = (self.exponent + Self::TOP as i32 - 52).max(-1074);
        let shift = (last - self.exponent).min(127) as u32;
        let kept = (self.significand >> shift) as u64;
        let lost = self.significand & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        let up = match rounding {
            Rounding::NearestEven => lost > half || (lost == half && kept & 1 == 1),
            Rounding::NearestAway => lost >= half,
            Rounding::Zero => false,
            Rounding::Down => self.negative && lost != 0,
            Rounding::Up => !self.negative && lost != 0,
        };
        let rounded = kept + u64::from(up);
        let magnitude = (((last + 1074) as u64) << 52) + rounded;
        let to_infinity = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => self.negative,
            Rounding::Up => !self.negative,
        };
        let magnitude = if magnitude < INFINITY { magnitude } else { INFINITY - u64::from(!to_infinity) };
        (u64::from(self.negative) << 63) | magnitude
    }
}

/// Shifts right; any one bit that falls off sets the last bit of the result.
fn shift_right_sticky(value: u128, shift: u32) -> u128 {
    if shift > 127 {
        return u128::from(value != 0);
    }
    (value >> shift) | u128::from(value & ((1 << shift) - 1) != 0)
}

fn is_zero(bits: u64) -> bool {
    bits & !SIGN == 0
}

fn is_finite(bits: u64) -> bool {
    bits & !SIGN < INFINITY
}

/// The sign of an exact zero sum of terms with these signs (IEEE 754, 6.3).
fn zero_sum(a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Down { (a | b) & SIGN } else { a & b & SIGN }
}

fn add_directed(a: u64, b: u64, rounding: Rounding) -> u64 {
    match (is_zero(a), is_zero(b)) {
        (true, true) => zero_sum(a, b, rounding),
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            Unpacked::of(a).plus(Unpacked::of(b)).map_or(zero_sum(a, b, rounding), |sum| sum.round(rounding))
        }
    }
}

fn fma_directed(a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
    let sign = (a ^ b) & SIGN;
    if is_zero(a) || is_zero(b) {
        return if is_zero(c) { zero_sum(sign, c, rounding) } else { c };
    }
    let product = Unpacked::of(a).times(Unpacked::of(b));
    if is_zero(c) {
        return product.round(rounding);
    }
    product.plus(Unpacked::of(c)).map_or(zero_sum(sign, c, rounding), |sum| sum.round(rounding))
}

/// `add.f64`
#[inline(always)]
pub fn add(a: u64, b: u64, mode: FloatMode) -> u64 {
    let nearest = (f64::from_bits(a) + f64::from_bits(b)).to_bits();
    let directed = mode.rounding != Rounding::NearestEven && is_finite(a) && is_finite(b);
    propagate([b, a], if directed { add_directed(a, b, mode.rounding) } else { nearest })
}

/// `sub.f64`
#[inline(always)]
pub fn sub(a: u64, b: u64, mode: FloatMode) -> u64 {
    add(a, if is_nan(b) { b } else { b ^ SIGN }, mode)
}

/// `mul.f64`
#[inline(always)]
pub fn mul(a: u64, b: u64, mode: FloatMode) -> u64 {
    let nearest = (f64::from_bits(a) * f64::from_bits(b)).to_bits();
    let directed =
        mode.rounding != Rounding::NearestEven && [a, b].iter().all(|&x| is_finite(x) && !is_zero(x));
    let result = if directed { Unpacked::of(a).times(Unpacked::of(b)).round(mode.rounding) } else { nearest };
    propagate([b, a], result)
}

/// `fma.f64`
#[inline(always)]
pub fn fma(a: u64, b: u64, c: u64, mode: FloatMode) -> u64 {
    let directed = mode.rounding != Rounding::NearestEven && [a, b, c].iter().all(|&x| is_finite(x));
    let result = if directed {
        fma_directed(a, b, c, mode.rounding)
    } else {
        f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()
    };
    propagate([a, b, c], result)
}

/// `div.f64`
pub fn div(a: u64, b: u64, mode: FloatMode) -> u64 {
    let nearest = (f64::from_bits(a) / f64::from_bits(b)).to_bits();
    let directed =
        mode.rounding != Rounding::NearestEven && [a, b].iter().all(|&x| is_finite(x) && !is_zero(x));
    propagate([a, b], if directed { div_directed(a, b, mode.rounding) } else { nearest })
}

fn div_directed(a: u64, b: u64, rounding: Rounding) -> u64 {
    let (a, b) = (Unpacked::of(a), Unpacked::of(b));
    let divisor = b.significand >> (Unpacked::TOP - 52);
    let (quotient, remainder) = (a.significand / divisor, a.significand % divisor);
    Unpacked {
        negative: a.negative != b.negative,
        exponent: a.exponent - b.exponent - (Unpacked::TOP - 52) as i32,
        significand: quotient,
    }
    .normalized_with_rest(remainder != 0)
    .round(rounding)
}

impl Unpacked {
    /// Normalizes, and remembers that a part below the last bit was cut off. The significand must
    /// be well short of full, so that the bits shifted in make room for it.
    fn normalized_with_rest(self, rest: bool) -> Unpacked {
        let normal = self.normalized();
        Unpacked { significand: normal.significand | u128::from(rest), ..normal }
    }
}

/// `rcp.f64`
pub fn rcp(a: u64, mode: FloatMode) -> u64 {
    div(1.0f64.to_bits(), a, mode)
}

/// `sqrt.f64`
pub fn sqrt(a: u64, mode: FloatMode) -> u64 {
    let nearest = f64::from_bits(a).sqrt().to_bits();
    let directed = mode.rounding != Rounding::NearestEven && is_finite(a) && !is_zero(a) && a & SIGN == 0;
    propagate([a], if directed { sqrt_directed(a, mode.rounding) } else { nearest })
}

fn sqrt_directed(a: u64, rounding: Rounding) -> u64 {
    let a = Unpacked::of(a);
    // An even exponent halves exactly; 125 or 126 bits of radicand give 63 bits of root.
    let (exponent, radicand) =
        if a.exponent % 2 == 0 { (a.exponent, a.significand) } else { (a.exponent - 1, a.significand << 1) };
    let root = radicand.isqrt();
    Unpacked { negative: false, exponent: exponent / 2, significand: root }
        .normalized_with_rest(root * root != radicand)
        .round(rounding)
}
