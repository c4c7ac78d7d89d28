//! [`Swizzle`]: the exclusive or of address bits with higher bits, which distributes accesses over
//! the banks.

use crate::{Error, Expression, Int, Operator};
use std::fmt;

/// `x ^ ((x >> shift) & mask)`, where the mask has `bits` bits from bit `base` up: CuTe's
/// `Swizzle<B,M,S>`.
///
/// The `2^base` elements of an aligned run stay contiguous. A negative shift moves bits upwards
/// instead. Post-condition: it is its own inverse.
///
/// ```
/// use warpwright_layout::Swizzle;
/// let swizzle = Swizzle::new(3, 2, 3)?;
/// assert_eq!(swizzle.apply(32), 36);
/// assert_eq!(swizzle.apply(36), 32);
/// assert_eq!(swizzle.to_string(), "Swizzle<3,2,3>");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Swizzle {
    bits: u32,
    base: u32,
    shift: i32,
}

impl Swizzle {
    /// `Swizzle<bits, base, shift>`.
    ///
    /// # Errors
    /// If `|shift| < bits` (the two bit fields would overlap) or a field leaves 62 bits.
    pub fn new(bits: u32, base: u32, shift: i32) -> Result<Swizzle, Error> {
        let legal = "Swizzle<B,M,S> with |S| >= B and B + M + |S| <= 62";
        let reach = u64::from(bits) + u64::from(base) + u64::from(shift.unsigned_abs());
        if shift.unsigned_abs() < bits || reach > 62 {
            return Err(Error::bad_argument("a swizzle", format!("Swizzle<{bits},{base},{shift}>"), legal));
        }
        Ok(Swizzle { bits, base, shift })
    }

    /// The identity swizzle.
    pub const IDENTITY: Swizzle = Swizzle { bits: 0, base: 4, shift: 3 };

    /// The number of bits permuted.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of low bits that do not change: `2^base` elements stay contiguous.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The distance of the source bits above the target bits; below, if negative.
    pub fn shift(&self) -> i32 {
        self.shift
    }

    /// The mask of the bits read.
    pub fn source_mask(&self) -> i64 {
        ((1 << self.bits) - 1) << (self.base + self.shift.max(0) as u32)
    }

    /// The mask of the bits changed.
    pub fn target_mask(&self) -> i64 {
        ((1 << self.bits) - 1) << (self.base + (-self.shift).max(0) as u32)
    }

    /// The swizzled offset.
    pub fn apply(&self, offset: i64) -> i64 {
        let source = offset & self.source_mask();
        offset ^ if self.shift >= 0 { source >> self.shift } else { source << -self.shift }
    }

    /// The number of offsets after which the pattern repeats.
    pub fn size(&self) -> i64 {
        1 << (self.bits + self.base + self.shift.unsigned_abs())
    }

    /// True for the identity swizzle.
    pub fn is_identity(&self) -> bool {
        self.bits == 0
    }

    /// The swizzled offset of a static offset, or of a device offset that is a multiple of the
    /// whole pattern plus a static remainder.
    pub(crate) fn apply_to(&self, offset: &Int) -> Result<Int, Error> {
        if self.is_identity() {
            return Ok(offset.clone());
        }
        let (periods, rest) = match offset {
            Int::Known(offset) => return Ok(Int::Known(self.apply(*offset))),
            Int::Device(expression) => match &**expression {
                Expression::Operation(Operator::Add, periods, Int::Known(rest)) => (periods, *rest),
                _ => (offset, 0),
            },
        };
        match periods.known_divisor() % self.size() {
            0 => periods.plus(&Int::Known(self.apply(rest))),
            _ => Err(Error::needs_known("swizzle", offset, "it exchanges bits of the offset")),
        }
    }

    /// The swizzle of elements `factor` times as wide (a power of two).
    ///
    /// Post-condition: the bytes keep their addresses if the new element fits the contiguous run.
    pub fn upcast(&self, factor: i64) -> Result<Swizzle, Error> {
        let by = power_of_two(factor)?;
        let lost = by.saturating_sub(self.base);
        Ok(Swizzle {
            bits: self.bits.saturating_sub(lost),
            base: self.base.saturating_sub(by),
            shift: self.shift,
        })
    }

    /// The swizzle of elements a `factor`-th as wide (a power of two).
    ///
    /// Post-condition: the bytes keep their addresses.
    pub fn downcast(&self, factor: i64) -> Result<Swizzle, Error> {
        Swizzle::new(self.bits, self.base + power_of_two(factor)?, self.shift)
    }
}

fn power_of_two(factor: i64) -> Result<u32, Error> {
    match u64::try_from(factor) {
        Ok(factor) if factor.is_power_of_two() => Ok(factor.trailing_zeros()),
        _ => Err(Error::bad_argument("the width ratio of a swizzled recast", factor, "a power of two")),
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Swizzle<{},{},{}>", self.bits, self.base, self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of all swizzles up to three bits: an involution, a permutation of its period,
    /// contiguous in runs.
    #[test]
    fn every_small_swizzle_is_an_involution_that_keeps_runs() {
        for (bits, base, shift) in
            (0..=3).flat_map(|b| (0..=4).flat_map(move |m| (-4..=4).map(move |s| (b, m, s))))
        {
            let Ok(swizzle) = Swizzle::new(bits, base, shift) else {
                assert!(shift.unsigned_abs() < bits);
                continue;
            };
            for offset in 0..swizzle.size() {
                let moved = swizzle.apply(offset);
                assert_eq!(swizzle.apply(moved), offset);
                assert!(moved < swizzle.size());
                assert_eq!(moved & ((1 << base) - 1), offset & ((1 << base) - 1));
            }
        }
    }

    #[test]
    fn whole_periods_of_a_device_offset_pass_through() {
        let swizzle = Swizzle::new(3, 3, 3).unwrap();
        let stage = Int::device(0, "stage") * 4096;
        for rest in [0, 8, 72, 600] {
            let offset = swizzle.apply_to(&(stage.clone() + rest)).unwrap();
            for value in 0..3 {
                let expected = swizzle.apply(value * 4096 + rest);
                assert_eq!(offset.evaluate(&mut |_| Some(value)), Some(expected));
            }
        }
        assert!(swizzle.apply_to(&(Int::device(0, "lane") * 8)).is_err());
    }

    #[test]
    fn recasting_keeps_bytes_in_place() {
        let bytes = Swizzle::new(3, 4, 3).unwrap();
        let halves = bytes.upcast(2).unwrap();
        assert_eq!(halves.to_string(), "Swizzle<3,3,3>");
        for offset in 0..1024 {
            assert_eq!(bytes.apply(offset * 2), halves.apply(offset) * 2);
        }
        assert_eq!(halves.downcast(2).unwrap(), bytes);
        assert!(bytes.upcast(3).is_err());
    }
}
