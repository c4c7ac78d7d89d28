//! A and B of a `wgmma`, from shared memory or registers to the multiplied form.

use std::ops::Range;

use warpwright_arch::DataType;

use super::aligned_sum::{BLOCK, COLUMNS, Left, ROWS, Right};
use super::descriptor::{Major, MatrixDescriptor, PIECE};
use super::sparse::Metadata;
use super::tile::Tile;
use super::warpgroup::{LEFT_REGISTERS, WARPS, WarpgroupMultiply};
use super::{Column, Shape};

/// A matrix extends beyond shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The address of the first 16-byte part outside.
    pub address: u32,
}

/// The source of A.
#[derive(Clone, Copy)]
pub enum LeftOperand<'a> {
    /// Shared memory.
    Shared(MatrixDescriptor),
    /// The registers of the four warps.
    Registers(&'a [[Column; LEFT_REGISTERS]; WARPS]),
    /// Another source, as a function of row and step.
    Elements(&'a dyn Fn(usize, usize) -> u32),
}

/// The prepared operands of an MMA. Kept between MMAs for its allocation.
#[derive(Debug, Default)]
pub struct Operands {
    /// The bits of elements: of A by steps of the depth, of B by eight columns and then by steps.
    bits: Vec<u32>,
    pub(super) floats: Floats,
    pub(super) integers: Integers,
}

#[derive(Debug, Default)]
pub(super) struct Floats {
    pub(super) left: [Left; WARPS],
    pub(super) right: Right,
}

#[derive(Debug, Default)]
pub(super) struct Integers {
    pub(super) left: [Vec<[i32; BLOCK]>; WARPS],
    pub(super) right: Vec<[i32; 2 * COLUMNS]>,
}

impl Operands {
    /// The sides of a product of one warp.
    pub(super) fn warp(&mut self) -> (&mut Left, &mut Right) {
        (&mut self.floats.left[0], &mut self.floats.right)
    }
}

impl WarpgroupMultiply {
    /// Makes A and B ready.
    #[inline(always)]
    pub fn read(
        &self,
        operands: &mut Operands,
        a: LeftOperand<'_>,
        metadata: Option<&[Column; WARPS]>,
        b: MatrixDescriptor,
        shared: &[u8],
    ) -> Result<(), Outside> {
        self.read_left(operands, a, metadata, shared)?;
        self.read_right(operands, 0..self.shape.n, b, shared)?;
        self.ready_right(operands);
        Ok(())
    }

    /// Makes A ready.
    #[inline(always)]
    pub(super) fn read_left(
        &self,
        operands: &mut Operands,
        a: LeftOperand<'_>,
        metadata: Option<&[Column; WARPS]>,
        shared: &[u8],
    ) -> Result<(), Outside> {
        let Operands { bits, floats, integers } = operands;
        let depth = self.steps();
        let stored = if metadata.is_some() { depth / 2 } else { depth };
        bits.resize(WARPS * ROWS * depth.max(stored), 0);
        match a {
            LeftOperand::Shared(descriptor) => {
                let matrix = Matrix {
                    descriptor,
                    major: self.majors.0,
                    element: self.a,
                    width: self.element_bits(),
                    shared,
                };
                matrix.collect((WARPS * ROWS, stored), BySteps, bits)?;
            }
            LeftOperand::Registers(warps) => collect_registers(warps, self.element_bits(), stored, bits),
            LeftOperand::Elements(element) => {
                for (step, row) in (0..stored).flat_map(|step| (0..WARPS * ROWS).map(move |row| (step, row)))
                {
                    bits[step * WARPS * ROWS + row] = element(row, step);
                }
            }
        }
        if let Some(metadata) = metadata {
            self.expand(metadata, stored, bits);
        }
        for warp in 0..WARPS {
            let rows = |step: usize| &bits[step * WARPS * ROWS + warp * ROWS..][..ROWS];
            if self.d == DataType::S32 {
                let left = &mut integers.left[warp];
                left.resize(depth, [0; BLOCK]);
                for step in 0..depth {
                    fill_integers(self.a, rows(step), &mut left[step]);
                }
            } else {
                floats.left[warp].reserve(depth);
                for step in 0..depth {
                    let mut values = [0.0; ROWS];
                    fill_floats(self.a, rows(step), self.negated, &mut values);
                    floats.left[warp].set(step, &values, least_exponent(self.a));
                }
            }
        }
        Ok(())
    }

    /// Collects some columns of B, a multiple of eight.
    #[inline(always)]
    pub(super) fn read_right(
        &self,
        operands: &mut Operands,
        columns: Range<usize>,
        b: MatrixDescriptor,
        shared: &[u8],
    ) -> Result<(), Outside> {
        let depth = self.steps();
        operands.bits.resize(self.shape.n * depth, 0);
        let matrix = Matrix {
            descriptor: b,
            major: self.majors.1,
            element: self.b,
            width: self.element_bits(),
            shared,
        };
        let bits = &mut operands.bits[columns.start * depth..columns.end * depth];
        matrix.collect((columns.len(), depth), ByEights, bits)
    }

    /// Collects all columns of B, of which the first is `from` columns after that of the descriptor.
    pub(super) fn read_right_from(
        &self,
        operands: &mut Operands,
        from: usize,
        b: MatrixDescriptor,
        shared: &[u8],
    ) -> Result<(), Outside> {
        let (depth, extent) = (self.steps(), from + self.shape.n);
        let (descriptor, major, element, width) = (b, self.majors.1, self.b, self.element_bits());
        let mut all = vec![0; extent * depth];
        Matrix { descriptor, major, element, width, shared }.collect((extent, depth), Rows, &mut all)?;
        operands.bits.resize(self.shape.n * depth, 0);
        for (column, steps) in all.chunks_exact(depth).skip(from).enumerate() {
            let (first, stride) = ByEights.row(column, depth);
            for (step, &bits) in steps.iter().enumerate() {
                operands.bits[first + step * stride] = bits;
            }
        }
        Ok(())
    }

    /// Makes collected columns of B zeros.
    pub(super) fn clear_right(&self, operands: &mut Operands, is_zero: impl Fn(usize) -> bool) {
        let depth = self.steps();
        for column in (0..self.shape.n).filter(|&column| is_zero(column)) {
            let (first, stride) = ByEights.row(column, depth);
            for step in 0..depth {
                operands.bits[first + step * stride] = 0;
            }
        }
    }

    /// Makes B ready, once all its columns are collected.
    #[inline(always)]
    pub(super) fn ready_right(&self, operands: &mut Operands) {
        let Operands { bits, floats, integers } = operands;
        let (depth, columns) = (self.steps(), self.shape.n);
        if self.d == DataType::S32 {
            integers.right.resize(columns / 8 * depth, [0; 2 * COLUMNS]);
            fill_integers(self.b, bits, integers.right.as_flattened_mut());
        } else {
            let values = floats.right.reserve(columns, depth);
            fill_floats(self.b, bits, false, values);
            floats.right.find_exponents(least_exponent(self.b));
        }
    }

    /// The ranges of shared memory that one warp's share of the MMA reads, in order and disjoint.
    pub fn ranges(&self, a: Option<MatrixDescriptor>, b: MatrixDescriptor, warp: usize) -> Vec<Range<u32>> {
        let pieces = |descriptor: MatrixDescriptor, major: Major, along: Range<usize>, steps: usize| {
            let (along, deep) = match major {
                Major::K => (along, steps * self.element_bits() / (8 * PIECE as usize)),
                Major::Mn => (along.start / 8..along.end / 8, steps),
            };
            let places = along.flat_map(move |along| (0..deep).map(move |deep| (along as u32, deep as u32)));
            places.map(move |(along, deep)| descriptor.address(major, along, deep)).collect::<Vec<u32>>()
        };
        let stored = if self.selector.is_some() { self.steps() / 2 } else { self.steps() };
        let mut starts = pieces(b, self.majors.1, 0..self.shape.n, self.steps());
        starts
            .extend(a.iter().flat_map(|&a| pieces(a, self.majors.0, warp * ROWS..(warp + 1) * ROWS, stored)));
        starts.sort_unstable();
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for start in starts {
            match ranges.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(start + PIECE),
                _ => ranges.push(start..start + PIECE),
            }
        }
        ranges
    }

    /// Steps of the depth: elements, or words of bits.
    pub(super) fn steps(&self) -> usize {
        self.shape.k * self.stored_bits(self.a) / self.element_bits()
    }

    /// The width of the elements that are multiplied: bits are taken by words.
    fn element_bits(&self) -> usize {
        if self.a == DataType::B1 { 32 } else { self.stored_bits(self.a) }
    }

    /// Bits of an element in shared memory: floats of 4 and 6 bits have a byte each, since 16 of them
    /// are followed by padding up to 16 bytes, unless they are packed (PTX ISA, "Packing formats used
    /// in shared memory").
    pub(super) fn stored_bits(&self, element: DataType) -> usize {
        let bits = element.bits() as usize;
        if element.is_float() && !self.packed { bits.max(8) } else { bits }
    }

    /// Puts the zeros that are not stored between the elements of A.
    fn expand(&self, metadata: &[Column; WARPS], stored: usize, bits: &mut Vec<u32>) {
        let shape = Shape { m: ROWS, ..self.shape };
        let positions = Metadata::new(shape, self.a, self.selector.unwrap_or(0));
        let mut full = vec![0; WARPS * ROWS * self.shape.k];
        for (warp, metadata) in metadata.iter().enumerate() {
            let mut tile = Tile::zeros(ROWS, stored);
            for (row, step) in (0..ROWS).flat_map(|row| (0..stored).map(move |step| (row, step))) {
                tile.set(row, step, bits[(step * WARPS + warp) * ROWS + row]);
            }
            let expanded = positions.expand(&tile, metadata);
            for (row, step) in (0..ROWS).flat_map(|row| (0..self.shape.k).map(move |step| (row, step))) {
                full[(step * WARPS + warp) * ROWS + row] = expanded.get(row, step);
            }
        }
        *bits = full;
    }
}

