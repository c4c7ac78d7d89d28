//! MMAs of tensor cores: from shared memory, or tensor memory, into tensor memory (PTX ISA,
//! "tcgen05.mma").

use warpwright_events::{Cell, TENSOR_ROWS};

use super::cells::Area;
use super::shift::Shift;
use crate::tensor::column_mask::ColumnMask;
use crate::tensor::descriptor::MatrixDescriptor;
use crate::tensor::tensor_memory_multiply::{DEPTH_BYTES, RowLayout, TensorMemoryMultiply};

/// The location of an MMA's A.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Shared(MatrixDescriptor),
    /// In tensor memory, from this cell on.
    Cells(Cell),
}

/// An MMA in flight.
#[derive(Debug)]
pub(crate) struct Multiply {
    pub(crate) multiply: TensorMemoryMultiply,
    pub(crate) d: Cell,
    pub(crate) a: Left,
    pub(crate) b: MatrixDescriptor,
    pub(crate) accumulates: bool,
    /// The first cells of the scales of A and of B, if it has scales.
    pub(crate) scales: Option<[Cell; 2]>,
    /// The first cell of the metadata, if A is sparse.
    pub(crate) metadata: Option<Cell>,
    /// Whether the rows of A in tensor memory are shifted afterwards.
    pub(crate) shifted: bool,
    /// Columns of B that count as zeros.
    pub(crate) mask: ColumnMask,
    /// D is divided by 2 to this before it is added to.
    pub(crate) shift: u32,
    /// Rows of tensor memory that are not written, a bit each: 128 a CTA.
    pub(crate) disabled: [u32; 8],
}

impl Multiply {
    /// The cells of D, in each of its CTAs.
    pub(crate) fn area(&self) -> Vec<Area> {
        let Multiply { multiply, d, .. } = self;
        let (rows, columns) = (multiply.rows as u32, multiply.columns as u32);
        match multiply.layout() {
            RowLayout::Straight => vec![Area { first: *d, rows, columns }],
            RowLayout::Folded => vec![Area { first: *d, rows: 2 * rows, columns: columns / 2 }],
            RowLayout::Quartered => vec![Area { first: *d, rows: 4 * rows, columns: columns / 4 }],
            RowLayout::Every16 => every_16(*d, rows, columns),
        }
    }

    /// Columns of tensor memory with rows of A, or with its metadata: the parts of D that have other
    /// columns of the same rows have their own copies (CUTLASS, `TmemAllocMode::Duplicated`).
    fn left_cells(&self, first: Cell, columns: u32) -> Vec<Area> {
        let rows = self.multiply.rows as u32;
        match self.multiply.layout() {
            RowLayout::Straight => vec![Area { first, rows, columns }],
            RowLayout::Every16 => every_16(first, rows, columns),
            RowLayout::Folded | RowLayout::Quartered => vec![Area { first, rows: TENSOR_ROWS, columns }],
        }
    }

    /// The cells of the metadata.
    pub(crate) fn metadata_area(&self) -> Vec<Area> {
        let columns = if self.multiply.element_bits() < 16 { 2 } else { 1 };
        let selected = |first: Cell| Cell { column: first.column + self.multiply.selector, ..first };
        self.metadata.map_or(Vec::new(), |first| self.left_cells(selected(first), columns))
    }

    /// The cells of A, if it is in tensor memory.
    pub(crate) fn left_area(&self) -> Vec<Area> {
        let Left::Cells(first) = self.a else { return Vec::new() };
        self.left_cells(first, (DEPTH_BYTES / 4) as u32)
    }

    /// The shift of A that follows the product.
    pub(crate) fn shift_of_left(&self) -> Option<Shift> {
        match self.a {
            Left::Cells(at) if self.shifted => Some(Shift { at, ctas: self.multiply.ctas }),
            _ => None,
        }
    }

    /// The parts of the columns whose A differs, in tensor memory or by its metadata.
    pub(crate) fn left_banks(&self) -> usize {
        match (self.a, self.metadata) {
            (Left::Shared(_), None) => 1,
            _ => self.multiply.layout().banks(),
        }
    }
}

/// The scale of a row of A, or a column of B, in each of the four quarters of the rows of tensor memory:
/// 32 of them in a column (PTX ISA, "Scale Factor A/B Layouts"). The quarter of a row of D reads its
/// own copy.
pub(crate) fn scale_cell(first: Cell, quarter: u32, index: u32) -> Cell {
    Cell { row: first.row + 32 * quarter + index % 32, column: first.column + index / 32 }
}

impl Multiply {
    /// The columns of B whose scales a quarter of the rows has.
    pub(crate) fn scale_columns(&self) -> usize {
        match self.multiply.layout() {
            RowLayout::Folded => self.multiply.columns / 2,
            _ => self.multiply.columns,
        }
    }

    /// The cells of the scales that it reads, in each of its CTAs.
    pub(crate) fn scale_areas(&self) -> Vec<Area> {
        let Some([a, b]) = self.scales else { return Vec::new() };
        let columns = self.scale_columns() as u32;
        let mut areas = Vec::new();
        for quarter in 0..4 {
            let (row, rows) = match self.multiply.layout() {
                RowLayout::Every16 => (16 * quarter, 16),
                _ => (32 * quarter % self.multiply.rows as u32, 32),
            };
            areas.push(Area { first: scale_cell(a, quarter, row), rows, columns: 1 });
            if columns >= 32 {
                areas.push(Area { first: scale_cell(b, quarter, 0), rows: 32, columns: columns / 32 });
            }
            if !columns.is_multiple_of(32) {
                let first = scale_cell(b, quarter, columns / 32 * 32);
                areas.push(Area { first, rows: columns % 32, columns: 1 });
            }
        }
        areas
    }
}

/// The first 16 of every 32 rows.
fn every_16(first: Cell, rows: u32, columns: u32) -> Vec<Area> {
    let area =
        |sixteen: u32| Area { first: Cell { row: first.row + 32 * sixteen, ..first }, rows: 16, columns };
    (0..rows / 16).map(area).collect()
}
