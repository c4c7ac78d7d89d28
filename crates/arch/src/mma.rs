//! The MMA instructions: which shapes and data types exist.
//!
//! [`MMA_TABLE`] is the only list of them. The instruction table, the atoms of the layout algebra,
//! the language's checks and the emulator's decoder derive from it.

use std::fmt;

use crate::DataType::{self, *};

/// An operand of D = A B + C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The m x k operand; if A is sparse, the m x k/2 elements that are stored.
    A,
    /// The k x n operand. CuTe and the layout algebra take it as n x k.
    B,
    /// The m x n accumulator that is read.
    C,
    /// The m x n accumulator that is written.
    D,
}

impl Operand {
    /// All operands.
    pub const ALL: [Operand; 4] = [Operand::A, Operand::B, Operand::C, Operand::D];
}

/// An instruction family. It determines how fragments are distributed over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `mma.sync.m8n8k4` of f16 (sm_70): four quadpairs of 8 threads, each with its own product.
    Quadpair,
    /// `mma.sync` since sm_75: one warp.
    Warp,
    /// `mma.sp`: one warp, A is 2:4 sparse.
    SparseWarp,
    /// `wmma`: one warp, fragments are opaque.
    Wmma,
    /// `wgmma.mma_async` (sm_90a): four warps; B, and optionally A, is read from shared memory.
    Warpgroup,
    /// `wgmma.mma_async.sp` (sm_90a): as `Warpgroup`, A is 2:4 sparse.
    SparseWarpgroup,
}

impl Family {
    /// Whether four warps execute the instruction together.
    pub const fn is_warpgroup(self) -> bool {
        matches!(self, Family::Warpgroup | Family::SparseWarpgroup)
    }

    /// Whether A is sparse: half of its elements are stored.
    pub const fn is_sparse(self) -> bool {
        matches!(self, Family::SparseWarp | Family::SparseWarpgroup)
    }

    /// Threads that share one product.
    pub const fn threads(self) -> u32 {
        match self {
            Family::Quadpair => 8,
            Family::Warp | Family::SparseWarp | Family::Wmma => 32,
            Family::Warpgroup | Family::SparseWarpgroup => 128,
        }
    }
}

/// The extents of one MMA: D is m x n, the depth is k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A and rows of B.
    pub k: u32,
}

impl fmt::Display for Shape {
    /// As PTX writes it: `m16n8k16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

/// The data types of one MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the operands' own names
pub struct Types {
    pub a: DataType,
    pub b: DataType,
    pub c: DataType,
    pub d: DataType,
}

impl Types {
    /// A and B of one type, C and D of another.
    pub const fn new(input: DataType, accumulator: DataType) -> Types {
        Types { a: input, b: input, c: accumulator, d: accumulator }
    }
}

/// A row of [`MMA_TABLE`]: one shape and the data types it exists for.
#[derive(Clone, Copy, Debug)]
pub struct MmaRow {
    /// The first architecture: `80` for sm_80.
    pub sm: u32,
    /// The first PTX ISA version that has it, as (major, minor).
    pub ptx_version: (u32, u32),
    /// The instruction family.
    pub family: Family,
    /// The shape. For `wgmma`, n is the largest one; see [`shapes`](Self::shapes).
    pub shape: Shape,
    /// The types of (A, B).
    pub inputs: &'static [(DataType, DataType)],
    /// The types of (C, D). Every pair combines with every pair of `inputs`.
    pub accumulators: &'static [(DataType, DataType)],
}

impl MmaRow {
    /// Every shape of the row: `wgmma` has n from 8 to 256 in steps of 8, and of 16 above 32 for
    /// integers and bits (PTX ISA, "Matrix shape" of wgmma).
    pub fn shapes(&self) -> impl Iterator<Item = Shape> + use<> {
        let largest = self.shape;
        let is_float = self.inputs[0].0.is_float();
        let first = if self.family.is_warpgroup() { 8 } else { largest.n };
        let widths = (first..=largest.n).step_by(8);
        let legal = widths.filter(move |n| first == largest.n || is_float || *n <= 32 || n % 16 == 0);
        legal.map(move |n| Shape { n, ..largest })
    }

