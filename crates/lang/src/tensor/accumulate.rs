//! Whether an MMA adds to its accumulator.

use crate::value::{Reg, constant};

/// Whether an MMA adds the product to the accumulator or overwrites it.
#[derive(Clone, Copy)]
pub enum Accumulate {
    /// `accumulator = a * b`.
    No,
    /// `accumulator += a * b`.
    Yes,
    /// `accumulator += a * b` where the value is true, else `accumulator = a * b`.
    If(Reg<bool>),
}

impl Accumulate {
    #[track_caller]
    pub(super) fn reg(self) -> Reg<bool> {
        match self {
            Accumulate::No => constant(false),
            Accumulate::Yes => constant(true),
            Accumulate::If(condition) => condition,
        }
    }
}
