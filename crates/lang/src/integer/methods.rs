//! Rust's own methods on device integers of every width, with Rust's results.
//!
//! `checked_*` methods are missing: whether the result is an `Option` that holds a value must be
//! known when the kernel is built. `overflowing_*` gives the result and a `Reg<bool>`.

use crate::element::{DeviceInteger, Element, Kind};
use crate::operation::{compute, fresh, on_behalf_of_author, record};
use crate::value::{Reg, Value, constant};
use warpwright_ir::Operand;

/// The width of `T` in bits.
const fn bits<T: Element>() -> u32 {
    8 * T::BYTES
}

const fn is_signed<T: Element>() -> bool {
    matches!(T::KIND, Kind::Signed)
}

impl<T: DeviceInteger> Reg<T> {
    /// The bits as an unsigned integer.
    #[track_caller]
    fn unsigned(self) -> Reg<T::Unsigned> {
        if is_signed::<T>() { self.bit_cast() } else { Reg::from_register(self.register()) }
    }

    /// The bits, zero-extended to a 32-bit word.
    #[track_caller]
    fn word(self) -> Reg<u32> {
        self.unsigned().convert()
    }

    /// Whether the value is negative.
    #[track_caller]
    fn below_zero(self) -> Reg<bool> {
        self.lt(T::ZERO)
    }

    /// The number of ones in the binary representation.
    #[track_caller]
    pub fn count_ones(self) -> Reg<u32> {
        match T::BYTES {
            8 => compute("popc.b64", [Reg::operand(self)]),
            _ => self.word().popc(),
        }
    }

    /// The number of zeros in the binary representation.
    #[track_caller]
    pub fn count_zeros(self) -> Reg<u32> {
        on_behalf_of_author(|| (!self).count_ones())
    }

    /// The number of zeros above the highest one; the width of the type for zero.
    #[track_caller]
    pub fn leading_zeros(self) -> Reg<u32> {
        match T::BYTES {
            8 => compute("clz.b64", [Reg::operand(self)]),
            4 => self.word().clz(),
            _ => on_behalf_of_author(|| self.word().clz() - (32 - bits::<T>())),
        }
    }

    /// The number of zeros below the lowest one; the width of the type for zero.
    #[track_caller]
    pub fn trailing_zeros(self) -> Reg<u32> {
        on_behalf_of_author(|| match T::BYTES {
            1 | 2 => (self.word() | 1 << bits::<T>()).brev().clz(),
            _ => self.reverse_bits().leading_zeros(),
        })
    }

    /// The number of ones above the highest zero.
    #[track_caller]
    pub fn leading_ones(self) -> Reg<u32> {
        on_behalf_of_author(|| (!self).leading_zeros())
    }

    /// The number of ones below the lowest zero.
    #[track_caller]
    pub fn trailing_ones(self) -> Reg<u32> {
        on_behalf_of_author(|| (!self).trailing_zeros())
    }

    /// The bits in reverse order.
    #[track_caller]
    pub fn reverse_bits(self) -> Self {
        match T::BYTES {
            8 => compute("brev.b64", [Reg::operand(self)]),
            4 => compute("brev.b32", [Reg::operand(self)]),
            _ => on_behalf_of_author(|| (self.word().brev() >> (32 - bits::<T>())).convert()),
        }
    }

    /// The bytes in reverse order.
    #[track_caller]
    pub fn swap_bytes(self) -> Self {
        let swapped = |word: Reg<u32>| word.prmt(word, 0x0123);
        on_behalf_of_author(|| match T::BYTES {
            1 => self,
            2 => self.word().prmt(0, 0x4401).convert(),
            4 => swapped(self.word()).bit_cast(),
            _ => {
                let (low, high) = (fresh::<u32>(), fresh::<u32>());
                let halves = Operand::Vector(vec![low.operand(), high.operand()]);
                record("mov.b64", 1, vec![halves, Reg::operand(self)]);
                let halves = Operand::Vector(vec![swapped(high).operand(), swapped(low).operand()]);
                compute("mov.b64", [halves])
            }
        })
    }

    /// The bits shifted left, the ones shifted out inserted on the right; `amount` is taken modulo
    /// the width.
    #[track_caller]
    pub fn rotate_left(self, amount: impl Value<u32>) -> Self {
        on_behalf_of_author(|| match T::BYTES {
            4 => self.word().funnel_left(self.word(), amount).bit_cast(),
            _ => self.rotate(amount.reg()),
        })
    }

    /// The bits shifted right, the ones shifted out inserted on the left; `amount` is taken modulo
    /// the width.
    #[track_caller]
    pub fn rotate_right(self, amount: impl Value<u32>) -> Self {
        on_behalf_of_author(|| match T::BYTES {
            4 => self.word().funnel_right(self.word(), amount).bit_cast(),
            _ => self.rotate(0 - amount.reg()),
        })
    }