    /// Every combination of data types of the row.
    pub fn types(&self) -> impl Iterator<Item = Types> + use<> {
        let accumulators = self.accumulators;
        let inputs = self.inputs.iter();
        inputs.flat_map(move |&(a, b)| accumulators.iter().map(move |&(c, d)| Types { a, b, c, d }))
    }

    /// The registers of a thread's fragment of an operand of `data_type`, for a shape of the row:
    /// 64-bit registers for f64, else 32-bit ones.
    pub fn registers(&self, operand: Operand, shape: Shape, data_type: DataType) -> u32 {
        let Shape { m, n, k } = shape;
        let elements = match operand {
            // PTX ISA, "Matrix fragments for WMMA": eight registers whatever the shape.
            Operand::A | Operand::B if self.family == Family::Wmma && data_type == F16 => return 8,
            Operand::A if self.family.is_sparse() => m * k / 2,
            Operand::A => m * k,
            Operand::B => n * k,
            Operand::C | Operand::D => m * n,
        };
        let bits = elements / self.family.threads() * data_type.bits();
        bits / data_type.bits().max(32)
    }
}

/// The rows of a family that have a shape.
pub fn rows(family: Family, shape: Shape) -> impl Iterator<Item = &'static MmaRow> {
    MMA_TABLE.iter().filter(move |row| row.family == family && row.shapes().any(|own| own == shape))
}

/// Whether an MMA of this family, shape and types exists.
///
/// ```
/// use warpwright_arch::DataType::{F16, F32};
/// use warpwright_arch::mma::{Family, Shape, Types, exists};
/// let types = Types { a: F16, b: F16, c: F32, d: F32 };
/// assert!(exists(Family::Warp, Shape { m: 16, n: 8, k: 16 }, types));
/// assert!(!exists(Family::Warp, Shape { m: 16, n: 8, k: 32 }, types));
/// ```
pub fn exists(family: Family, shape: Shape, types: Types) -> bool {
    rows(family, shape).any(|row| row.types().any(|own| own == types))
}

type Pairs = &'static [(DataType, DataType)];

const fn row(
    sm: u32,
    ptx_version: (u32, u32),
    family: Family,
    (m, n, k): (u32, u32, u32),
    inputs: Pairs,
    accumulators: Pairs,
) -> MmaRow {
    MmaRow { sm, ptx_version, family, shape: Shape { m, n, k }, inputs, accumulators }
}

// Types of (A, B).
const HALVES: Pairs = &[(F16, F16)];
const BFLOATS: Pairs = &[(Bf16, Bf16)];
const TF32S: Pairs = &[(Tf32, Tf32)];
const DOUBLES: Pairs = &[(F64, F64)];
const FP8: Pairs = &[(E4m3, E4m3), (E4m3, E5m2), (E5m2, E4m3), (E5m2, E5m2)];
const BYTES: Pairs = &[(U8, U8), (U8, S8), (S8, U8), (S8, S8)];
const BYTES_OF_ONE_SIGN: Pairs = &[(U8, U8), (S8, S8)];
const BYTES_OF_BOTH_SIGNS: Pairs = &[(U8, S8), (S8, U8)];
const NIBBLES: Pairs = &[(U4, U4), (U4, S4), (S4, U4), (S4, S4)];
const NIBBLES_OF_ONE_SIGN: Pairs = &[(U4, U4), (S4, S4)];
const BITS: Pairs = &[(B1, B1)];

// Types of (C, D).
const INTO_F16: Pairs = &[(F16, F16)];
const INTO_F32: Pairs = &[(F32, F32)];
const INTO_FLOAT: Pairs = &[(F16, F16), (F32, F32)];
/// D may be wider than C, not narrower (PTX ISA, "mma": m8n8k4).
const INTO_WIDER_FLOAT: Pairs = &[(F16, F16), (F16, F32), (F32, F32)];
const INTO_ANY_FLOAT: Pairs = &[(F16, F16), (F16, F32), (F32, F16), (F32, F32)];
const INTO_F64: Pairs = &[(F64, F64)];
const INTO_S32: Pairs = &[(S32, S32)];

