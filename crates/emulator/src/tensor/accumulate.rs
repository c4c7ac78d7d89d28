//! How tensor cores add.
//!
//! Integers are exact, modulo 2^32 or clamped. f64 is a chain of fused multiply-adds. For narrower
//! floating-point types, the products of a group of steps along k and the accumulator are aligned
//! to the largest exponent among them, truncated 25 bits below it, added exactly, and rounded once.
//! All results equal those of H200 bit for bit; `docs/emulator-numerics.md` gives the measurements.

use warpwright_arch::DataType;

use super::Shape;
use super::tile::Tile;
use crate::numeric::Rounding;
use crate::numeric::format::{Format, power_of_two};

/// The NaN that floating-point MMAs produce in f32.
const NAN: u32 = 0x7fff_ffff;

/// Bits kept below the leading bit of the largest exponent (measured on H200).
const FRACTION_BITS: i32 = 25;

/// The exponent that terms are aligned to at least (measured on H200): products below it are cut as if
/// it were the largest.
pub(super) const LEAST_ALIGNMENT: i32 = -133;

/// The exponent of subnormal f32.
const LEAST_F32: i32 = -126;

/// Values beyond f32 are infinite, although results are rounded toward zero.
const OVERFLOW: f64 = power_of_two(128);

/// An exponent below that of every value.
const NO_EXPONENT: i32 = -10_000;

/// Which products are added together, and when C is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// `count` consecutive products at once, starting from C.
    Neighbors(usize),
    /// The first two of every four, then the other two, starting from zero; then C. This is the
    /// order for 8-bit floats that are widened to f16 registers: `mma` of 8-bit floats has no
    /// hardware of its own.
    AlternatePairs,
    /// One by one in f32, starting from zero; then C. Current tensor cores do not execute m8n8k4.
    OneByOne,
}

/// The rounding of sums of narrow floating-point products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatSum {
    grouping: Grouping,
    /// The exponent of subnormal operands, which are not normalized before they are multiplied.
    least_exponent: i32,
    /// The type of the result, `F32` or `F16`.
    result: DataType,
}

/// Eight neighbors in a row.
type Eight = [f64; 8];

impl FloatSum {
    /// The rule of a shape, for operands of a type and results of another.
    pub fn of(shape: Shape, operand: DataType, result: DataType) -> FloatSum {
        let grouping = match operand {
            DataType::E4m3 | DataType::E5m2 => Grouping::AlternatePairs,
            DataType::Tf32 => Grouping::Neighbors(8),
            _ if shape.k == 4 => Grouping::OneByOne,
            _ => Grouping::Neighbors(16),
        };
        let least_exponent = if matches!(operand, DataType::Tf32 | DataType::Bf16) { -126 } else { -14 };
        FloatSum { grouping, least_exponent, result }
    }

    /// D = A B + C.
    #[inline(always)]
    pub fn multiply(self, a: &Tile<f64>, b: &Tile<f64>, c: &Tile<f64>) -> Tile<f64> {
        let mut d = Tile::zeros(c.rows(), c.columns());
        for row in 0..c.rows() {
            for first in (0..c.columns()).step_by(8) {
                let eight = |values: &[f64]| std::array::from_fn(|column| values[first + column]);
                let sums = self.row(a.row(row), &|k| eight(b.row(k)), eight(c.row(row)));
                d.row_mut(row)[first..first + 8].copy_from_slice(&sums);
            }
        }
        d
    }

    /// `c + sum of a[k] b[k]` for a row of A and eight columns of B.
    #[inline(always)]
    fn row(self, a: &[f64], b: &impl Fn(usize) -> Eight, c: Eight) -> Eight {
        match self.grouping {
            Grouping::Neighbors(count) => (0..a.len())
                .step_by(count)
                .fold(c, |sums, start| self.group(a, b, start..a.len().min(start + count), sums)),
            Grouping::AlternatePairs => {
                let zero = [0.0; 8];
                let first = self.group(a, b, (0..a.len()).filter(|k| k % 4 < 2), zero);
                let sums = self.group(a, b, (0..a.len()).filter(|k| k % 4 >= 2), first);
                std::array::from_fn(|column| self.nearest(sums[column] + c[column]))
            }
            Grouping::OneByOne => {
                let mut sums = [0.0; 8];
                for (k, &left) in a.iter().enumerate() {
                    let right = b(k);
                    for column in 0..8 {
                        sums[column] = f64::from((left * right[column] + sums[column]) as f32);
                    }
                }
                std::array::from_fn(|column| self.nearest(sums[column] + c[column]))
            }
        }
    }