    /// Rotates by two shifts. A shift by the width gives 0, as in PTX.
    #[track_caller]
    fn rotate(self, amount: Reg<u32>) -> Self {
        let left = amount & (bits::<T>() - 1);
        let right = bits::<T>() - left;
        let unsigned = self.unsigned();
        let rotated = (unsigned << left) | (unsigned >> right);
        if is_signed::<T>() { rotated.bit_cast() } else { Reg::from_register(rotated.register()) }
    }

    /// `|self - other|`, which the unsigned type always holds.
    #[track_caller]
    pub fn abs_diff(self, other: impl Value<T>) -> Reg<T::Unsigned> {
        on_behalf_of_author(|| {
            let other = other.reg();
            self.max(other).unsigned() - self.min(other).unsigned()
        })
    }

    /// `|self|`, which the unsigned type always holds.
    #[track_caller]
    pub fn unsigned_abs(self) -> Reg<T::Unsigned> {
        on_behalf_of_author(|| if is_signed::<T>() { self.magnitude().unsigned() } else { self.unsigned() })
    }

    /// `|self|`, wrapping.
    #[track_caller]
    fn magnitude(self) -> Self {
        self.below_zero().select(self.wrapping_neg(), self)
    }

    /// -1, 0 or 1: the sign.
    #[track_caller]
    pub fn signum(self) -> Self {
        on_behalf_of_author(|| self.max(constant(T::ZERO).wrapping_sub(T::ONE)).min(T::ONE))
    }

    /// `self * self * ..`, `exponent` times, wrapping. The exponent is a build-time `u32` or a
    /// `Reg<u32>`.
    ///
    /// ```
    /// use warpwright_lang::{kernel, pointer::Global};
    ///
    /// #[kernel]
    /// fn powers(x: u32, y: u32, result: &mut Global<u32>) {
    ///     result[0] = x.pow(5); // three multiplications
    ///     result[1] = x.pow(y); // a loop over the bits of y
    /// }
    /// assert!(powers().is_ok());
    /// ```
    #[track_caller]
    pub fn pow(self, exponent: impl Exponent) -> Self {
        on_behalf_of_author(|| exponent.power(self))
    }

    /// The remainder of `self` divided by `divisor` that is not negative.
    #[track_caller]
    pub fn rem_euclid(self, divisor: impl Value<T>) -> Self {
        on_behalf_of_author(|| {
            let divisor = divisor.reg();
            let remainder = self % divisor;
            if !is_signed::<T>() {
                return remainder;
            }
            remainder.below_zero().select(remainder + divisor.magnitude(), remainder)
        })
    }

    /// The quotient that belongs to [`rem_euclid`](Self::rem_euclid).
    #[track_caller]
    pub fn div_euclid(self, divisor: impl Value<T>) -> Self {
        on_behalf_of_author(|| {
            let divisor = divisor.reg();
            let quotient = self / divisor;
            if !is_signed::<T>() {
                return quotient;
            }
            let away = divisor.below_zero().select(quotient + T::ONE, quotient - T::ONE);
            (self % divisor).below_zero().select(away, quotient)
        })
    }

    /// The quotient, rounded up.
    #[track_caller]
    pub fn div_ceil(self, divisor: impl Value<T>) -> Self {
        on_behalf_of_author(|| {
            let divisor = divisor.reg();
            let (quotient, remainder) = (self / divisor, self % divisor);
            let mut is_short = remainder.ne(T::ZERO);
            if is_signed::<T>() {
                is_short &= remainder.below_zero().eq(divisor.below_zero());
            }
            is_short.select(quotient + T::ONE, quotient)
        })
    }

    /// The smallest multiple of `step` that is not below `self`, wrapping.
    #[track_caller]
    pub fn next_multiple_of(self, step: impl Value<T>) -> Self {
        on_behalf_of_author(|| {
            let step = step.reg();
            let past = self.rem_euclid(step);
            past.eq(T::ZERO).select(self, self + (step - past))
        })
    }

    /// Whether exactly one bit is set.
    #[track_caller]
    pub fn is_power_of_two(self) -> Reg<bool> {
        on_behalf_of_author(|| self.count_ones().eq(1))
    }

    /// The position of the highest set bit, rounded down: the logarithm to base 2. It is
    /// `0xffff_ffff` for zero.
    #[track_caller]
    pub fn ilog2(self) -> Reg<u32> {
        on_behalf_of_author(|| bits::<T>() - 1 - self.leading_zeros())
    }

    /// `self + other`, wrapping, as `+` on the device does.
    #[track_caller]
    pub fn wrapping_add(self, other: impl Value<T>) -> Self {
        self + other
    }

    /// `self - other`, wrapping, as `-` on the device does.
    #[track_caller]
    pub fn wrapping_sub(self, other: impl Value<T>) -> Self {
        self - other
    }