/// A matrix in shared memory.
pub(super) struct Matrix<'a> {
    pub(super) descriptor: MatrixDescriptor,
    pub(super) major: Major,
    pub(super) element: DataType,
    /// Bits of an element in shared memory.
    pub(super) width: usize,
    pub(super) shared: &'a [u8],
}

impl Matrix<'_> {
    /// The words of a piece.
    #[inline(always)]
    fn piece(&self, along: usize, deep: usize) -> Result<[u32; 4], Outside> {
        let address = self.descriptor.address(self.major, along as u32, deep as u32);
        let bytes =
            self.shared.get(address as usize..).and_then(|rest| rest.first_chunk::<{ PIECE as usize }>());
        let Some(bytes) = bytes else { return Err(Outside { address }) };
        let words = words_of(bytes);
        Ok(if self.width == 8 && self.element.bits() < 8 {
            spread(words, self.element.bits())
        } else {
            words
        })
    }

    /// Collects the bits of the elements of `extent` rows (columns) and `depth` steps.
    #[inline(always)]
    pub(super) fn collect(
        &self,
        size: (usize, usize),
        layout: impl Layout,
        bits: &mut [u32],
    ) -> Result<(), Outside> {
        match (self.width, self.major) {
            (4, _) => self.collect_wide::<4>(size, layout, bits),
            (8, Major::K) => self.collect_wide::<8>(size, layout, bits),
            (16, Major::K) => self.collect_wide::<16>(size, layout, bits),
            (_, Major::K) => self.collect_wide::<32>(size, layout, bits),
            (8, Major::Mn) => self.collect_transposed::<8>(size, layout, bits),
            (16, Major::Mn) => self.collect_transposed::<16>(size, layout, bits),
            (_, Major::Mn) => self.collect_transposed::<32>(size, layout, bits),
        }
    }

    #[inline(always)]
    fn collect_wide<const WIDTH: usize>(
        &self,
        (extent, depth): (usize, usize),
        layout: impl Layout,
        bits: &mut [u32],
    ) -> Result<(), Outside> {
        let each = 32 / WIDTH;
        for along in 0..extent {
            let (first, stride) = layout.row(along, depth);
            for deep in 0..depth / (4 * each) {
                let piece = self.piece(along, deep)?;
                let start = first + deep * 4 * each * stride;
                let places = &mut bits[start..start + (4 * each - 1) * stride + 1];
                for word in 0..4 {
                    for part in 0..each {
                        let value = piece[word] >> (part * WIDTH) & (u32::MAX >> (32 - WIDTH));
                        places[(word * each + part) * stride] = value;
                    }
                }
            }
        }
        Ok(())
    }

    /// The same if rows are adjacent, as many as fit into a part.
    #[inline(always)]
    fn collect_transposed<const WIDTH: usize>(
        &self,
        (extent, depth): (usize, usize),
        layout: impl Layout,
        bits: &mut [u32],
    ) -> Result<(), Outside> {
        let (rows, each) = (8 * PIECE as usize / WIDTH, 32 / WIDTH);
        for along in 0..extent.div_ceil(rows) {
            for step in 0..depth {
                let piece = self.piece(along, step)?;
                for row in 0..rows.min(extent - along * rows) {
                    let (first, stride) = layout.row(along * rows + row, depth);
                    let value = piece[row / each] >> (row % each * WIDTH) & (u32::MAX >> (32 - WIDTH));
                    bits[first + step * stride] = value;
                }
            }
        }
        Ok(())
    }
}