    /// Adds the products of some steps of the depth to `c`: all aligned to the largest exponent
    /// among them, cut off, added, and rounded once.
    #[inline(always)]
    fn group(
        self,
        a: &[f64],
        b: &impl Fn(usize) -> Eight,
        steps: impl Iterator<Item = usize> + Clone,
        c: Eight,
    ) -> Eight {
        let mut largest = c.map(|value| exponent(value, LEAST_F32));
        for k in steps.clone() {
            let (left, right) = (exponent(a[k], self.least_exponent), b(k));
            for column in 0..8 {
                largest[column] = largest[column].max(left + exponent(right[column], self.least_exponent));
            }
        }
        let scale = largest
            .map(|largest| power_of_two((FRACTION_BITS - largest.max(LEAST_ALIGNMENT)).clamp(-1000, 1000)));
        let mut plain = c;
        let mut aligned: Eight = std::array::from_fn(|column| (c[column] * scale[column]).trunc());
        for k in steps {
            let right = b(k);
            for column in 0..8 {
                let product = a[k] * right[column];
                plain[column] += product;
                aligned[column] += (product * scale[column]).trunc();
            }
        }
        std::array::from_fn(|column| match plain[column].is_finite() {
            true => self.cut(aligned[column] / scale[column]),
            false => plain[column],
        })
    }

    /// Rounds the sum of a group: toward zero into f32, to nearest into f16.
    #[inline(always)]
    fn cut(self, value: f64) -> f64 {
        match self.result {
            // A sum that is rounded to zero has no sign (measured on H200).
            DataType::F16 => self.nearest(value) + 0.0,
            _ if value.abs() >= OVERFLOW => value.signum() * f64::INFINITY,
            _ => Format::F32.decode(Format::F32.encode(value, Rounding::Zero, false)) + 0.0,
        }
    }

    /// Rounds to nearest.
    #[inline(always)]
    fn nearest(self, value: f64) -> f64 {
        match self.result {
            DataType::F16 => Format::F16.decode(Format::F16.encode(value, Rounding::NearestEven, false)),
            _ => f64::from(value as f32),
        }
    }
}

/// The exponent of the leading bit, at least `least`; that of zero is below all others.
#[inline(always)]
fn exponent(value: f64, least: i32) -> i32 {
    let field = (value.to_bits() >> 52 & 0x7ff) as i32;
    if field == 0 { NO_EXPONENT } else { (field - 1023).max(least) }
}

/// The bits of a result of type `F32` or `F16`.
#[inline(always)]
pub fn result_bits(result: DataType, value: f64) -> u32 {
    match result {
        DataType::F16 => Format::F16.encode(value, Rounding::NearestEven, false),
        _ if value.is_nan() => NAN,
        _ => (value as f32).to_bits(),
    }
}

/// D = A B + C in f64: a chain of fused multiply-adds.
#[inline(always)]
pub fn multiply_f64(a: &Tile<f64>, b: &Tile<f64>, c: &Tile<f64>) -> Tile<f64> {
    let mut d = c.clone();
    for row in 0..c.rows() {
        for (k, &left) in a.row(row).iter().enumerate() {
            for (sum, &right) in d.row_mut(row).iter_mut().zip(b.row(k)) {
                *sum = fused(left, right, *sum);
            }
        }
    }
    d
}

/// A fused multiply-add. A NaN keeps its payload: the addend's, or else that of an operand.
#[inline(always)]
fn fused(a: f64, b: f64, c: f64) -> f64 {
    if c.is_nan() { c } else { a.mul_add(b, c) }
}

/// The operation of integer MMAs on two elements, and on the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerSum {
    /// Products, accumulated modulo 2^32.
    Wrapping,
    /// Products, with the accumulator clamped to an `s32` (`.satfinite`).
    Saturating,
    /// The number of bits that differ (`.xor.popc`).
    Differing,
    /// The number of bits set in both (`.and.popc`).
    Common,
}

impl IntegerSum {
    /// D = A B + C.
    #[inline(always)]
    pub fn multiply(self, a: &Tile<i32>, b: &Tile<i32>, c: &Tile<i32>) -> Tile<i32> {
        match self {
            IntegerSum::Wrapping => integers(a, b, c, |x, y| i64::from(x.wrapping_mul(y)), |sum| sum as i32),
            IntegerSum::Saturating => integers(
                a,
                b,
                c,
                |x, y| i64::from(x.wrapping_mul(y)),
                |sum| sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
            ),
            IntegerSum::Differing => {
                integers(a, b, c, |x, y| i64::from((x ^ y).count_ones()), |sum| sum as i32)
            }
            IntegerSum::Common => integers(a, b, c, |x, y| i64::from((x & y).count_ones()), |sum| sum as i32),
        }
    }
}

#[inline(always)]
fn integers(
    a: &Tile<i32>,
    b: &Tile<i32>,
    c: &Tile<i32>,
    product: impl Fn(i32, i32) -> i64,
    finish: impl Fn(i64) -> i32,
) -> Tile<i32> {
    let mut d = Tile::zeros(c.rows(), c.columns());
    for row in 0..c.rows() {
        for first in (0..c.columns()).step_by(8) {
            let mut sums: [i64; 8] = std::array::from_fn(|column| i64::from(c.get(row, first + column)));
            for (k, &left) in a.row(row).iter().enumerate() {
                let right = &b.row(k)[first..first + 8];
                for (sum, &right) in sums.iter_mut().zip(right) {
                    *sum += product(left, right);
                }
            }
            for (column, sum) in sums.into_iter().enumerate() {
                d.set(row, first + column, finish(sum));
            }
        }
    }
    d
}
