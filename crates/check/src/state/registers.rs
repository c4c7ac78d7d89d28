//! The registers of a warp that asynchronous work uses.

use std::collections::HashMap;

use crate::state::clock::Time;

/// A register of an MMA in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) pc: u32,
    /// The time of the warp's MMAs at its issue.
    pub(crate) time: Time,
    /// What must match for MMAs to share accumulators; `None` for registers that are only read.
    pub(crate) shape: Option<(usize, usize)>,
}

/// The state of a warp's registers, by column.
#[derive(Debug, Default)]
pub(crate) struct RegisterState {
    pub(crate) under_way: HashMap<u32, Flight>,
    /// Registers written by ordinary instructions since the last fence, and the instruction.
    pub(crate) written: HashMap<u32, u32>,
    /// Whether there was a fence.
    pub(crate) fenced: bool,
    /// Registers of `tcgen05.ld` before the wait, and the instruction.
    pub(crate) loading: HashMap<u32, u32>,
}
