//! `wgmma` in all its shapes and types (PTX ISA, "Asynchronous Warpgroup Level Matrix
//! Multiply-Accumulate Instructions").
//!
//! D and C are 64 rows by n columns, of which each of the four warps holds 16 rows; A is 64 rows by
//! k, from shared memory or from registers; B is k by n, always from shared memory. In every type a
//! row of A and a column of B are 32 bytes long (64 of B if A is sparse).

use warpwright_arch::DataType;
use warpwright_arch::mma::{self, Family, MMA_TABLE};
use warpwright_events::{TileOperand, TilePart};

use super::aligned_sum::{Accumulator, AlignedSum, BLOCK, COLUMNS, Left, ROWS, Right};
use super::descriptor::{Major, MatrixDescriptor};
use super::multiply::UnknownMultiply;
use super::warpgroup_operands::{Operands, half_value};
use super::{Column, LANES, Shape};

/// Warps of a warpgroup.
pub const WARPS: usize = 4;

/// Registers of a fragment of A.
pub const LEFT_REGISTERS: usize = 4;

/// The parameters of an MMA except for the addresses of its matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct WarpgroupMultiply {
    /// Rows and columns of D, and the depth.
    pub shape: Shape,
    /// The types of D, A and B.
    pub d: DataType,
    #[allow(missing_docs)]
    pub a: DataType,
    #[allow(missing_docs)]
    pub b: DataType,
    /// Whether floats of 4 bits have no padding.
    pub packed: bool,
    /// Whether sums of 8-bit floats keep as few bits as on Hopper.
    pub coarse: bool,
    /// Whether A is sparse, and the lanes with its metadata.
    pub selector: Option<usize>,
    /// The layout of A and B in shared memory.
    pub majors: (Major, Major),
    /// Whether the products are subtracted.
    pub negated: bool,
    /// Whether integer accumulators are clamped.
    pub saturating: bool,
}

/// The registers of an accumulator.
pub trait Registers {
    /// One of them.
    fn column(&self, register: usize) -> &Column;
    /// One of them, to write.
    fn column_mut(&mut self, register: usize) -> &mut Column;
}

impl WarpgroupMultiply {
    /// Checks that PTX has such an MMA.
    pub fn check(&self) -> Result<(), UnknownMultiply> {
        let unknown = |what: String| Err(UnknownMultiply::new(what));
        let (a, b, d) = (self.a, self.b, self.d);
        let family = if self.selector.is_some() { Family::SparseWarpgroup } else { Family::Warpgroup };
        let types = mma::Types { a, b, c: d, d };
        let mut rows =
            MMA_TABLE.iter().filter(|row| row.family == family && row.types().any(|own| own == types));
        let Some(row) = rows.next() else {
            return unknown(format!("wgmma from .{a} and .{b} into .{d} does not exist."));
        };
        let shape = mma::Shape::from(self.shape);
        if !row.shapes().any(|own| own == shape) {
            return unknown(format!(
                "wgmma of {shape} for .{a} does not exist: m is {}, k is {}, and n is a multiple of {} up \
                 to {}.",
                row.shape.m,
                row.shape.k,
                if a.is_float() { "8" } else { "16 (or 8 or 24)" },
                row.shape.n
            ));
        }
        if self.majors != (Major::K, Major::K) && self.a.bits() != 16 {
            return unknown(format!(
                "Matrices of .{} are K-major; only those of 16 bits may be transposed.",
                self.a.ptx()
            ));
        }
        if let Some(selector) = self.selector {
            let selectors = if self.a.bits() == 8 { 1 } else { 2 };
            if selector >= selectors {
                return unknown(format!(
                    "Sparse wgmma of .{} has sparsity selectors below {selectors}; {selector} was given.",
                    self.a.ptx()
                ));
            }
        }
        Ok(())
    }

    /// Registers of D that a lane holds.
    pub fn accumulator_registers(&self) -> usize {
        self.shape.n * self.d.bits() as usize / 64
    }

