//! Shifts of rows of tensor memory (PTX ISA, "tcgen05.shift").

use warpwright_events::{Cell, TENSOR_ROWS};

use super::cells::Area;

/// Columns that a shift moves: elements of 32 bytes.
pub(crate) const SHIFTED_COLUMNS: u32 = 8;

/// A shift in flight: from a row on, each row but the last moves down by one. The first row keeps
/// its content. (The PTX ISA says no more, and no such GPU was available.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) at: Cell,
    pub(crate) ctas: u32,
}

impl Shift {
    /// The cells that it reads.
    pub(crate) fn source(self) -> Area {
        Area { first: self.at, rows: (TENSOR_ROWS - 1).saturating_sub(self.at.row), columns: SHIFTED_COLUMNS }
    }

    /// The cells that it writes.
    pub(crate) fn target(self) -> Area {
        Area { first: Cell { row: self.at.row + 1, ..self.at }, ..self.source() }
    }
}
