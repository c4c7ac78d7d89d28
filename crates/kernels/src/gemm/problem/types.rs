//! The types of operands and of C. An operand type is one line of `operands!`; below the front door
//! types and scales are one value, [`GemmTypes`], and kernels are staged by `with_operands!`.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::DataType;
use warpwright::lang::conversion::bit_cast;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

use super::scales::Scaling;

/// The extent of a matrix that is contiguous in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum MatrixLayout {
    /// Rows are contiguous.
    #[default]
    #[strum(serialize = "row")]
    RowMajor,
    /// Columns are contiguous.
    #[strum(serialize = "column")]
    ColumnMajor,
}

impl MatrixLayout {
    /// The layout of the transpose.
    pub fn transposed(self) -> Self {
        match self {
            Self::RowMajor => Self::ColumnMajor,
            Self::ColumnMajor => Self::RowMajor,
        }
    }
}

/// A type of A or B. All accumulate in `f32`.
pub trait Operand: Element + Storable {
    /// The type that MMAs know it by.
    const DATA_TYPE: DataType;
}

/// A type of 16 bits that `mma.sync` multiplies with itself.
pub trait MmaSyncOperand: Operand {
    /// The MMA atom, by CuTe's name.
    const ATOM: &'static str;
}

/// An 8-bit float, which may have blockwise scales.
pub trait BlockwiseOperand: Operand {
    /// The largest finite value.
    const LARGEST: f32;
}

/// The operand types that the tensor cores multiply with one another.
pub trait MultipliesWith<B>: Operand {}

/// Each type with its MMA data type, the types that it multiplies, its `mma.sync` atom if it has 16
/// bits, and its largest value if it may have blockwise scales.
macro_rules! operands {
    ($($ty:ident $data:ident * $($other:ident)+ $(, mma_sync $atom:literal)? $(, blockwise $largest:literal)?;)*) => {
        $(
            impl Operand for $ty {
                const DATA_TYPE: DataType = DataType::$data;
            }
            $(impl MultipliesWith<$other> for $ty {})+
            $(impl MmaSyncOperand for $ty {
                const ATOM: &'static str = $atom;
            })?
            $(impl BlockwiseOperand for $ty {
                const LARGEST: f32 = $largest;
            })?
        )*
    };
}

operands! {
    bf16 Bf16 * bf16, mma_sync "SM80_16x8x16_F32BF16BF16F32_TN";
    f16  F16  * f16, mma_sync "SM80_16x8x16_F32F16F16F32_TN";
    tf32 Tf32 * tf32;
    e4m3 E4m3 * e4m3 e5m2, blockwise 448.0;
    e5m2 E5m2 * e4m3 e5m2, blockwise 57344.0;
    u8   U8   * u8; // The bytes of block-scaled operands, whose own types are values.
}

/// Evaluates an expression with `$T` as the operand type of a value.
#[macro_export]
macro_rules! with_operand {
    ($data_type:expr, $T:ident => $body:expr) => {
        $crate::with_type!($data_type, $T in [Bf16 bf16, F16 f16, Tf32 tf32, E4m3 e4m3, E5m2 e5m2] => $body)
    };
}

/// Evaluates an expression with `$T` as the type of C of a value.
#[macro_export]
macro_rules! with_output {
    ($data_type:expr, $T:ident => $body:expr) => {
        $crate::with_type!($data_type, $T in [F32 f32, Bf16 bf16, F16 f16] => $body)
    };
}

/// Evaluates an expression with `$A` and `$B` as operand types that multiply each other.
macro_rules! with_operands {
    ($types:expr, $A:ident, $B:ident => $body:expr) => {
        match $types {
            types if types.a == types.b => $crate::with_operand!(types.a, $A => {
                type $B = $A;
                $body
            }),
            types => $crate::gemm::problem::types::with_blockwise_operands!(types, $A, $B => $body),
        }
    };
}

/// Evaluates an expression with `$A` and `$B` as operand types that may have blockwise scales.
macro_rules! with_blockwise_operands {
    ($types:expr, $A:ident, $B:ident => $body:expr) => {
        $crate::with_type!($types.a, $A in [E4m3 e4m3, E5m2 e5m2] => {
            $crate::with_type!($types.b, $B in [E4m3 e4m3, E5m2 e5m2] => $body)
        })
    };
}

/// Evaluates an expression with `$A` and `$B` as operand types that the `mma.sync` kernel reads.
macro_rules! with_mma_sync_operands {
    ($types:expr, $A:ident, $B:ident => $body:expr) => {
        if $types.input_bytes() == 1 {
            $crate::gemm::problem::types::with_blockwise_operands!($types, $A, $B => $body)
        } else {
            $crate::with_type!($types.a, $A in [Bf16 bf16, F16 f16] => {
                type $B = $A;
                $body
            })
        }
    };
}

