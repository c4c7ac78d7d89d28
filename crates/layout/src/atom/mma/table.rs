//! Which matrix multiplications exist: shapes and element types, as data.

use super::Family;
use crate::atom::Element::{self, *};

/// Element types of A, B, C and D.
pub type Types = (Element, Element, Element, Element);

/// A row of the table: one shape, and the element types it comes in.
#[derive(Clone, Copy, Debug)]
pub struct MmaRow {
    /// The first architecture, as in `sm_80`.
    pub sm: u32,
    /// How the matrices are spread.
    pub family: Family,
    /// M, N, K. For `wgmma` N is the largest; every multiple of 8 below is one too (see [`MmaAtom::all`](super::MmaAtom::all)).
    pub shape: (i64, i64, i64),
    /// Types of A, B, C and D.
    pub types: &'static [Types],
}

const fn row(sm: u32, family: Family, shape: (i64, i64, i64), types: &'static [Types]) -> MmaRow {
    MmaRow { sm, family, shape, types }
}

const F16_TYPES: &[Types] = &[(F16, F16, F16, F16), (F16, F16, F32, F32)];
/// D may be wider than C, not narrower (PTX ISA, "mma": m8n8k4).
const QUADPAIR_TYPES: &[Types] = &[(F16, F16, F16, F16), (F16, F16, F16, F32), (F16, F16, F32, F32)];
const WMMA_F16_TYPES: &[Types] =
    &[(F16, F16, F16, F16), (F16, F16, F16, F32), (F16, F16, F32, F16), (F16, F16, F32, F32)];
const BF16_TYPES: &[Types] = &[(Bf16, Bf16, F32, F32)];
const TF32_TYPES: &[Types] = &[(Tf32, Tf32, F32, F32)];
const F64_TYPES: &[Types] = &[(F64, F64, F64, F64)];
const BYTE_TYPES: &[Types] =
    &[(S8, S8, S32, S32), (S8, U8, S32, S32), (U8, S8, S32, S32), (U8, U8, S32, S32)];
const NIBBLE_TYPES: &[Types] =
    &[(S4, S4, S32, S32), (S4, U4, S32, S32), (U4, S4, S32, S32), (U4, U4, S32, S32)];
const BIT_TYPES: &[Types] = &[(B1, B1, S32, S32)];
const FP8_TYPES: &[Types] = &[
    (E4m3, E4m3, F32, F32),
    (E4m3, E5m2, F32, F32),
    (E5m2, E4m3, F32, F32),
    (E5m2, E5m2, F32, F32),
    (E4m3, E4m3, F16, F16),
    (E4m3, E5m2, F16, F16),
    (E5m2, E4m3, F16, F16),
    (E5m2, E5m2, F16, F16),
];
/// Into f16 only the dense `mma` multiplies 8-bit floats before sm_120.
const SPARSE_FP8_TYPES: &[Types] =
    &[(E4m3, E4m3, F32, F32), (E4m3, E5m2, F32, F32), (E5m2, E4m3, F32, F32), (E5m2, E5m2, F32, F32)];
const WMMA_BYTE_TYPES: &[Types] = &[(S8, S8, S32, S32), (U8, U8, S32, S32)];
const WMMA_NIBBLE_TYPES: &[Types] = &[(S4, S4, S32, S32), (U4, U4, S32, S32)];