    /// Visits the 16-byte parts of shared memory that it reads, by address.
    pub(crate) fn pieces(
        &self,
        a: Option<MatrixDescriptor>,
        b: MatrixDescriptor,
        mut visit: impl FnMut(u32, TilePart),
    ) {
        let mut matrix =
            |operand, descriptor: MatrixDescriptor, major, rows: usize, depth: usize, bits: usize| {
                let each = 128 / bits as u32;
                let (along, deep) = match major {
                    Major::K => (rows as u32, depth as u32 / each),
                    Major::Mn => (rows as u32 / each, depth as u32),
                };
                for (along, deep) in (0..along).flat_map(|along| (0..deep).map(move |deep| (along, deep))) {
                    let (row, position, rows) = match major {
                        Major::K => (along, deep * each, 1),
                        Major::Mn => (along * each, deep, each),
                    };
                    let part = TilePart { operand, row, position, rows };
                    visit(descriptor.address(major, along, deep), part);
                }
            };
        let Shape { m, n, k } = self.shape;
        if let Some(a) = a {
            let stored = if self.selector.is_some() { k / 2 } else { k };
            matrix(TileOperand::A, a, self.majors.0, m, stored, self.stored_bits(self.a));
        }
        matrix(TileOperand::B, b, self.majors.1, n, k, self.stored_bits(self.b));
    }

    /// Multiplies the rows of one warp. Unless it `accumulates`, the accumulator's old value is
    /// ignored.
    #[inline(always)]
    pub fn multiply(
        &self,
        operands: &Operands,
        warp: usize,
        accumulates: bool,
        registers: &mut impl Registers,
    ) {
        let Operands { floats, integers, .. } = operands;
        let (left, right, columns) = (&floats.left[warp], &floats.right, self.shape.n);
        match self.d {
            DataType::S32 => {
                self.multiply_integers(&integers.left[warp], &integers.right, accumulates, registers);
            }
            _ => add_to(self.sum(), left, right, columns, accumulates, registers),
        }
    }

    /// Adds the products of the rows of one warp to floats.
    #[inline(always)]
    pub(crate) fn accumulate(&self, operands: &Operands, warp: usize, accumulator: &mut impl Accumulator) {
        let floats = &operands.floats;
        self.sum().accumulate(&floats.left[warp], &floats.right, self.shape.n, accumulator);
    }

    /// How products are added: all steps of the depth at once. Of 8-bit floats 13 bits are kept
    /// below the largest exponent, and as many of an f32 result, on Hopper (measured on H200). On
    /// Blackwell 25 bits are (arXiv 2511.10909); here 24, since 32 products are added in 32 bits.
    fn sum(&self) -> AlignedSum {
        let (fraction_bits, kept) = match self.a.bits() {
            ..=8 if self.coarse => (13, !0 << (23 - 13)),
            ..=8 => (24, !0),
            _ => (25, !0),
        };
        let kept = (self.d == DataType::F32).then_some(kept);
        AlignedSum { group: self.shape.k, fraction_bits, kept }
    }

    #[inline(always)]
    fn multiply_integers(
        &self,
        left: &[[i32; BLOCK]],
        right: &[[i32; 2 * COLUMNS]],
        accumulates: bool,
        registers: &mut impl Registers,
    ) {
        for (eight, right) in right.chunks_exact(left.len()).enumerate() {
            let sums = match self.a {
                DataType::B1 => integer_sums::<true>(left, right),
                _ => integer_sums::<false>(left, right),
            };
            for register in 0..4 {
                let sums = &sums[register % 2][register / 2 * LANES..][..LANES];
                let column = registers.column_mut(4 * eight + register);
                for lane in 0..LANES {
                    let before = if accumulates { column[lane] as i32 } else { 0 };
                    let clamped = before.saturating_add(sums[lane]);
                    let sum = if self.saturating { clamped } else { before.wrapping_add(sums[lane]) };
                    column[lane] = sum as u32;
                }
            }
        }
    }
}

/// Adds A B to `columns` columns of an accumulator in registers.
#[inline(always)]
pub(super) fn add_to(
    sum: AlignedSum,
    left: &Left,
    right: &Right,
    columns: usize,
    accumulates: bool,
    registers: &mut impl Registers,
) {
    match sum.kept {
        Some(_) => sum.accumulate(left, right, columns, &mut Singles { registers, accumulates }),
        None => sum.accumulate(left, right, columns, &mut Halves { registers, accumulates }),
    }
}