/// The destination of a row of A or a column of B: the index of the first element, and the stride.
pub(super) trait Layout {
    fn row(&self, row: usize, depth: usize) -> (usize, usize);
}

/// All rows of A, step after step.
struct BySteps;

impl Layout for BySteps {
    #[inline(always)]
    fn row(&self, row: usize, _: usize) -> (usize, usize) {
        (row, WARPS * ROWS)
    }
}

/// The words of a piece.
#[inline(always)]
pub(crate) fn words_of(bytes: &[u8; PIECE as usize]) -> [u32; 4] {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4), word(8), word(12)]
}

/// 16 elements of 4 or 6 bits and their padding, as a byte each, in its lower bits.
#[cold]
pub(crate) fn spread(words: [u32; 4], width: u32) -> [u32; 4] {
    let packed = words.iter().rev().fold(0u128, |packed, &word| packed << 32 | u128::from(word));
    let byte = |index: u32| (packed >> (index * width)) as u32 & ((1 << width) - 1);
    std::array::from_fn(|word| (0..4).map(|part| byte(4 * word as u32 + part) << (8 * part)).sum())
}

/// Row after row, or column after column.
pub(super) struct Rows;

impl Layout for Rows {
    #[inline(always)]
    fn row(&self, row: usize, depth: usize) -> (usize, usize) {
        (row * depth, 1)
    }
}

