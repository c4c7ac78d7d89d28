//! `tcgen05.mma` with scales of blocks (PTX ISA, "Block Scaling for tcgen05.mma").
//!
//! D = (A·scales of A)·(B·scales of B) + D. A row of A and a column of B have a scale for each block
//! along k. Here an element of D is the exact sum, rounded once to the nearest f32. (The PTX ISA says
//! only that accumulation has at least single precision, and no such GPU was available.)

use warpwright_arch::DataType;

use super::descriptor::{Major, MatrixDescriptor};
use super::element::float;
use super::warpgroup_operands::{Matrix, Outside, Rows};
use crate::numeric::exact_sum::ExactSum;
use crate::numeric::format::Format;

/// The scales of an MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scaling {
    /// Elements along k that have a scale in common.
    pub(crate) block: usize,
    /// ue8m0, or e4m3 without its sign.
    pub(crate) element: DataType,
    /// The byte of a cell with the first scale, of A and of B.
    pub(crate) first: [usize; 2],
}

/// A scale: `mantissa * 2^exponent`, or NaN.
type Scale = Option<(i64, i32)>;

impl Scaling {
    /// The scale in a cell for a block along k; `first` of A or of B.
    pub(crate) fn scale(&self, cell: u32, first: usize, block: usize) -> Scale {
        let byte = cell.to_le_bytes()[(first + block) % 4];
        match self.element {
            DataType::Ue8m0 => (byte != 0xff).then(|| (1, i32::from(byte) - 127)),
            _ if byte & 0x7f == 0x7f => None,
            _ => Some(((Format::E4M3.decode(u32::from(byte & 0x7f)) * 512.0) as i64, -9)),
        }
    }
}

/// Elements of A or of B.
#[derive(Debug)]
pub(crate) struct Elements {
    depth: usize,
    /// Integers, row after row of A or column after column of B, in units of 2^-`UNIT`.
    values: Vec<i64>,
    /// The infinities and NaN among them, which are 0 in `values`.
    special: Vec<(usize, f64)>,
}

/// The least positive e5m2 is 2^-16; no element has a lower bit.
const UNIT: i32 = 16;

impl Elements {
    /// Reads rows of A, or columns of B, from shared memory.
    pub(crate) fn read(
        matrix: (MatrixDescriptor, Major),
        (element, width): (DataType, usize),
        (extent, depth): (usize, usize),
        shared: &[u8],
    ) -> Result<Self, Outside> {
        let mut bits = vec![0; extent * depth];
        let (descriptor, major) = matrix;
        Matrix { descriptor, major, element, width, shared }.collect((extent, depth), Rows, &mut bits)?;
        Ok(Self::new(element, depth, &bits))
    }

    /// Elements by their bits.
    pub(crate) fn new(element: DataType, depth: usize, bits: &[u32]) -> Self {
        let decoded: Vec<f64> = bits.iter().map(|&bits| float(element, bits.into())).collect();
        let special = decoded.iter().copied().enumerate().filter(|(_, value)| !value.is_finite()).collect();
        let scaled = |value: &f64| if value.is_finite() { (value * f64::from(1 << UNIT)) as i64 } else { 0 };
        Self { depth, values: decoded.iter().map(scaled).collect(), special }
    }

    /// More of the same depth, after these.
    pub(crate) fn append(&mut self, other: Self) {
        let before = self.values.len();
        self.values.extend(other.values);
        self.special.extend(other.special.into_iter().map(|(at, value)| (before + at, value)));
    }

    /// The negative of each.
    pub(crate) fn negated(mut self) -> Self {
        self.values.iter_mut().for_each(|value| *value = -*value);
        self.special.iter_mut().for_each(|(_, value)| *value = -*value);
        self
    }

    fn row(&self, row: usize) -> &[i64] {
        &self.values[row * self.depth..][..self.depth]
    }

    /// Whether a row has an infinity or NaN.
    fn is_special(&self, row: usize) -> bool {
        self.special.iter().any(|(at, _)| at / self.depth == row)
    }

    /// An element as a number.
    fn number(&self, row: usize, step: usize) -> f64 {
        let at = row * self.depth + step;
        let special = self.special.iter().find(|(own, _)| *own == at);
        special.map_or(self.values[at] as f64 / f64::from(1 << UNIT), |(_, value)| *value)
    }
}

/// One element of D. `scales` gives the scales of a block for the row and for the column.
pub(crate) fn multiply_add(
    (a, row): (&Elements, usize),
    (b, column): (&Elements, usize),
    block: usize,
    scales: impl Fn(usize) -> [Scale; 2],
    d: f32,
) -> f32 {
    let mut sum = ExactSum::default();
    let blocks = a.depth / block;
    let is_special = !d.is_finite()
        || a.is_special(row)
        || b.is_special(column)
        || (0..blocks).any(|block| scales(block).contains(&None));
    if is_special {
        // Infinities and NaN decide the result; what is finite cannot overflow an f64.
        let number = |scale: Scale| {
            scale.map_or(f64::NAN, |(mantissa, exponent)| mantissa as f64 * f64::from(exponent).exp2())
        };
        let products = (0..a.depth).map(|step| {
            let [of_a, of_b] = scales(step / block).map(number);
            a.number(row, step) * of_a * (b.number(column, step) * of_b)
        });
        let sum = products.sum::<f64>() + f64::from(d);
        return if sum.is_nan() { f32::from_bits(Format::F32.nan) } else { sum as f32 };
    }
    for (number, (a, b)) in a.row(row).chunks(block).zip(b.row(column).chunks(block)).enumerate() {
        let [Some(of_a), Some(of_b)] = scales(number) else { continue };
        let dot: i128 = a.iter().zip(b).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum();
        sum.add(dot * i128::from(of_a.0 * of_b.0), of_a.1 + of_b.1 - 2 * UNIT);
    }
    sum.add_f32(d);
    sum.to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: u32, other: u32, scales: [Scale; 2], d: f32) -> f32 {
        let row = |bits: u32| Elements::new(DataType::E5m2, 32, &[[bits; 1].as_slice(), &[0; 31]].concat());
        multiply_add((&row(value), 0), (&row(other), 0), 32, |_| scales, d)
    }

    #[test]
    fn scales_are_powers_of_two_or_floats_without_sign() {
        let powers = Scaling { block: 32, element: DataType::Ue8m0, first: [0, 1] };
        assert_eq!(powers.scale(0x80_00_7f, 0, 0), Some((1, 0)));
        assert_eq!(powers.scale(0x80_00_7f, 1, 1), Some((1, 1)));
        assert_eq!(powers.scale(0xff, 0, 0), None);
        let floats = Scaling { block: 16, element: DataType::E4m3, first: [0, 0] };
        assert_eq!(floats.scale(0x38, 0, 0), Some((512, -9)));
        assert_eq!(floats.scale(0x7f, 0, 0), None);
    }

    #[test]
    fn infinities_and_nan_decide() {
        let (one_half, infinity) = (0x38, 0x7c);
        let unit = [Some((1, 0)); 2];
        assert_eq!(one(one_half, 0x40, unit, 1.0), 0.5 * 2.0 + 1.0);
        assert_eq!(one(infinity, 0x40, unit, 1.0), f32::INFINITY);
        assert!(one(infinity, 0, unit, 1.0).is_nan());
        assert!(one(infinity, 0x40, unit, f32::NEG_INFINITY).is_nan());
        assert!(one(one_half, 0x40, [None, Some((1, 0))], 1.0).is_nan());
        assert_eq!(one(0x7b, 0x7b, [Some((1, 127)); 2], 1.0), f32::INFINITY, "beyond the largest f32");
    }
}
