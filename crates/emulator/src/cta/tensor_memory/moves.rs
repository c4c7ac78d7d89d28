//! Loads and stores of cells that a warp has in flight.

use warpwright_events::{Cell, LANES};

use super::cells::TensorMemory;
use super::shape::Move;
use crate::registers::{FrameBase, Slot};

/// A load whose registers are written when its warp waits for it.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) base: FrameBase,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) moves: Move,
    pub(crate) from: Cell,
}

/// A store whose cells are written when its warp waits for it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) values: Vec<[u32; LANES]>,
    pub(crate) moves: Move,
    pub(crate) to: Cell,
}

impl Load {
    /// The new values of its registers.
    pub(crate) fn read(&self, memory: &TensorMemory) -> Vec<[u32; LANES]> {
        let value = |register: u32, lane: usize| {
            let (row, column) = self.moves.place(lane as u32, register);
            let (row, column) = (self.from.row + row, self.from.column + column);
            let low = memory.get(row, column);
            if self.moves.packed { low & 0xffff | memory.get(row, column + 1) << 16 } else { low }
        };
        (0..self.moves.registers).map(|register| std::array::from_fn(|lane| value(register, lane))).collect()
    }
}

impl Store {
    pub(crate) fn perform(&self, memory: &mut TensorMemory) {
        for (register, values) in (0..).zip(&self.values) {
            for (lane, &value) in (0..).zip(values) {
                let (row, column) = self.moves.place(lane, register);
                let (row, column) = (self.to.row + row, self.to.column + column);
                if self.moves.packed {
                    memory.set(row, column, value & 0xffff);
                    memory.set(row, column + 1, value >> 16);
                } else {
                    memory.set(row, column, value);
                }
            }
        }
    }
}