/// Evaluates an expression with `$T` as the type of a value that is one of those listed.
#[macro_export]
macro_rules! with_type {
    ($data_type:expr, $T:ident in [$($data:ident $ty:ident),+] => $body:expr) => {
        match $data_type {
            $(warpwright::arch::DataType::$data => {
                type $T = warpwright::lang::element::types::$ty;
                $body
            })+
            other => unreachable!("{other} is not a type of this matrix"),
        }
    };
}

pub(crate) use {with_blockwise_operands, with_mma_sync_operands, with_operands};
pub use {with_operand, with_output, with_type};

/// The types of A, B and C, and the scales of A and B: what a main loop is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmTypes {
    /// The type of A.
    pub a: DataType,
    /// The type of B.
    pub b: DataType,
    /// The type of C.
    pub c: DataType,
    /// The scales of A and B.
    pub scaling: Scaling,
}

impl GemmTypes {
    /// Types without scales.
    pub const fn new(a: DataType, b: DataType, c: DataType) -> Self {
        Self { a, b, c, scaling: Scaling::None }
    }

    /// The types of buffers.
    pub fn of<A: Operand, B: Operand, C: GemmOutput>() -> Self {
        Self::new(A::DATA_TYPE, B::DATA_TYPE, C::DATA_TYPE)
    }

    /// The same types with scales.
    #[must_use]
    pub fn with(self, scaling: impl Into<Scaling>) -> Self {
        Self { scaling: scaling.into(), ..self }
    }

    /// Bits of an element of A or B in shared memory: an element of 6 bits, or of 4 beside another
    /// type, has a byte.
    pub(crate) fn input_bits(self) -> u32 {
        if self.a.bits().max(self.b.bits()) == 4 { 4 } else { self.a.bits().max(8) }
    }

    /// Bytes of an element of A or B in shared memory; of two elements of 4 bits.
    pub fn input_bytes(self) -> u32 {
        self.input_bits().div_ceil(8)
    }

    /// Elements of an addressable unit: two of 4 bits are a byte.
    pub(crate) fn packing(self) -> u32 {
        self.input_bytes() * 8 / self.input_bits()
    }

    /// Elements of A or B in as many bytes of shared memory.
    pub(crate) fn elements(self, bytes: u32) -> u32 {
        bytes * 8 / self.input_bits()
    }

    /// Bytes of an element of C.
    pub fn output_bytes(self) -> u32 {
        self.c.bits() / 8
    }

    /// The names of A's and B's type: one name if they are the same.
    pub fn inputs(self) -> String {
        if self.a == self.b { self.a.to_string() } else { format!("{} x {}", self.a, self.b) }
    }

    /// The types of the problem whose C is the transpose.
    pub(crate) fn transposed(self) -> Self {
        Self { a: self.b, b: self.a, scaling: self.scaling.transposed(), ..self }
    }
}

/// A type of C.
pub trait GemmOutput: Element + Storable {
    /// The type as a value.
    const DATA_TYPE: DataType;

    /// An accumulator, rounded to this type.
    fn of(accumulator: Reg<f32>) -> Reg<Self>;
    /// Accumulators, rounded to this type.
    #[track_caller]
    fn of_all(accumulators: &Fragment<f32>) -> Fragment<Self>;
    /// An element of C as an accumulator.
    #[track_caller]
    fn to_accumulator(element: Reg<Self>) -> Reg<f32>;
}

impl GemmOutput for f32 {
    const DATA_TYPE: DataType = DataType::F32;

    fn of(accumulator: Reg<f32>) -> Reg<f32> {
        accumulator
    }

    fn of_all(accumulators: &Fragment<f32>) -> Fragment<f32> {
        accumulators.clone()
    }

    fn to_accumulator(element: Reg<f32>) -> Reg<f32> {
        element
    }
}

/// Types of 16 bits, two of which one conversion packs.
macro_rules! outputs {
    ($($ty:ident $data:ident $pack:ident;)*) => {
        $(impl GemmOutput for $ty {
            const DATA_TYPE: DataType = DataType::$data;

            #[track_caller]
            fn of(accumulator: Reg<f32>) -> Reg<$ty> {
                accumulator.convert()
            }

            #[track_caller]
            fn of_all(accumulators: &Fragment<f32>) -> Fragment<$ty> {
                accumulators.packed(|first, second| bit_cast(first.$pack(second)))
            }

            #[track_caller]
            fn to_accumulator(element: Reg<$ty>) -> Reg<f32> {
                element.convert()
            }
        })*
    };
}

outputs! { f16 F16 pack_f16x2; bf16 Bf16 pack_bf16x2; }
