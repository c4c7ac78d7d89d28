//! Binary floating-point formats narrower than f64, as data; rounding a wider value into one.
//!
//! The wider value is an f64 *rounded to odd*: exact if it fits in f64, otherwise the neighbor
//! whose last bit is one. f64 has at least two bits more than twice any narrower format, so
//! rounding it again, in any mode, equals rounding the exact value once (Boldo and Melquiond,
//! "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
//! Every mode is therefore exact without changing the host's.

use super::Rounding;

/// The meaning of a format's largest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Infinities and NaNs, as in IEEE 754.
    Ieee,
    /// Finite numbers, except that all ones is NaN (e4m3).
    OneNan,
    /// Finite numbers only (e2m3, e3m2, e2m1).
    Finite,
}

/// A sign, an exponent and a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent_bits: u32,
    /// Bits of the fraction that are stored.
    pub fraction_bits: u32,
    /// The meaning of the largest exponent.
    pub specials: Specials,
    /// The NaN that operations and conversions produce; for [`Specials::Finite`], the value that
    /// replaces it.
    pub nan: u32,
}

impl Format {
    /// IEEE binary32.
    pub const F32: Format =
        Format { exponent_bits: 8, fraction_bits: 23, specials: Specials::Ieee, nan: 0x7fff_ffff };
    /// tf32, right-aligned in 19 bits; in a register its 13 low bits are zero.
    pub const TF32: Format =
        Format { exponent_bits: 8, fraction_bits: 10, specials: Specials::Ieee, nan: 0x3_ffff };
    /// IEEE binary16.
    pub const F16: Format =
        Format { exponent_bits: 5, fraction_bits: 10, specials: Specials::Ieee, nan: 0x7fff };
    /// bfloat16.
    pub const BF16: Format =
        Format { exponent_bits: 8, fraction_bits: 7, specials: Specials::Ieee, nan: 0x7fff };
    /// 8-bit float with a 4-bit exponent, no infinity.
    pub const E4M3: Format =
        Format { exponent_bits: 4, fraction_bits: 3, specials: Specials::OneNan, nan: 0x7f };
    /// 8-bit float with a 5-bit exponent.
    pub const E5M2: Format =
        Format { exponent_bits: 5, fraction_bits: 2, specials: Specials::Ieee, nan: 0x7f };
    /// 6-bit float with a 2-bit exponent.
    pub const E2M3: Format =
        Format { exponent_bits: 2, fraction_bits: 3, specials: Specials::Finite, nan: 0x1f };
    /// 6-bit float with a 3-bit exponent.
    pub const E3M2: Format =
        Format { exponent_bits: 3, fraction_bits: 2, specials: Specials::Finite, nan: 0x1f };
    /// 4-bit float.
    pub const E2M1: Format =
        Format { exponent_bits: 2, fraction_bits: 1, specials: Specials::Finite, nan: 0x7 };

    /// Bits in all.
    #[inline(always)]
    pub const fn width(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    #[inline(always)]
    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The bits of the largest finite magnitude.
    #[inline(always)]
    pub const fn largest(self) -> u32 {
        let all = (1 << (self.exponent_bits + self.fraction_bits)) - 1;
        match self.specials {
            Specials::Ieee => (((1 << self.exponent_bits) - 1) << self.fraction_bits) - 1,
            Specials::OneNan => all - 1,
            Specials::Finite => all,
        }
    }

    /// The exact value of `bits` as f64. A NaN becomes an f64 NaN.
    #[inline(always)]
    pub fn decode(self, bits: u32) -> f64 {
        let fraction = bits & ((1 << self.fraction_bits) - 1);
        let exponent = (bits >> self.fraction_bits) & ((1 << self.exponent_bits) - 1);
        let negative = (bits >> (self.width() - 1)) & 1;
        let top = exponent == (1 << self.exponent_bits) - 1;
        let nan = match self.specials {
            Specials::Ieee => top && fraction != 0,
            Specials::OneNan => top && fraction == (1 << self.fraction_bits) - 1,
            Specials::Finite => false,
        };
        let magnitude = if nan {
            f64::NAN
        } else if top && self.specials == Specials::Ieee {
            f64::INFINITY
        } else if exponent == 0 {
            f64::from(fraction) * power_of_two(1 - self.bias() - self.fraction_bits as i32)
        } else {
            let biased = (exponent as i32 - self.bias() + 1023) as u64;
            f64::from_bits((biased << 52) | (u64::from(fraction) << (52 - self.fraction_bits)))
        };
        f64::from_bits(magnitude.to_bits() | (u64::from(negative) << 63))
    }

    /// `value`, rounded to odd, rounded into this format. Beyond the largest finite magnitude the
    /// result is infinity or that magnitude, by mode; a format without infinity gives its NaN, or
    /// its largest finite number with [`Specials::Finite`]. With `clamp` (`.satfinite`) it is the
    /// largest finite number in every mode.
    #[inline(always)]
    pub fn encode(self, value: f64, rounding: Rounding, clamp: bool) -> u32 {
        let bits = value.to_bits();
        let sign = ((bits >> 63) as u32) << (self.width() - 1);
        if value.is_nan() {
            return self.nan;
        }
        let negative = sign != 0;
        let magnitude = if value.is_infinite() {
            u32::MAX >> 1
        } else {
            self.round_magnitude(bits & !(1 << 63), negative, rounding)
        };
        if magnitude <= self.largest() {
            return sign | magnitude;
        }
        let toward_zero = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => false,
            Rounding::Zero => true,
            Rounding::Down => !negative,
            Rounding::Up => negative,
        };
        sign | self.beyond(clamp || (toward_zero && !value.is_infinite()))
    }

