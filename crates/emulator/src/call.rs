//! Calls of device functions.

use crate::registers::{FrameBase, Slot};

/// A decoded call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// What is copied into the callee's parameters.
    pub(crate) arguments: Vec<Passed>,
    /// What is copied out of the callee's results.
    pub(crate) results: Vec<Passed>,
}

/// Whom a call goes to.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A function of this code, by index.
    Direct(u32),
    /// The register that holds a function's address.
    Indirect(Slot),
}

/// One value on the caller's side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Word(Slot),
    Long(Slot),
    Predicate(Slot),
    /// A `.param` variable in the caller's frame.
    Bytes { offset: u32, size: u32 },
}

/// A caller's frame, to which a path returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The call instruction.
    pub(crate) pc: u32,
    pub(crate) base: FrameBase,
    /// The function that called.
    pub(crate) function: u32,
}
