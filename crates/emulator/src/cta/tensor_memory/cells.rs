//! The cells of tensor memory.

use warpwright_events::{Cell, FULL, FaultKind, TENSOR_COLUMNS, TENSOR_ROWS};

use super::columns::Columns;
use crate::launch::failure::Failure;

/// Rows that a warp of a warpgroup accesses: the first warp the first 32, and so on (PTX ISA,
/// "Access restrictions").
pub(crate) const ROWS_OF_WARP: u32 = 32;
/// The content of columns that nothing has written.
const POISON: u32 = u32::MAX;

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) first: Cell,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

/// Cells from a row to the next one: rows 2 KiB apart would compete for the same sets of the host's cache.
const PITCH: u32 = TENSOR_COLUMNS + 16;

/// The tensor memory of a CTA. Its cells are allocated with the first columns.
#[derive(Debug, Default)]
pub(crate) struct TensorMemory {
    cells: Vec<u32>,
    pub(crate) columns: Columns,
}

impl TensorMemory {
    /// Resets the state, for another CTA.
    pub(crate) fn reset(&mut self) {
        self.columns = Columns::default();
    }

    /// Allocates columns; returns the first one, if enough are free.
    pub(crate) fn allocate(&mut self, columns: u32) -> Option<u32> {
        self.cells.resize((TENSOR_ROWS * PITCH) as usize, POISON);
        let first = self.columns.allocate(columns)?;
        for row in 0..TENSOR_ROWS {
            let start = (row * PITCH + first) as usize;
            self.cells[start..start + columns as usize].fill(POISON);
        }
        Some(first)
    }

    /// Checks that cells are allocated.
    pub(crate) fn check(&self, what: &str, area: Area) -> Result<(), Box<Failure>> {
        let Area { first: Cell { row, column }, rows, columns } = area;
        if row + rows > TENSOR_ROWS {
            let message = format!(
                "{what} reaches rows {row} to {} of tensor memory, which has {TENSOR_ROWS}.",
                row + rows - 1
            );
            return Err(Failure::new(FaultKind::OutOfBounds, FULL, message));
        }
        if self.columns.hold(column, columns) {
            return Ok(());
        }
        let message = match columns {
            1 => format!("{what} reaches column {column} of tensor memory, which is not allocated."),
            _ => format!(
                "{what} reaches columns {column} to {} of tensor memory, and not all of them are allocated.",
                column + columns - 1
            ),
        };
        Err(Failure::new(FaultKind::OutOfBounds, FULL, message).note(self.columns.in_words()))
    }

    /// The value of a checked cell.
    #[inline(always)]
    pub(crate) fn get(&self, row: u32, column: u32) -> u32 {
        self.cells[(row * PITCH + column) as usize]
    }

    /// Writes a checked cell.
    #[inline(always)]
    pub(crate) fn set(&mut self, row: u32, column: u32, value: u32) {
        self.cells[(row * PITCH + column) as usize] = value;
    }

    /// The values of eight checked cells of a row.
    #[inline(always)]
    pub(crate) fn get_eight(&self, Cell { row, column }: Cell) -> [u32; 8] {
        let first = (row * PITCH + column) as usize;
        let mut values = [0; 8];
        values.copy_from_slice(&self.cells[first..first + 8]);
        values
    }

    /// Writes eight checked cells of a row.
    #[inline(always)]
    pub(crate) fn set_eight(&mut self, Cell { row, column }: Cell, values: [u32; 8]) {
        let first = (row * PITCH + column) as usize;
        self.cells[first..first + 8].copy_from_slice(&values);
    }
}
