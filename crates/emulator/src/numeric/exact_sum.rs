//! Sums of scaled integers without rounding.

use super::Rounding;
use super::format::Format;

/// 64-bit parts of the sum.
const PARTS: usize = 12;
/// The exponent of the lowest bit: less than that of any product of two 8-bit floats and two scales.
const LOWEST: i32 = -320;

/// A sum in fixed point, in two's complement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExactSum {
    parts: [u64; PARTS],
}

impl ExactSum {
    /// Adds `mantissa * 2^exponent`, which is between 2^[`LOWEST`] and 2^400 in magnitude.
    pub(crate) fn add(&mut self, mantissa: i128, exponent: i32) {
        let shift = (exponent - LOWEST) as usize;
        let (first, bits) = (shift / 64, shift % 64);
        let fill = (mantissa >> 127) as u64;
        let word = |index: usize| match index {
            0 => mantissa as u64,
            1 => (mantissa >> 64) as u64,
            _ => fill,
        };
        let mut carry = false;
        for (index, part) in self.parts[first..].iter_mut().enumerate() {
            let below = if index == 0 { 0 } else { word(index - 1) };
            let added = if bits == 0 { word(index) } else { word(index) << bits | below >> (64 - bits) };
            let (sum, over) = part.overflowing_add(added);
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            (*part, carry) = (sum, over || again);
        }
    }

    /// Adds a finite number.
    pub(crate) fn add_f32(&mut self, value: f32) {
        let (bits, sign) = (value.to_bits(), if value.is_sign_negative() { -1 } else { 1 });
        let exponent = (bits >> 23 & 0xff) as i32;
        let fraction = i128::from(bits & 0x7f_ffff | if exponent == 0 { 0 } else { 0x80_0000 });
        self.add(sign * fraction, exponent.max(1) - 150);
    }

    /// The sum, rounded once to the nearest f32.
    pub(crate) fn to_f32(self) -> f32 {
        let is_negative = self.parts[PARTS - 1] >> 63 != 0;
        let mut magnitude = self.parts;
        if is_negative {
            let mut carry = true;
            for part in &mut magnitude {
                (*part, carry) = (!*part).overflowing_add(u64::from(carry));
            }
        }
        let Some(top) = magnitude.iter().rposition(|&part| part != 0) else { return 0.0 };
        let below = if top == 0 { 0 } else { magnitude[top - 1] };
        let window = u128::from(magnitude[top]) << 64 | u128::from(below);
        let shift = window.leading_zeros();
        let rest =
            window << shift << 53 != 0 || magnitude[..top.saturating_sub(1)].iter().any(|&part| part != 0);
        // 53 bits, rounded to odd.
        let fraction = (window << shift >> 75) as u64 | u64::from(rest);
        let exponent = 64 * top as i32 + 64 - shift as i32 - 53 + LOWEST;
        let value = fraction as f64 * f64::from(exponent).exp2();
        let bits = Format::F32.encode(if is_negative { -value } else { value }, Rounding::NearestEven, false);
        f32::from_bits(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: &[(i128, i32)]) -> f32 {
        let mut sum = ExactSum::default();
        terms.iter().for_each(|&(mantissa, exponent)| sum.add(mantissa, exponent));
        sum.to_f32()
    }

    #[test]
    fn what_cancels_leaves_the_smallest_term() {
        assert_eq!(sum(&[(1, 250), (3, -140), (-1, 250)]), 3.0 * (-140.0f32).exp2());
        assert_eq!(sum(&[(-(1 << 70), 10), (1 << 70, 10), (-5, 0)]), -5.0);
        assert_eq!(sum(&[(7, 3), (-7, 3)]).to_bits(), 0);
    }

    #[test]
    fn sums_are_rounded_once() {
        let one_and_half_a_unit = (1 << 24) + 1;
        assert_eq!(sum(&[(one_and_half_a_unit, -24)]), 1.0, "a tie goes to even");
        assert_eq!(sum(&[(one_and_half_a_unit, -24), (1, -300)]), 1.0 + f32::EPSILON);
        assert_eq!(sum(&[(one_and_half_a_unit, -24), (-1, -300)]), 1.0);
        assert_eq!(sum(&[(1, 128)]), f32::INFINITY);
        assert_eq!(sum(&[(-1, 128)]), f32::NEG_INFINITY);
    }

    #[test]
    fn floats_are_added_as_they_are() {
        for value in
            [0.0, 1.0, -1.5, f32::MAX, f32::MIN_POSITIVE, -f32::from_bits(1), f32::from_bits(0x7f_ffff)]
        {
            let mut sum = ExactSum::default();
            sum.add_f32(value);
            assert_eq!(sum.to_f32(), value);
        }
    }
}
