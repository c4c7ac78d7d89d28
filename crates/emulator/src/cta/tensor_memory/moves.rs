//! Loads and stores of cells that a warp has in flight.

use warpwright_events::{Cell, LANES};

use super::cells::TensorMemory;
use super::shape::Move;
use crate::numeric::compare::{self, ExtremumMode};
use crate::numeric::format::Format;
use crate::registers::{FrameBase, Slot};

/// The least or the greatest of the registers that a lane loads (`tcgen05.ld.red`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    pub(crate) of: Reduced,
    pub(crate) maximum: bool,
    /// Where it is written.
    pub(crate) slot: Slot,
}

/// What a reduction compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduced {
    Unsigned,
    Signed,
    /// f32, or magnitudes of them. The result is NaN if one of them is, or else if all are.
    Float {
        absolute: bool,
        nan: bool,
    },
}

impl Reduction {
    /// The result for a lane.
    fn of(self, values: &[[u32; LANES]], lane: usize) -> u32 {
        let Reduction { of, maximum, .. } = self;
        let values = values.iter().map(|column| column[lane]);
        let reduced = match of {
            Reduced::Unsigned if maximum => values.max(),
            Reduced::Unsigned => values.min(),
            Reduced::Signed => {
                let values = values.map(|value| value as i32);
                let extremum = if maximum { values.max() } else { values.min() };
                extremum.map(|value| value as u32)
            }
            Reduced::Float { absolute, nan } => {
                let mode = ExtremumMode { maximum, nan, ..ExtremumMode::default() };
                let magnitude = |value: u32| if absolute { value & !(1 << 31) } else { value };
                values.map(magnitude).reduce(|a, b| compare::extremum(Format::F32, a, b, mode))
            }
        };
        reduced.unwrap_or(0)
    }
}

/// A load whose registers are written when its warp waits for it.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) base: FrameBase,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) moves: Move,
    pub(crate) from: Cell,
    pub(crate) reduction: Option<Reduction>,
}

/// A store whose cells are written when its warp waits for it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) values: Vec<[u32; LANES]>,
    pub(crate) moves: Move,
    pub(crate) to: Cell,
}

impl Load {
    /// The new values of its registers, each with its slot.
    pub(crate) fn read(&self, memory: &TensorMemory) -> Vec<(Slot, [u32; LANES])> {
        let values = self.values(memory);
        let reduced = self
            .reduction
            .map(|reduction| (reduction.slot, std::array::from_fn(|lane| reduction.of(&values, lane))));
        self.slots.iter().copied().zip(values).chain(reduced).collect()
    }

    fn values(&self, memory: &TensorMemory) -> Vec<[u32; LANES]> {
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