/// The products of two blocks, summed; for words of bits, the number of bits set in both.
#[inline(always)]
fn integer_sums<const BITS: bool>(left: &[[i32; BLOCK]], right: &[[i32; 2 * COLUMNS]]) -> [[i32; BLOCK]; 2] {
    let mut sums = [[0; BLOCK]; 2];
    for (a, b) in left.iter().zip(right) {
        for odd in 0..2 {
            // As many columns as elements, so that the loop below is one of vectors.
            let mut columns = [[0; COLUMNS]; ROWS];
            for row in &mut columns {
                row.copy_from_slice(&b[odd * COLUMNS..(odd + 1) * COLUMNS]);
            }
            let columns = columns.as_flattened();
            for element in 0..BLOCK {
                let (x, y) = (a[element], columns[element]);
                sums[odd][element] += if BITS { (x & y).count_ones() as i32 } else { x * y };
            }
        }
    }
    sums
}

/// An accumulator of f32: of eight columns, registers 0 and 1 hold the even and odd ones of the
/// first eight rows, 2 and 3 those of the others (PTX ISA, "Register fragments" of wgmma).
struct Singles<'a, R> {
    registers: &'a mut R,
    accumulates: bool,
}

impl<R: Registers> Accumulator for Singles<'_, R> {
    #[inline(always)]
    fn get(&self, eight: usize) -> [[f32; BLOCK]; 2] {
        let mut blocks = [[0.0; BLOCK]; 2];
        if self.accumulates {
            for register in 0..4 {
                let column = self.registers.column(4 * eight + register);
                let half = register / 2 * LANES;
                for lane in 0..LANES {
                    blocks[register % 2][half + lane] = f32::from_bits(column[lane]);
                }
            }
        }
        blocks
    }

    #[inline(always)]
    fn set(&mut self, eight: usize, blocks: &[[f32; BLOCK]; 2]) {
        for register in 0..4 {
            let column = self.registers.column_mut(4 * eight + register);
            let half = register / 2 * LANES;
            for lane in 0..LANES {
                column[lane] = blocks[register % 2][half + lane].to_bits();
            }
        }
    }
}

/// An accumulator of f16: as of f32, except that an even and an odd column share a register.
struct Halves<'a, R> {
    registers: &'a mut R,
    accumulates: bool,
}

impl<R: Registers> Accumulator for Halves<'_, R> {
    #[inline(always)]
    fn get(&self, eight: usize) -> [[f32; BLOCK]; 2] {
        let mut blocks = [[0.0; BLOCK]; 2];
        if self.accumulates {
            for half in 0..2 {
                let column = self.registers.column(2 * eight + half);
                for lane in 0..LANES {
                    blocks[0][half * LANES + lane] = half_value(column[lane] & 0xffff);
                    blocks[1][half * LANES + lane] = half_value(column[lane] >> 16);
                }
            }
        }
        blocks
    }

    #[inline(always)]
    fn set(&mut self, eight: usize, blocks: &[[f32; BLOCK]; 2]) {
        for half in 0..2 {
            let column = self.registers.column_mut(2 * eight + half);
            for lane in 0..LANES {
                let place = half * LANES + lane;
                column[lane] = half_bits(blocks[0][place]) | half_bits(blocks[1][place]) << 16;
            }
        }
    }
}

/// The bits of a number that is an f16: scaled by 2^-112 its exponent field is that of f16, also
/// for subnormals.
#[inline(always)]
pub(super) fn half_bits(value: f32) -> u32 {
    let bits = value.to_bits();
    let scaled = f32::from_bits(bits & 0x7fff_ffff) * f32::from_bits((127 - 112) << 23);
    let special = if bits & 0x007f_ffff == 0 { 0x7c00 } else { 0x7fff };
    let magnitude = if bits & 0x7f80_0000 == 0x7f80_0000 { special } else { scaled.to_bits() >> 13 };
    let sign = if special == 0x7fff && magnitude == 0x7fff { 0 } else { bits >> 16 & 0x8000 };
    magnitude | sign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_through_f32_unchanged() {
        for bits in 0..1u32 << 16 {
            let value = half_value(bits);
            let expected = if value.is_nan() { 0x7fff } else { bits };
            assert_eq!(half_bits(value), expected, "{bits:#x}");
        }
    }
}