/// Eight columns of B at a time, and for these step after step: the even columns, then the odd
/// ones.
struct ByEights;

impl Layout for ByEights {
    #[inline(always)]
    fn row(&self, column: usize, depth: usize) -> (usize, usize) {
        (column / 8 * depth * 8 + column % 2 * COLUMNS + column % 8 / 2, 8)
    }
}

/// Collects A from registers. Lane t holds, in its registers 0 and 2, parts of row t / 4, in the
/// others of the eighth row after it; each register is the t % 4-th word of 16 bytes (PTX ISA,
/// "Register fragments" of wgmma).
fn collect_registers(
    warps: &[[Column; LEFT_REGISTERS]; WARPS],
    element_bits: usize,
    depth: usize,
    bits: &mut [u32],
) {
    let (each, mask) = (32 / element_bits, u32::MAX >> (32 - element_bits));
    for (warp, registers) in warps.iter().enumerate() {
        for step in 0..depth {
            let (word, part) = (step / each, step % each);
            for row in 0..ROWS {
                let register = &registers[word / 4 * 2 + row / 8];
                let value = register[row % 8 * 4 + word % 4] >> (part * element_bits) & mask;
                bits[(step * WARPS + warp) * ROWS + row] = value;
            }
        }
    }
}

/// The numbers that elements are, or their negatives. (A loop for each type, for the machine's
/// vectors.)
#[inline(always)]
pub(super) fn fill_floats(element: DataType, bits: &[u32], negated: bool, values: &mut [f32]) {
    let sign = u32::from(negated) << 31;
    macro_rules! fill {
        ($value:ident) => {
            for (value, &bits) in values.iter_mut().zip(bits) {
                *value = f32::from_bits($value(bits).to_bits() ^ sign);
            }
        };
    }
    match element {
        DataType::F16 => fill!(half_value),
        DataType::Bf16 => fill!(brain_value),
        DataType::Tf32 => fill!(tensor_value),
        DataType::E4m3 => fill!(e4m3_value),
        DataType::E3m2 => fill!(e3m2_value),
        DataType::E2m3 => fill!(e2m3_value),
        DataType::E2m1 => fill!(e2m1_value),
        _ => fill!(e5m2_value),
    }
}

