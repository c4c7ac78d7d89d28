//! The arguments for A and B: a buffer, or one with scales.

use warpwright::arch::DataType;
use warpwright::runtime::Buffer;

use super::block_scaled::BlockScaledFormat;
use super::error::GemmError;
use super::scales::{BlockwiseScales, Granularity, Scaled, Scaling};
use super::types::{BlockwiseOperand, Operand};
use crate::operations::{Result, expect_length};

/// An argument for A or B: `&Buffer<T>`, [`Scaled`] or
/// [`BlockScaled`](super::block_scaled::BlockScaled).
pub trait OperandArgument: Copy {
    /// The type of an element.
    type Element: Operand;
    /// A type for each kind of scales; A's and B's are the same.
    type Scales;

    /// The operand, its types as values.
    fn operand(&self) -> OperandBuffer<'_>;
}

/// An operand of a call.
#[derive(Clone, Copy)]
pub struct OperandBuffer<'a> {
    pub(crate) data_type: DataType,
    /// The elements, in bytes.
    pub(crate) values: &'a Buffer<u8>,
    /// The scales, in bytes.
    pub(crate) scales: Option<(OperandScales, &'a Buffer<u8>)>,
}

/// The scales of one operand.
#[derive(Clone, Copy)]
pub(crate) enum OperandScales {
    Blockwise(Granularity),
    BlockScaled(BlockScaledFormat),
}

impl OperandBuffer<'_> {
    /// How the tensor cores scale this A and a B.
    pub(crate) fn scaling(self, b: Self) -> Result<Scaling, GemmError> {
        use OperandScales::{BlockScaled, Blockwise};
        match (self.scales, b.scales) {
            (Some((Blockwise(a), _)), Some((Blockwise(b), _))) => Ok(Scaling::Blockwise(a, b)),
            (Some((BlockScaled(a), _)), Some((BlockScaled(b), _))) => a.scaling(b),
            _ => Ok(Scaling::None),
        }
    }

    /// Elements of the buffer; bytes, if they are block-scaled.
    pub(crate) fn length(self) -> usize {
        self.values.len() / self.data_type.bits().div_ceil(8) as usize
    }

    /// Refuses scales, and values of block-scaled matrices, of another length than `count` operands
    /// (rows, k) have.
    pub(crate) fn expect_lengths(
        self,
        [values, scales]: [&'static str; 2],
        count: u32,
        operand: (u32, u32),
    ) -> Result<()> {
        let count = count as usize;
        match self.scales {
            None => Ok(()),
            Some((OperandScales::Blockwise(granularity), given)) => {
                expect_length(scales, count * granularity.count(operand), given.len() / size_of::<f32>())
            }
            Some((OperandScales::BlockScaled(format), given)) => {
                expect_length(values, count * format.value_bytes(operand), self.values.len())?;
                expect_length(scales, count * format.scale_bytes(operand), given.len())
            }
        }
    }
}

/// Operands without scales of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Unscaled;

/// Operands with blockwise scales.
#[derive(Clone, Copy, Debug)]
pub struct Blockwise;

impl<T: Operand> OperandArgument for &Buffer<T> {
    type Element = T;
    type Scales = Unscaled;

    fn operand(&self) -> OperandBuffer<'_> {
        OperandBuffer { data_type: T::DATA_TYPE, values: self.cast(), scales: None }
    }
}

impl<T: BlockwiseOperand> OperandArgument for Scaled<'_, T> {
    type Element = T;
    type Scales = Blockwise;

    fn operand(&self) -> OperandBuffer<'_> {
        let BlockwiseScales { scales, granularity } = self.scales;
        let scales = Some((OperandScales::Blockwise(granularity), scales.cast()));
        OperandBuffer { data_type: T::DATA_TYPE, values: self.values.cast(), scales }
    }
}