/// Every matrix multiplication of sm_70 to sm_90. PTX ISA, "Matrix multiply-accumulate operation using mma instruction",
/// "... using mma.sp instruction with sparse matrix A", "... using wmma instructions" and "Asynchronous warpgroup level
/// matrix multiply-accumulate instructions".
pub const MMA_TABLE: &[MmaRow] = &[
    row(70, Family::Quadpair, (8, 8, 4), QUADPAIR_TYPES),
    row(75, Family::Warp, (16, 8, 8), F16_TYPES),
    row(75, Family::Warp, (8, 8, 16), BYTE_TYPES),
    row(75, Family::Warp, (8, 8, 32), NIBBLE_TYPES),
    row(75, Family::Warp, (8, 8, 128), BIT_TYPES),
    row(80, Family::Warp, (16, 8, 16), F16_TYPES),
    row(80, Family::Warp, (16, 8, 8), BF16_TYPES),
    row(80, Family::Warp, (16, 8, 16), BF16_TYPES),
    row(80, Family::Warp, (16, 8, 4), TF32_TYPES),
    row(80, Family::Warp, (16, 8, 8), TF32_TYPES),
    row(80, Family::Warp, (8, 8, 4), F64_TYPES),
    row(80, Family::Warp, (16, 8, 16), BYTE_TYPES),
    row(80, Family::Warp, (16, 8, 32), BYTE_TYPES),
    row(80, Family::Warp, (16, 8, 32), NIBBLE_TYPES),
    row(80, Family::Warp, (16, 8, 64), NIBBLE_TYPES),
    row(80, Family::Warp, (16, 8, 128), BIT_TYPES),
    row(80, Family::Warp, (16, 8, 256), BIT_TYPES),
    row(89, Family::Warp, (16, 8, 16), FP8_TYPES),
    row(89, Family::Warp, (16, 8, 32), FP8_TYPES),
    row(90, Family::Warp, (16, 8, 4), F64_TYPES),
    row(90, Family::Warp, (16, 8, 8), F64_TYPES),
    row(90, Family::Warp, (16, 8, 16), F64_TYPES),
    row(80, Family::SparseWarp, (16, 8, 16), F16_TYPES),
    row(80, Family::SparseWarp, (16, 8, 32), F16_TYPES),
    row(80, Family::SparseWarp, (16, 8, 16), BF16_TYPES),
    row(80, Family::SparseWarp, (16, 8, 32), BF16_TYPES),
    row(80, Family::SparseWarp, (16, 8, 8), TF32_TYPES),
    row(80, Family::SparseWarp, (16, 8, 16), TF32_TYPES),
    row(80, Family::SparseWarp, (16, 8, 32), BYTE_TYPES),
    row(80, Family::SparseWarp, (16, 8, 64), BYTE_TYPES),
    row(80, Family::SparseWarp, (16, 8, 64), NIBBLE_TYPES),
    row(80, Family::SparseWarp, (16, 8, 128), NIBBLE_TYPES),
    row(89, Family::SparseWarp, (16, 8, 64), SPARSE_FP8_TYPES),
    row(70, Family::Wmma, (16, 16, 16), WMMA_F16_TYPES),
    row(70, Family::Wmma, (32, 8, 16), WMMA_F16_TYPES),
    row(70, Family::Wmma, (8, 32, 16), WMMA_F16_TYPES),
    row(72, Family::Wmma, (16, 16, 16), WMMA_BYTE_TYPES),
    row(72, Family::Wmma, (32, 8, 16), WMMA_BYTE_TYPES),
    row(72, Family::Wmma, (8, 32, 16), WMMA_BYTE_TYPES),
    row(75, Family::Wmma, (8, 8, 32), WMMA_NIBBLE_TYPES),
    row(75, Family::Wmma, (8, 8, 128), BIT_TYPES),
    row(80, Family::Wmma, (16, 16, 16), BF16_TYPES),
    row(80, Family::Wmma, (32, 8, 16), BF16_TYPES),
    row(80, Family::Wmma, (8, 32, 16), BF16_TYPES),
    row(80, Family::Wmma, (16, 16, 8), TF32_TYPES),
    row(80, Family::Wmma, (8, 8, 4), F64_TYPES),
    row(90, Family::Warpgroup, (64, 256, 16), F16_TYPES),
    row(90, Family::Warpgroup, (64, 256, 16), BF16_TYPES),
    row(90, Family::Warpgroup, (64, 256, 8), TF32_TYPES),
    row(90, Family::Warpgroup, (64, 256, 32), FP8_TYPES),
    row(90, Family::Warpgroup, (64, 256, 32), BYTE_TYPES),
    row(90, Family::Warpgroup, (64, 256, 256), BIT_TYPES),
    row(90, Family::SparseWarpgroup, (64, 256, 32), F16_TYPES),
    row(90, Family::SparseWarpgroup, (64, 256, 32), BF16_TYPES),
    row(90, Family::SparseWarpgroup, (64, 256, 16), TF32_TYPES),
    row(90, Family::SparseWarpgroup, (64, 256, 64), FP8_TYPES),
    row(90, Family::SparseWarpgroup, (64, 256, 64), BYTE_TYPES),
];