/// The values of elements, repeated if more values than elements are needed.
#[inline(always)]
fn fill_integers(element: DataType, bits: &[u32], values: &mut [i32]) {
    let repeats = values.len() / bits.len();
    match element {
        DataType::S8 => {
            for (values, &bits) in values.chunks_exact_mut(repeats).zip(bits) {
                values.fill(i32::from(bits as i8));
            }
        }
        _ => {
            for (values, &bits) in values.chunks_exact_mut(repeats).zip(bits) {
                values.fill(bits as i32);
            }
        }
    }
}

/// The exponent of subnormal operands, which are not normalized.
pub(super) fn least_exponent(element: DataType) -> i16 {
    match element {
        DataType::Tf32 | DataType::Bf16 => -126,
        DataType::E4m3 => -6,
        DataType::E3m2 => -2,
        DataType::E2m3 | DataType::E2m1 => 0,
        _ => -14,
    }
}

/// The exponent bias of f16 is 112 less than that of f32; multiplying by 2^112 corrects it, also
/// for subnormals.
#[inline(always)]
pub(super) fn half_value(bits: u32) -> f32 {
    let scaled = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (bits & 0x8000) << 16)
}

#[inline(always)]
fn brain_value(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// The low 13 bits of a tf32 are ignored.
#[inline(always)]
fn tensor_value(bits: u32) -> f32 {
    f32::from_bits(bits & 0xffff_e000)
}

/// As for f16: the exponent bias is 120 less than that of f32, and infinities do not exist.
#[inline(always)]
fn e4m3_value(bits: u32) -> f32 {
    let scaled = f32::from_bits((bits & 0x7f) << 20) * f32::from_bits((127 + 120) << 23);
    let special = if bits & 0x7f == 0x7f { 0x7fff_ffff } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (bits & 0x80) << 24)
}

/// An e5m2 is the upper half of an f16.
#[inline(always)]
fn e5m2_value(bits: u32) -> f32 {
    half_value(bits << 8)
}

/// The value of a float of at most 6 bits, which has neither infinities nor NaN: its exponent bias is
/// `less` less than that of f32, and its sign is bit `sign`.
#[inline(always)]
fn small_value(bits: u32, sign: u32, fraction: u32, less: u32) -> f32 {
    let magnitude = bits & ((1 << sign) - 1);
    let scaled = f32::from_bits(magnitude << (23 - fraction)) * f32::from_bits((127 + less) << 23);
    f32::from_bits(scaled.to_bits() | (bits >> sign & 1) << 31)
}

#[inline(always)]
fn e3m2_value(bits: u32) -> f32 {
    small_value(bits, 5, 2, 124)
}

#[inline(always)]
fn e2m3_value(bits: u32) -> f32 {
    small_value(bits, 5, 3, 126)
}

#[inline(always)]
fn e2m1_value(bits: u32) -> f32 {
    small_value(bits, 3, 1, 126)
}

#[cfg(test)]
mod tests {
    use super::super::element;
    use super::*;

    #[test]
    fn values_are_those_of_the_formats() {
        type Case = (DataType, u32, fn(u32) -> f32);
        let cases: [Case; 7] = [
            (DataType::F16, 16, half_value),
            (DataType::Bf16, 16, brain_value),
            (DataType::E4m3, 8, e4m3_value),
            (DataType::E5m2, 8, e5m2_value),
            (DataType::E3m2, 6, e3m2_value),
            (DataType::E2m3, 6, e2m3_value),
            (DataType::E2m1, 4, e2m1_value),
        ];
        for (data_type, width, value) in cases {
            for bits in 0..1u32 << width {
                let (found, expected) = (value(bits), element::float(data_type, bits.into()) as f32);
                let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(same, "{data_type:?} {bits:#x}: {found} {expected}");
            }
        }
    }
}
