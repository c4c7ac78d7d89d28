//! Addition and multiplication of floats, rounded to nearest even, with subnormals, infinities and NaN.

use crate::netlist::{Bus, Netlist, Wire};

/// An IEEE format: a sign, an exponent and a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent_bits: usize,
    /// Bits of the fraction.
    pub fraction_bits: usize,
}

/// A float, taken apart.
pub(crate) struct Parts {
    pub(crate) sign: Wire,
    /// The exponent field; 1 for subnormals, which have the same exponent without the hidden bit.
    pub(crate) exponent: Bus,
    /// The fraction, with the hidden bit as its highest.
    pub(crate) significand: Bus,
    pub(crate) is_zero: Wire,
    pub(crate) is_infinite: Wire,
    pub(crate) is_nan: Wire,
}

impl Format {
    /// IEEE binary16.
    pub const F16: Format = Format { exponent_bits: 5, fraction_bits: 10 };
    /// bfloat16.
    pub const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7 };
    /// IEEE binary32.
    pub const F32: Format = Format { exponent_bits: 8, fraction_bits: 23 };

    /// Bits in all.
    pub fn width(self) -> usize {
        1 + self.exponent_bits + self.fraction_bits
    }

    /// What is subtracted from the exponent field.
    pub(crate) fn bias(self) -> u64 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Takes a float apart.
    pub(crate) fn parts(self, list: &mut Netlist, bits: &[Wire]) -> Parts {
        let (fraction, rest) = bits.split_at(self.fraction_bits);
        let (field, sign) = (&rest[..self.exponent_bits], rest[self.exponent_bits]);
        let is_normal = list.any(field);
        let is_top = list.all(field);
        let has_fraction = list.any(fraction);
        let is_whole = list.not(has_fraction);
        let is_subnormal = list.not(is_normal);
        let mut exponent = field.to_vec();
        exponent[0] = list.or(field[0], is_subnormal);
        Parts {
            sign,
            exponent,
            significand: fraction.iter().copied().chain([is_normal]).collect(),
            is_zero: list.and(is_subnormal, is_whole),
            is_infinite: list.and(is_top, is_whole),
            is_nan: list.and(is_top, has_fraction),
        }
    }

    /// The float nearest to `value * 2^(exponent - bias)`, where `value` has its binary point after the highest bit,
    /// which is 1 unless the value is 0. `exponent` is a two's complement number.
    pub(crate) fn round(
        self,
        list: &mut Netlist,
        sign: Wire,
        exponent: &[Wire],
        value: &[Wire],
        sticky: Wire,
    ) -> Bus {
        let width = exponent.len();
        // Below the smallest exponent, the value moves right instead: a subnormal.
        let one = Netlist::constant(1, width);
        let (missing, _) = list.subtract(&one, exponent);
        let is_negative = missing[width - 1];
        let is_missing = list.any(&missing);
        let not_negative = list.not(is_negative);
        let is_below = list.and(is_missing, not_negative);
        let most = usize::BITS as usize - value.len().leading_zeros() as usize;
        let is_far = list.any(&missing[most.min(width)..width - 1]);
        let amount: Bus = missing[..most.min(width)].iter().map(|bit| list.or(*bit, is_far)).collect();
        let amount = list.and_each(&amount, is_below);
        let (shifted, lost) = list.shift_right(value, &amount);
        let sticky = list.or(sticky, lost);
        // The kept bits, the first that is cut off, and whether any other is 1.
        let cut = value.len() - self.fraction_bits - 1;
        let (low, kept) = shifted.split_at(cut);
        let (guard, rest) = low.split_last().map_or((Netlist::ZERO, low), |(guard, rest)| (*guard, rest));
        let rest = list.any(rest);
        let rest = list.or(rest, sticky);
        let breaks_tie = list.or(rest, kept[0]);
        let up = list.and(guard, breaks_tie);
        // The hidden bit adds 1 to the exponent, and a carry out of the fraction does, too.
        let (before, _) = list.subtract(exponent, &one);
        let before = list.choose_bus(is_below, &Netlist::constant(0, width), &before);
        let base: Bus = Netlist::constant(0, self.fraction_bits).into_iter().chain(before).collect();
        let kept = Netlist::resized(kept, base.len());
        let mut packed = list.lookahead(&base, &kept, up);
        packed.pop();
        // A value of zero has no exponent.
        let is_value = list.any(value);
        let is_value = list.or(is_value, sticky);
        let packed = list.and_each(&packed, is_value);
        let (magnitude, above) = packed.split_at(self.fraction_bits + self.exponent_bits);
        let is_top = list.all(&magnitude[self.fraction_bits..]);
        let is_above = list.any(above);
        let overflows = list.or(is_top, is_above);
        self.special(list, sign, overflows, magnitude)
    }

    /// The magnitude with its sign, or infinity.
    pub(crate) fn special(
        self,
        list: &mut Netlist,
        sign: Wire,
        is_infinite: Wire,
        magnitude: &[Wire],
    ) -> Bus {
        let infinity =
            Netlist::constant(((1 << self.exponent_bits) - 1) << self.fraction_bits, magnitude.len());
        let mut bits = list.choose_bus(is_infinite, &infinity, magnitude);
        bits.push(sign);
        bits
    }

    /// The bits, or the NaN of the GPU's arithmetic: all ones without the sign.
    pub(crate) fn or_nan(self, list: &mut Netlist, is_nan: Wire, bits: &[Wire]) -> Bus {
        let nan = Netlist::constant((1 << (self.width() - 1)) - 1, self.width());
        list.choose_bus(is_nan, &nan, bits)
    }

    /// `a * b`: signs by XOR, exponents added, significands multiplied, normalized, rounded.
    pub fn multiply(self, list: &mut Netlist, a: &[Wire], b: &[Wire]) -> Bus {
        let (a, b) = (self.parts(list, a), self.parts(list, b));
        let sign = list.xor(a.sign, b.sign);
        let product = list.multiply(&a.significand, &b.significand);
        let (product, zeros) = list.normalize(&product);
        // The exponent of the product's highest bit, with room for a sign.
        let width = self.exponent_bits + 3;
        let (left, right) = (Netlist::resized(&a.exponent, width), Netlist::resized(&b.exponent, width));
        let sum = list.sum(&left, &right);
        let (sum, _) = list.subtract(&sum, &Netlist::constant(self.bias() - 1, width));
        let (exponent, _) = list.subtract(&sum, &Netlist::resized(&zeros, width));
        let rounded = self.round(list, sign, &exponent, &product, Netlist::ZERO);
        let is_infinite = list.or(a.is_infinite, b.is_infinite);
        let result = self.special(list, sign, is_infinite, &rounded[..self.width() - 1]);
        let is_zero = list.or(a.is_zero, b.is_zero);
        let is_invalid = list.and(is_infinite, is_zero);
        let is_nan = list.or(a.is_nan, b.is_nan);
        let is_nan = list.or(is_nan, is_invalid);
        self.or_nan(list, is_nan, &result)
    }

    /// `a + b`: the smaller is moved to the larger's exponent, and they are added or subtracted, normalized, rounded.
    pub fn add(self, list: &mut Netlist, a: &[Wire], b: &[Wire]) -> Bus {
        let magnitude = self.width() - 1;
        let (_, is_ordered) = list.subtract(&a[..magnitude], &b[..magnitude]);
        let (large, small) = (list.choose_bus(is_ordered, a, b), list.choose_bus(is_ordered, b, a));
        let (large, small) = (self.parts(list, &large), self.parts(list, &small));
        let differ = list.xor(large.sign, small.sign);
        // Three more bits below: enough to round right after a shift by one to the left.
        let below = |bus: &[Wire]| -> Bus { [Netlist::constant(0, 3), bus.to_vec()].concat() };
        let (distance, _) = list.subtract(&large.exponent, &small.exponent);
        let (aligned, lost) = list.shift_right(&below(&small.significand), &distance);
        let mut aligned = aligned;
        aligned[0] = list.or(aligned[0], lost);
        let addend = list.xor_each(&aligned, differ);
        let mut sum = list.lookahead(&below(&large.significand), &addend, differ);
        let carry = sum.pop().unwrap_or(Netlist::ZERO);
        // In a subtraction the carry says that the result is not negative, which it never is.
        let is_sum = list.not(differ);
        sum.push(list.and(carry, is_sum));
        let (sum, zeros) = list.normalize(&sum);
        let width = self.exponent_bits + 2;
        let exponent = list.sum(&Netlist::resized(&large.exponent, width), &Netlist::constant(1, width));
        let (exponent, _) = list.subtract(&exponent, &Netlist::resized(&zeros, width));
        // x - x is +0; a sum of zeros of one sign keeps it.
        let is_value = list.any(&sum);
        let is_kept = list.or(is_value, is_sum);
        let sign = list.and(large.sign, is_kept);
        let rounded = self.round(list, sign, &exponent, &sum, Netlist::ZERO);
        let is_infinite = list.or(large.is_infinite, small.is_infinite);
        let infinite_sign = list.choose(large.is_infinite, large.sign, small.sign);
        let sign = list.choose(is_infinite, infinite_sign, sign);
        let result = self.special(list, sign, is_infinite, &rounded[..magnitude]);
        let both = list.and(large.is_infinite, small.is_infinite);
        let is_invalid = list.and(both, differ);
        let is_nan = list.or(large.is_nan, small.is_nan);
        let is_nan = list.or(is_nan, is_invalid);
        self.or_nan(list, is_nan, &result)
    }
}
