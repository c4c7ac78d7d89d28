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
    /// The lanes in which each register has been written.
    pub(crate) initialized: Vec<u32>,
    /// Whether there was a fence.
    pub(crate) fenced: bool,
    /// Registers of `tcgen05.ld` before the wait, and the instruction.
    pub(crate) loading: HashMap<u32, u32>,
}

impl RegisterState {
    /// Lanes write a register.
    pub(crate) fn initialize(&mut self, column: u32, lanes: u32) {
        let column = column as usize;
        if self.initialized.len() <= column {
            self.initialized.resize(column + 1, 0);
        }
        self.initialized[column] |= lanes;
    }

    /// The lanes in which a register has not been written.
    pub(crate) fn unwritten(&self, column: u32) -> u32 {
        !self.initialized.get(column as usize).copied().unwrap_or(0)
    }
}