    /// `self * other`, wrapping, as `*` on the device does.
    #[track_caller]
    pub fn wrapping_mul(self, other: impl Value<T>) -> Self {
        self * other
    }

    /// `-self`, wrapping; also for unsigned integers.
    #[track_caller]
    pub fn wrapping_neg(self) -> Self {
        on_behalf_of_author(|| constant(T::ZERO) - self)
    }

    /// `self << amount`, with `amount` modulo the width; `<<` on the device shifts all bits out.
    #[track_caller]
    pub fn wrapping_shl(self, amount: impl Value<u32>) -> Self {
        on_behalf_of_author(|| self << (amount.reg() & (bits::<T>() - 1)))
    }

    /// `self >> amount`, with `amount` modulo the width; `>>` on the device shifts all bits out.
    #[track_caller]
    pub fn wrapping_shr(self, amount: impl Value<u32>) -> Self {
        on_behalf_of_author(|| self >> (amount.reg() & (bits::<T>() - 1)))
    }

    /// `self + other`, and whether it wrapped.
    #[track_caller]
    pub fn overflowing_add(self, other: impl Value<T>) -> (Self, Reg<bool>) {
        on_behalf_of_author(|| {
            let other = other.reg();
            let sum = self + other;
            let wrapped =
                if is_signed::<T>() { ((self ^ sum) & (other ^ sum)).below_zero() } else { sum.lt(self) };
            (sum, wrapped)
        })
    }

    /// `self - other`, and whether it wrapped.
    #[track_caller]
    pub fn overflowing_sub(self, other: impl Value<T>) -> (Self, Reg<bool>) {
        on_behalf_of_author(|| {
            let other = other.reg();
            let difference = self - other;
            let wrapped = if is_signed::<T>() {
                ((self ^ other) & (self ^ difference)).below_zero()
            } else {
                self.lt(other)
            };
            (difference, wrapped)
        })
    }

    /// `self + other`, clamped to the range of the type.
    #[track_caller]
    pub fn saturating_add(self, other: impl Value<T>) -> Self {
        if T::PTX == "s32" {
            return compute("add.sat.s32", [Reg::operand(self), other.operand()]);
        }
        on_behalf_of_author(|| {
            let (sum, wrapped) = self.overflowing_add(other);
            wrapped.select(self.limit(T::MAX), sum)
        })
    }

    /// `self - other`, clamped to the range of the type.
    #[track_caller]
    pub fn saturating_sub(self, other: impl Value<T>) -> Self {
        match T::KIND {
            Kind::Signed if T::BYTES == 4 => {
                return compute("sub.sat.s32", [Reg::operand(self), other.operand()]);
            }
            Kind::Unsigned => {
                return on_behalf_of_author(|| {
                    let other = other.reg();
                    self.max(other) - other
                });
            }
            _ => {}
        }
        on_behalf_of_author(|| {
            let (difference, wrapped) = self.overflowing_sub(other);
            wrapped.select(self.limit(T::MAX), difference)
        })
    }

    /// The end of the range on this value's side of zero.
    #[track_caller]
    fn limit(self, largest: T) -> Self {
        let largest = constant(largest);
        if is_signed::<T>() { (self >> (bits::<T>() - 1)) ^ largest } else { largest }
    }
}

impl Reg<u32> {
    /// The square root, rounded down.
    #[track_caller]
    pub fn isqrt(self) -> Self {
        on_behalf_of_author(|| {
            // The float may round up to the next integer, never below the root.
            let root = self.convert::<f32>().sqrt().convert::<u32>().min(0xffff);
            (root * root).gt(self).select(root - 1, root)
        })
    }
}

/// An exponent: known at build time, where multiplications are recorded one after another, or on
/// the device, where a loop counts its bits.
pub trait Exponent {
    /// `base` to this power.
    #[track_caller]
    fn power<T: DeviceInteger>(self, base: Reg<T>) -> Reg<T>;
}

impl Exponent for u32 {
    #[track_caller]
    fn power<T: DeviceInteger>(self, base: Reg<T>) -> Reg<T> {
        let (mut power, mut square) = (None, base);
        for bit in 0..32 - self.leading_zeros() {
            if bit > 0 {
                square = square * square;
            }
            if self >> bit & 1 == 1 {
                power = Some(power.map_or(square, |power| power * square));
            }
        }
        power.unwrap_or_else(|| constant(T::ONE))
    }
}

impl Exponent for Reg<u32> {
    #[track_caller]
    fn power<T: DeviceInteger>(self, base: Reg<T>) -> Reg<T> {
        power_on_device(base, self)
    }
}

#[crate::device]
fn power_on_device<T: DeviceInteger>(base: Reg<T>, exponent: Reg<u32>) -> Reg<T> {
    let mut power = constant(T::ONE);
    let mut square = base;
    let mut left = exponent;
    while left != 0 {
        power = ((left & 1) == 1).select(power * square, power);
        square *= square;
        left >>= 1;
    }
    power
}
