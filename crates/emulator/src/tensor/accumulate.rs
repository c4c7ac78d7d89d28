//! How tensor cores add.
//!
//! Integers are exact, modulo 2^32 or clamped. f64 is a chain of fused multiply-adds. The narrower floating-point types
//! are neither: the products of a *block* of the depth and the accumulator are aligned to the largest exponent among
//! them, cut off a number of bits below it, added exactly, and rounded once. The next block starts from that result.

use super::element::Element;
use super::tile::Tile;
use crate::numeric::Rounding;
use crate::numeric::format::{Format, power_of_two};

/// The NaN that floating-point multiplies make in f32.
const NAN: u32 = 0x7fff_ffff;

/// An exponent below that of every value.
const NO_EXPONENT: i32 = -10_000;

/// How sums of narrow floating-point products are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatSum {
    /// Products that are added at once.
    pub block: usize,
    /// Bits kept below the leading bit of the largest exponent.
    pub fraction_bits: u32,
    /// The type of the result, `F32` or `F16`.
    pub result: Element,
}

impl FloatSum {
    /// The rule for operands of a type and results of another.
    pub fn of(operand: Element, result: Element) -> FloatSum {
        let (block, fraction_bits) = match operand {
            Element::E4m3 | Element::E5m2 => (32, 13),
            Element::Tf32 => (8, 25),
            _ => (16, 25),
        };
        FloatSum { block, fraction_bits, result }
    }

    /// The bits of `c + sum of a[i] b[i]`, where `a` is a row and `b` yields rows of eight columns.
    #[inline(always)]
    fn row(self, a: &[f64], b: impl Fn(usize) -> [f64; 8], c: [f64; 8]) -> [f64; 8] {
        let mut sums = c;
        let mut start = 0;
        while start < a.len() {
            let end = a.len().min(start + self.block);
            sums = self.block_of_eight(&a[start..end], |k| b(start + k), sums);
            start = end;
        }
        sums
    }

    #[inline(always)]
    fn block_of_eight(self, a: &[f64], b: impl Fn(usize) -> [f64; 8], c: [f64; 8]) -> [f64; 8] {
        let mut largest = c.map(exponent);
        for (k, &a) in a.iter().enumerate() {
            let (left, row) = (exponent(a), b(k));
            for column in 0..8 {
                largest[column] = largest[column].max(left + exponent(row[column]));
            }
        }
        let fraction_bits = self.fraction_bits as i32;
        let scale = largest.map(|largest| power_of_two((fraction_bits - largest).clamp(-1000, 1000)));
        let (mut aligned, mut plain) = ([0.0; 8], c);
        for column in 0..8 {
            aligned[column] = (c[column] * scale[column]).trunc();
        }
        for (k, &a) in a.iter().enumerate() {
            let row = b(k);
            for column in 0..8 {
                let product = a * row[column];
                plain[column] += product;
                aligned[column] += (product * scale[column]).trunc();
            }
        }
        std::array::from_fn(|column| {
            if plain[column].is_finite() {
                self.round(aligned[column] / scale[column])
            } else {
                plain[column]
            }
        })
    }

    /// Rounds to the result's type.
    #[inline(always)]
    fn round(self, value: f64) -> f64 {
        let (format, rounding) = match self.result {
            Element::F16 => (Format::F16, Rounding::NearestEven),
            _ => (Format::F32, Rounding::Zero),
        };
        format.decode(format.encode(value, rounding, false))
    }

    /// D = A B + C.
    pub fn multiply(self, a: &Tile<f64>, b: &Tile<f64>, c: &Tile<f64>) -> Tile<f64> {
        let mut d = Tile::zeros(c.rows(), c.columns());
        for row in 0..c.rows() {
            for first in (0..c.columns()).step_by(8) {
                let eight = |values: &[f64]| std::array::from_fn(|column| values[first + column]);
                let sums = self.row(a.row(row), |k| eight(b.row(k)), eight(c.row(row)));
                d.row_mut(row)[first..first + 8].copy_from_slice(&sums);
            }
        }
        d
    }
}

/// The exponent of the leading bit; that of zero is below all others.
#[inline(always)]
fn exponent(value: f64) -> i32 {
    let field = (value.to_bits() >> 52 & 0x7ff) as i32;
    if field == 0 { NO_EXPONENT } else { field - 1023 }
}

/// The bits of a result of type `F32` or `F16`.
#[inline(always)]
pub fn result_bits(result: Element, value: f64) -> u32 {
    match result {
        Element::F16 => Format::F16.encode(value, Rounding::NearestEven, false),
        _ if value.is_nan() => NAN,
        _ => (value as f32).to_bits(),
    }
}

/// D = A B + C in f64: one fused multiply-add after the other.
pub fn multiply_f64(a: &Tile<f64>, b: &Tile<f64>, c: &Tile<f64>) -> Tile<f64> {
    let mut d = c.clone();
    for row in 0..c.rows() {
        for (k, &left) in a.row(row).iter().enumerate() {
            for (sum, &right) in d.row_mut(row).iter_mut().zip(b.row(k)) {
                *sum = left.mul_add(right, *sum);
            }
        }
    }
    d
}

/// What integer multiplies do with two elements, and with the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerSum {
    /// Products; the sum is taken modulo 2^32.
    Wrapping,
    /// Products; the sum is clamped to an `s32` (`.satfinite`).
    Saturating,
    /// The number of bits that differ (`.xor.popc`).
    Differing,
    /// The number of bits set in both (`.and.popc`).
    Common,
}

impl IntegerSum {
    /// D = A B + C.
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
