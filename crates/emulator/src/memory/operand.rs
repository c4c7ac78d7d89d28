//! Memory operands.

use super::Space;
use crate::registers::Slot;

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseOperand {
    /// The offset alone.
    Absolute,
    /// The CTA's shared memory.
    Shared,
    /// The function's local frame.
    Frame,
    Word(Slot),
    Long(Slot),
}

/// A memory operand, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressOperand {
    pub(crate) base: BaseOperand,
    pub(crate) offset: i64,
    /// The space of the variable it names, if it names one.
    pub(crate) space: Option<Space>,
}
