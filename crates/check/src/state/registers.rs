//! The registers of a warp that asynchronous work uses.

use std::collections::HashMap;

use crate::state::clock::Time;

/// A register that a multiply under way uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) pc: u32,
    /// The time of the warp's multiplies when it was issued.
    pub(crate) time: Time,
    /// What must be alike for multiplies to share accumulators; nothing where the register is only read.
    pub(crate) shape: Option<(usize, usize)>,
}

/// What the checkers know of a warp's registers, by column.
#[derive(Debug, Default)]
pub(crate) struct RegisterState {
    pub(crate) under_way: HashMap<u32, Flight>,
    /// Written by ordinary instructions since the last fence, and where.
    pub(crate) written: HashMap<u32, u32>,
    /// Whether there was a fence.
    pub(crate) fenced: bool,
    /// What `tcgen05.ld` writes before the wait for it, and where that is.
    pub(crate) loading: HashMap<u32, u32>,
}
