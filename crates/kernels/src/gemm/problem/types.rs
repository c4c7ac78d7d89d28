//! The types of operands and of C. An operand type is one line of the macro `operands!`.

use warpwright::arch::DataType;
use warpwright::lang::conversion::bit_cast;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

/// Which extent of a matrix is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixLayout {
    /// Rows are contiguous.
    RowMajor,
    /// Columns are contiguous.
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

/// A type that the kernel by `mma.sync` multiplies with itself.
pub trait MmaSyncOperand: Operand {
    /// The MMA atom, by CuTe's name.
    const ATOM: &'static str;
}

/// An 8-bit float, which may have block scales.
pub trait BlockScaledOperand: Operand {
    /// The largest finite value.
    const LARGEST: f32;
}

/// The operand types that the tensor cores multiply with one another.
pub trait MultipliesWith<B>: Operand {
    /// Calls `visitor` if the kernel by `mma.sync` multiplies the two types.
    #[doc(hidden)]
    fn visit_mma_sync<V: MmaSyncVisitor<Self, B>>(visitor: V) -> Option<V::Output>;
}

/// What is done for a pair of types that `mma.sync` multiplies: [`MultipliesWith::visit_mma_sync`].
#[doc(hidden)]
pub trait MmaSyncVisitor<A, B> {
    type Output;

    fn visit(self) -> Self::Output
    where
        A: MmaSyncOperand,
        B: MmaSyncOperand;
}

/// Each type with its MMA data type, its `mma.sync` atom if the kernel has it, its largest value if blocks may have scales, and
/// the types that it multiplies.
macro_rules! operands {
    ($($ty:ident $data:ident $(mma_sync $atom:literal)? $(scaled $largest:literal)? * $($other:ident),+;)*) => {
        $(
            impl Operand for $ty {
                const DATA_TYPE: DataType = DataType::$data;
            }
            $(impl MmaSyncOperand for $ty {
                const ATOM: &'static str = $atom;
            })?
            $(impl BlockScaledOperand for $ty {
                const LARGEST: f32 = $largest;
            })?
            operands!(@pairs $ty [$($atom)?] $($other)+);
        )*
    };
    (@pairs $ty:ident [$atom:literal] $($other:ident)+) => {
        $(impl MultipliesWith<$other> for $ty {
            fn visit_mma_sync<V: MmaSyncVisitor<Self, $other>>(visitor: V) -> Option<V::Output> {
                Some(visitor.visit())
            }
        })+
    };
    (@pairs $ty:ident [] $($other:ident)+) => {
        $(impl MultipliesWith<$other> for $ty {
            fn visit_mma_sync<V: MmaSyncVisitor<Self, $other>>(_: V) -> Option<V::Output> {
                None
            }
        })+
    };
}

operands! {
    bf16 Bf16 mma_sync "SM80_16x8x16_F32BF16BF16F32_TN" * bf16;
    f16  F16  mma_sync "SM80_16x8x16_F32F16F16F32_TN"   * f16;
    tf32 Tf32                                           * tf32;
    e4m3 E4m3 scaled 448.0                              * e4m3, e5m2;
    e5m2 E5m2 scaled 57344.0                            * e4m3, e5m2;
}

/// The names of two operand types: one name if they are the same.
pub(in crate::gemm) fn names<A: Element, B: Element>() -> String {
    if A::NAME == B::NAME { A::NAME.to_owned() } else { format!("{} x {}", A::NAME, B::NAME) }
}

/// A type of C.
pub trait GemmOutput: Element {
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
    ($($ty:ident $pack:ident;)*) => {
        $(impl GemmOutput for $ty {
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

outputs! { f16 pack_f16x2; bf16 pack_bf16x2; }
