//! Copies from shared to tensor memory (PTX ISA, "tcgen05.cp").

use warpwright_events::Cell;

use super::cells::Area;
use crate::tensor::descriptor::MatrixDescriptor;

/// A copy from shared to tensor memory in flight.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) shape: CopyShape,
    pub(crate) to: Cell,
    pub(crate) from: MatrixDescriptor,
    /// The bits of elements that become a byte each, if there are such.
    pub(crate) spread: Option<u32>,
    pub(crate) ctas: u32,
}

/// The rows and 16-byte parts of a copy, and the rows of tensor memory for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyShape {
    pub(crate) rows: u32,
    pub(crate) pieces: u32,
    /// Rows of tensor memory from one row to the next.
    apart: u32,
    /// How often it is written, and how many rows apart, for the first 32 rows and for the others.
    copies: &'static [[u32; 2]],
}

impl CopyShape {
    /// The shapes, by their PTX modifiers without the dots: the copied part, and the warps whose
    /// rows it is written to.
    pub(crate) const ALL: [(&'static str, &'static str, CopyShape); 6] = [
        ("128x256b", "", Self::new(128, 2, &[[0, 0]])),
        ("4x256b", "", Self { apart: 32, ..Self::new(4, 2, &[[0, 0]]) }),
        ("128x128b", "", Self::new(128, 1, &[[0, 0]])),
        ("64x128b", "warpx2::02_13", Self::new(64, 1, &[[0, 0], [64, 64]])),
        ("64x128b", "warpx2::01_23", Self::new(64, 1, &[[0, 32], [32, 64]])),
        ("32x128b", "warpx4", Self::new(32, 1, &[[0, 0], [32, 0], [64, 0], [96, 0]])),
    ];

    const fn new(rows: u32, pieces: u32, copies: &'static [[u32; 2]]) -> Self {
        Self { rows, pieces, apart: 1, copies }
    }

    /// The destination rows of one row.
    pub(crate) fn targets(self, row: u32) -> impl Iterator<Item = u32> {
        self.copies
            .iter()
            .map(move |[lower, upper]| self.apart * row + if row < 32 { *lower } else { *upper })
    }
}

impl Copy {
    /// The cells of tensor memory that it writes.
    pub(crate) fn areas(&self) -> Vec<Area> {
        let mut rows: Vec<u32> = (0..self.shape.rows).flat_map(|row| self.shape.targets(row)).collect();
        rows.sort_unstable();
        let columns = self.shape.pieces * 4;
        let row = |row: u32| Area { first: Cell { row: self.to.row + row, ..self.to }, rows: 1, columns };
        rows.into_iter().map(row).collect()
    }
}