/// Every MMA of sm_70 to sm_90.
///
/// Source: PTX ISA, "Matrix multiply-accumulate operation using mma instruction", "... using mma.sp
/// instruction with sparse matrix A", "... using wmma instructions" and "Asynchronous warpgroup
/// level matrix multiply-accumulate instructions".
pub const MMA_TABLE: &[MmaRow] = &[
    row(70, (6, 4), Family::Quadpair, (8, 8, 4), HALVES, INTO_WIDER_FLOAT),
    row(75, (6, 5), Family::Warp, (16, 8, 8), HALVES, INTO_FLOAT),
    row(75, (6, 5), Family::Warp, (8, 8, 16), BYTES, INTO_S32),
    row(75, (6, 5), Family::Warp, (8, 8, 32), NIBBLES, INTO_S32),
    row(75, (7, 0), Family::Warp, (8, 8, 128), BITS, INTO_S32),
    row(80, (7, 0), Family::Warp, (16, 8, 16), HALVES, INTO_FLOAT),
    row(80, (7, 0), Family::Warp, (16, 8, 8), BFLOATS, INTO_F32),
    row(80, (7, 0), Family::Warp, (16, 8, 16), BFLOATS, INTO_F32),
    row(80, (7, 0), Family::Warp, (16, 8, 4), TF32S, INTO_F32),
    row(80, (7, 0), Family::Warp, (16, 8, 8), TF32S, INTO_F32),
    row(80, (7, 0), Family::Warp, (8, 8, 4), DOUBLES, INTO_F64),
    row(80, (7, 0), Family::Warp, (16, 8, 16), BYTES, INTO_S32),
    row(80, (7, 0), Family::Warp, (16, 8, 32), BYTES, INTO_S32),
    row(80, (7, 0), Family::Warp, (16, 8, 32), NIBBLES, INTO_S32),
    row(80, (7, 0), Family::Warp, (16, 8, 64), NIBBLES, INTO_S32),
    row(80, (7, 0), Family::Warp, (16, 8, 128), BITS, INTO_S32),
    row(80, (7, 0), Family::Warp, (16, 8, 256), BITS, INTO_S32),
    row(89, (8, 4), Family::Warp, (16, 8, 32), FP8, INTO_F32),
    row(89, (8, 7), Family::Warp, (16, 8, 32), FP8, INTO_F16),
    row(89, (8, 7), Family::Warp, (16, 8, 16), FP8, INTO_FLOAT),
    row(90, (7, 8), Family::Warp, (16, 8, 4), DOUBLES, INTO_F64),
    row(90, (7, 8), Family::Warp, (16, 8, 8), DOUBLES, INTO_F64),
    row(90, (7, 8), Family::Warp, (16, 8, 16), DOUBLES, INTO_F64),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 16), HALVES, INTO_FLOAT),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 32), HALVES, INTO_FLOAT),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 16), BFLOATS, INTO_F32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 32), BFLOATS, INTO_F32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 8), TF32S, INTO_F32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 16), TF32S, INTO_F32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 32), BYTES, INTO_S32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 64), BYTES, INTO_S32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 64), NIBBLES, INTO_S32),
    row(80, (7, 1), Family::SparseWarp, (16, 8, 128), NIBBLES, INTO_S32),
    // Before sm_120, only dense `mma` accumulates products of 8-bit floats in f16.
    row(89, (8, 4), Family::SparseWarp, (16, 8, 64), FP8, INTO_F32),
    row(70, (6, 3), Family::Wmma, (16, 16, 16), HALVES, INTO_ANY_FLOAT),
    row(70, (6, 3), Family::Wmma, (32, 8, 16), HALVES, INTO_ANY_FLOAT),
    row(70, (6, 3), Family::Wmma, (8, 32, 16), HALVES, INTO_ANY_FLOAT),
    row(72, (6, 3), Family::Wmma, (16, 16, 16), BYTES_OF_ONE_SIGN, INTO_S32),
    row(72, (6, 3), Family::Wmma, (32, 8, 16), BYTES_OF_ONE_SIGN, INTO_S32),
    row(72, (6, 3), Family::Wmma, (8, 32, 16), BYTES_OF_ONE_SIGN, INTO_S32),
    row(75, (6, 3), Family::Wmma, (8, 8, 32), NIBBLES_OF_ONE_SIGN, INTO_S32),
    row(75, (6, 3), Family::Wmma, (8, 8, 128), BITS, INTO_S32),
    row(80, (7, 0), Family::Wmma, (16, 16, 16), BFLOATS, INTO_F32),
    row(80, (7, 0), Family::Wmma, (32, 8, 16), BFLOATS, INTO_F32),
    row(80, (7, 0), Family::Wmma, (8, 32, 16), BFLOATS, INTO_F32),
    row(80, (7, 0), Family::Wmma, (16, 16, 8), TF32S, INTO_F32),
    row(80, (7, 0), Family::Wmma, (8, 8, 4), DOUBLES, INTO_F64),
    row(90, (8, 0), Family::Warpgroup, (64, 256, 16), HALVES, INTO_FLOAT),
    row(90, (8, 0), Family::Warpgroup, (64, 256, 16), BFLOATS, INTO_F32),
    row(90, (8, 0), Family::Warpgroup, (64, 256, 8), TF32S, INTO_F32),
    row(90, (8, 0), Family::Warpgroup, (64, 256, 32), FP8, INTO_FLOAT),
    row(90, (8, 0), Family::Warpgroup, (64, 256, 32), BYTES_OF_ONE_SIGN, INTO_S32),
    row(90, (8, 4), Family::Warpgroup, (64, 256, 32), BYTES_OF_BOTH_SIGNS, INTO_S32),
    row(90, (8, 0), Family::Warpgroup, (64, 256, 256), BITS, INTO_S32),
    row(90, (8, 2), Family::SparseWarpgroup, (64, 256, 32), HALVES, INTO_FLOAT),
    row(90, (8, 2), Family::SparseWarpgroup, (64, 256, 32), BFLOATS, INTO_F32),
    row(90, (8, 2), Family::SparseWarpgroup, (64, 256, 16), TF32S, INTO_F32),
    row(90, (8, 2), Family::SparseWarpgroup, (64, 256, 64), FP8, INTO_FLOAT),
    row(90, (8, 2), Family::SparseWarpgroup, (64, 256, 64), BYTES_OF_ONE_SIGN, INTO_S32),
    row(90, (8, 4), Family::SparseWarpgroup, (64, 256, 64), BYTES_OF_BOTH_SIGNS, INTO_S32),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_of_wgmma_follow_the_isa() {
        let count = |input: DataType| {
            let row =
                MMA_TABLE.iter().find(|row| row.family == Family::Warpgroup && row.inputs[0].0 == input);
            row.map_or(0, |row| row.shapes().count())
        };
        assert_eq!([F16, Bf16, Tf32, E4m3].map(count), [32; 4]);
        assert_eq!([U8, B1].map(count), [18; 2]);
    }

    #[test]
    fn every_operand_fills_whole_registers() {
        for row in MMA_TABLE {
            for (shape, types) in row.shapes().flat_map(|shape| row.types().map(move |types| (shape, types)))
            {
                let of = [types.a, types.b, types.c, types.d];
                for (operand, data_type) in Operand::ALL.into_iter().zip(of) {
                    let in_shared = row.family.is_warpgroup() && operand == Operand::B;
                    let registers = row.registers(operand, shape, data_type);
                    assert!(registers > 0 || in_shared, "{row:?} {operand:?}");
                }
                assert!(exists(row.family, shape, types));
            }
        }
    }
}
