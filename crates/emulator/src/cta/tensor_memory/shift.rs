//! Shifts of rows of tensor memory (PTX ISA, "tcgen05.shift").

use warpwright_events::{Cell, TENSOR_ROWS};

use super::cells::{Area, ROWS_OF_WARP};

/// Columns that a shift moves: elements of 32 bytes.
pub(crate) const SHIFTED_COLUMNS: u32 = 8;

/// A shift in flight: of each warp's rows, all but the last take what the next one holds (`.31x256b`,
/// PTX ISA, "Data Movement Shape"; TIRx-harness, `raw_tcgen05_shift`). A convolution reads the next
/// pixel this way, and `tcgen05.cp.4x256b` fills the last rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) at: Cell,
    pub(crate) ctas: u32,
}

impl Shift {
    /// The cells that it reads.
    pub(crate) fn sources(self) -> Vec<Area> {
        self.areas(1)
    }

    /// The cells that it writes.
    pub(crate) fn targets(self) -> Vec<Area> {
        self.areas(0)
    }

    /// The rows of each warp but one, from a row on.
    fn areas(self, from: u32) -> Vec<Area> {
        let warps = (0..TENSOR_ROWS).step_by(ROWS_OF_WARP as usize);
        let area = |first: u32| Area {
            first: Cell { row: first + from, ..self.at },
            rows: ROWS_OF_WARP - 1,
            columns: SHIFTED_COLUMNS,
        };
        warps.map(area).collect()
    }
}
