//! Packed sequences whose states are in slots.

use warpwright::prelude::*;
use warpwright::runtime::Buffer;

/// The sequences of a step, and the slots of their states.
#[derive(Clone, Copy)]
pub(crate) struct Sequences<'l> {
    /// (sequences + 1): where each begins, and the number of tokens.
    pub(crate) starts: &'l Buffer<u32>,
    /// (sequences): the token after the last one of each.
    pub(crate) ends: &'l Buffer<u32>,
    /// (sequences): the slot of the state that each begins with; -1 for zeros.
    pub(crate) initial: &'l Buffer<i32>,
    /// (sequences): the slot of the state after its last token.
    pub(crate) slots: &'l Buffer<u32>,
}

impl<'l> Sequences<'l> {
    /// The arguments of a kernel.
    pub(super) fn inputs(self) -> (&'l Buffer<u32>, &'l Buffer<u32>, &'l Buffer<i32>, &'l Buffer<u32>) {
        (self.starts, self.ends, self.initial, self.slots)
    }
}

/// The sequences in a kernel.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct SequenceInputs {
    starts: Global<u32>,
    ends: Global<u32>,
    initial: Global<i32>,
    slots: Global<u32>,
}

#[device]
impl SequenceInputs {
    /// The first token of a sequence, and the one after the last.
    pub(super) fn tokens(&self, sequence: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        (self.starts.at(sequence).load(), self.ends.at(sequence).load())
    }

    /// The slot of the state that a sequence begins with, and whether it begins with zeros. The slot
    /// is then its own: another sequence may write any other.
    pub(super) fn initial(&self, sequence: Reg<u32>) -> (Reg<u32>, Reg<bool>) {
        let slot = self.initial.at(sequence).load();
        let has_zeros = slot.lt(0i32);
        (has_zeros.select(self.slot(sequence), slot.bit_cast::<u32>()), has_zeros)
    }

    /// The slot of the state after the last token.
    pub(super) fn slot(&self, sequence: Reg<u32>) -> Reg<u32> {
        self.slots.at(sequence).load()
    }
}
