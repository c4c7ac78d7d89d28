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

    /// A format by its bits of exponent and of fraction, and the numbers that an all-ones exponent
    /// takes away.
    const FORMATS: [(DataType, i32, i32); 5] = [
        (DataType::E5m2, 5, 2),
        (DataType::E4m3, 4, 3),
        (DataType::E3m2, 3, 2),
        (DataType::E2m3, 2, 3),
        (DataType::E2m1, 2, 1),
    ];

    /// An element in units of 2^-16; `None` for infinities and NaN.
    fn units((element, exponents, fractions): (DataType, i32, i32), bits: u32) -> Option<i128> {
        let exponent = (bits >> fractions & ((1 << exponents) - 1)) as i32;
        let fraction = i128::from(bits & ((1 << fractions) - 1));
        let is_last = exponent == (1 << exponents) - 1;
        match element {
            DataType::E5m2 if is_last => return None,
            DataType::E4m3 if is_last && fraction == 7 => return None,
            _ => {}
        }
        let implied = if exponent == 0 { 0 } else { 1 << fractions };
        let magnitude =
            (fraction + implied) << (exponent.max(1) - ((1 << (exponents - 1)) - 1) - fractions + 16);
        Some(if bits >> (exponents + fractions) & 1 != 0 { -magnitude } else { magnitude })
    }

    /// `mantissa * 2^exponent`, rounded once to the nearest f32, ties to even.
    fn rounded(mantissa: i128, exponent: i32) -> f32 {
        if mantissa == 0 {
            return 0.0;
        }
        let magnitude = mantissa.unsigned_abs();
        let top = 127 - magnitude.leading_zeros() as i32 + exponent;
        let last = (top - 23).max(-149);
        let dropped = (last - exponent).max(0);
        let (kept, rest) = match dropped {
            0..128 => (magnitude >> dropped, magnitude & ((1 << dropped) - 1)),
            _ => (0, 0),
        };
        let half = if dropped == 0 { 0 } else { 1u128 << (dropped.min(127) - 1) };
        let is_up = dropped > 0 && (rest > half || rest == half && kept & 1 == 1);
        let value = (kept + u128::from(is_up)) as f64 * f64::from(last - (last - exponent).min(0)).exp2();
        (if mantissa < 0 { -value } else { value }) as f32
    }

    /// Random elements and scales of every format, held to integers of 128 bits: the scales of a case
    /// are within 2^16 of each other, anywhere in the range of ue8m0.
    #[test]
    fn sums_are_those_of_rational_arithmetic() {
        let mut state = 1u64;
        let mut random = move |count: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % count
        };
        for (number, case) in (0..4000).enumerate() {
            let (of_a, of_b) = (FORMATS[number % 5], FORMATS[number / 5 % 5]);
            let (block, depth) = if case % 2 == 0 { (32, 32) } else { (16, 64) };
            let row = |(element, exponents, fractions): (DataType, i32, i32),
                       random: &mut dyn FnMut(u64) -> u64| {
                let bits: Vec<u32> =
                    (0..depth).map(|_| random(2 << (exponents + fractions)) as u32).collect();
                (Elements::new(element, depth, &bits), bits)
            };
            let ((a, bits_a), (b, bits_b)) = (row(of_a, &mut random), row(of_b, &mut random));
            let base = [-127, 111, -60, 0][case % 4];
            let scales: Vec<[Scale; 2]> = (0..depth / block)
                .map(|_| [0, 1].map(|_| Some((1 + random(15) as i64, base + random(17) as i32))))
                .collect();
            // D in units of the least product, which are 2^-32 times the least scales.
            let unit = 2 * base - 32;
            let held = if (-149..80).contains(&unit) { i128::from(random(1 << 24)) - (1 << 23) } else { 0 };
            let d = (held as f64 * f64::from(unit.min(100)).exp2()) as f32;
            let found = multiply_add((&a, 0), (&b, 0), block, |block| scales[block], d);
            let mut sum = held;
            let mut is_special = false;
            for step in 0..depth {
                let [Some(one), Some(other)] = scales[step / block] else { continue };
                match (units(of_a, bits_a[step]), units(of_b, bits_b[step])) {
                    (Some(a), Some(b)) => {
                        let scale = i128::from(one.0 * other.0) << (one.1 + other.1 - 2 * base);
                        sum += a * b * scale;
                    }
                    _ => is_special = true,
                }
            }
            if is_special {
                assert!(!found.is_finite(), "{of_a:?} {of_b:?}: {found}");
            } else {
                assert_eq!(found, rounded(sum, unit), "{of_a:?} {of_b:?} scales of 2^{base}");
            }
        }
    }

    #[test]
    fn special_values_follow_ieee() {
        let (one, infinity, negative, nan, zero) = (0x3c, 0x7c, 0xfc, 0x7d, 0x00);
        let unit = [Some((1, 0)); 2];
        let extreme = |first, second| [Some((1, first)), Some((1, second))];
        // Elements of A and B, their scales, D, and the result.
        let cases = [
            (infinity, one, unit, 0.0, f32::INFINITY),
            (negative, one, unit, 0.0, f32::NEG_INFINITY),
            (infinity, infinity, unit, 0.0, f32::INFINITY),
            (infinity, negative, unit, 0.0, f32::NEG_INFINITY),
            (infinity, zero, unit, 0.0, f32::NAN),
            (nan, one, unit, 0.0, f32::NAN),
            (one, one, [None, Some((1, 0))], 0.0, f32::NAN),
            (zero, zero, [Some((1, 0)), None], 0.0, f32::NAN),
            (infinity, one, unit, f32::NEG_INFINITY, f32::NAN),
            (one, one, unit, f32::INFINITY, f32::INFINITY),
            (one, one, unit, f32::NAN, f32::NAN),
            (one, one, extreme(127, 0), 0.0, 2f32.powi(127)),
            (one, one, extreme(127, 1), 0.0, f32::INFINITY),
            (one, one, extreme(127, -127), 0.0, 1.0),
            (one, one, extreme(-127, -22), 0.0, f32::from_bits(1)),
            (one, one, extreme(-127, -127), 0.0, 0.0),
            (infinity, one, extreme(-127, -127), 0.0, f32::INFINITY),
        ];
        for (a, b, scales, d, expected) in cases {
            let found = self::one(a, b, scales, d);
            assert_eq!(
                found.to_bits(),
                if expected.is_nan() { 0x7fff_ffff } else { expected.to_bits() },
                "{a:#x} {b:#x} {scales:?} {d}"
            );
        }
    }
}
