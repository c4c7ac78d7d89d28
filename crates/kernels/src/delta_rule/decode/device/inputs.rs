//! What the kernels read beside the states.

use warpwright::prelude::*;

use crate::rows::RowElement;

/// What is convolved.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ConvInputs<T: Element> {
    /// The projection, whose first columns are [q | k | v], and elements from row to row.
    pub(super) x: Global<T>,
    pub(super) stride: Reg<u32>,
    /// (columns, width).
    pub(super) weights: Global<T>,
}

/// The gates of a layer's tokens, and its norm.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct GateInputs<T: Element> {
    /// z: its first column, and elements from row to row.
    pub(super) z: Global<T>,
    pub(super) z_column: Reg<u32>,
    pub(super) z_stride: Reg<u32>,
    pub(super) gates: Global<T>,
    /// The first columns of b and a, and elements from row to row.
    pub(super) columns: [Reg<u32>; 3],
    pub(super) a_log: Global<f32>,
    pub(super) dt_bias: Global<f32>,
    pub(super) norm: Global<f32>,
    pub(super) epsilon: Reg<f32>,
}

#[device]
impl<T: RowElement> GateInputs<T> {
    /// b and a of a token and a value head.
    pub(super) fn gates_of(&self, token: Reg<u32>, head: Reg<u32>) -> [Reg<f32>; 2] {
        let [of_b, of_a, stride] = self.columns;
        let of_token = self.gates.at(token.mul_wide(stride));
        [of_b, of_a].map(|first| of_token.at(first + head).load().convert::<f32>())
    }
}

/// The sequences in a kernel.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct SequenceInputs {
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