    /// The magnitude for a value beyond the largest finite one.
    #[inline(always)]
    fn beyond(self, finite: bool) -> u32 {
        match self.specials {
            _ if finite => self.largest(),
            Specials::Ieee => self.largest() + 1,
            Specials::OneNan => self.nan,
            Specials::Finite => self.largest(),
        }
    }

    /// Whether a value, rounded to the format's precision with any exponent, is less than the smallest
    /// normal number. `.ftz` flushes such a result, also one that the format itself would round up to
    /// that number (measured on H100 and H200).
    #[inline(always)]
    pub fn rounds_to_subnormal(self, value: f64, rounding: Rounding) -> bool {
        // A multiple of the smallest normal number has the exponents of normal numbers.
        let multiple = value / self.decode(1 << self.fraction_bits);
        multiple.abs() < 1.0 && self.decode(self.encode(multiple, rounding, false)).abs() < 1.0
    }

    /// `value` rounded by a random number from 0 to 1: that part of a unit in the last place is
    /// added to its magnitude, which is then rounded toward zero.
    pub fn encode_randomly(self, value: f64, random: f64, clamp: bool) -> u32 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = u32::from(value.is_sign_negative()) << (self.width() - 1);
        let magnitude = value.abs();
        if magnitude.is_infinite() {
            return sign | self.beyond(clamp);
        }
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias());
        let unit = power_of_two(exponent - self.fraction_bits as i32);
        let rounded =
            self.round_magnitude(add_odd(magnitude, unit * random).to_bits(), false, Rounding::Zero);
        sign | if rounded <= self.largest() { rounded } else { self.beyond(clamp) }
    }

    /// Rounds a positive finite f64, as if the exponent had no upper limit.
    #[inline(always)]
    fn round_magnitude(self, bits: u64, negative: bool, rounding: Rounding) -> u32 {
        let exponent = ((bits >> 52) as i32) - 1023;
        let implicit = u64::from(bits >> 52 != 0) << 52;
        let significand = (bits & ((1 << 52) - 1)) | implicit;
        let smallest = 1 - self.bias();
        let below = (smallest - exponent).max(0);
        let shift = (52 - self.fraction_bits as i32 + below).min(63) as u32;
        let kept = significand >> shift;
        let lost = significand & ((1 << shift) - 1);
        let half = 1u64 << (shift - 1);
        let up = match rounding {
            Rounding::NearestEven => lost > half || (lost == half && kept & 1 == 1),
            Rounding::NearestAway => lost >= half,
            Rounding::Zero => false,
            Rounding::Down => negative && lost != 0,
            Rounding::Up => !negative && lost != 0,
        };
        let rounded = kept + u64::from(up);
        let base = (exponent.max(smallest) - smallest) as u64;
        // A normal number's implicit bit adds one to the exponent field, and a carry out of the
        // fraction another.
        ((base << self.fraction_bits) + rounded).min(u64::from(u32::MAX >> 1)) as u32
    }
}

/// 2 to a power within the normal range of f64.
#[inline(always)]
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `nearest + error`, rounded to odd; `nearest` is that sum rounded to nearest even.
#[inline(always)]
pub(crate) fn to_odd(nearest: f64, error: f64) -> f64 {
    let bits = nearest.to_bits();
    let inexact = error != 0.0 && nearest.is_finite() && bits & 1 == 0;
    let away = (error.to_bits() ^ bits) >> 63 == 0;
    let neighbor = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact { neighbor } else { bits })
}

/// `a + b`, rounded to odd. The sum must not overflow.
#[inline(always)]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    to_odd(sum, error)
}
