//! MMAs of tensor cores: from shared memory, or tensor memory, into tensor memory (PTX ISA,
//! "tcgen05.mma").

use warpwright_events::Cell;

use super::cells::Area;
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
            RowLayout::Every16 => every_16(*d, rows, columns),
        }
    }

    /// The cells of A, if it is in tensor memory.
    pub(crate) fn left_area(&self) -> Vec<Area> {
        let Left::Cells(first) = self.a else { return Vec::new() };
        let columns = (DEPTH_BYTES / 4) as u32;
        let rows = self.multiply.rows as u32;
        match self.multiply.layout() {
            RowLayout::Every16 => every_16(first, rows, columns),
            _ => vec![Area { first, rows, columns }],
        }
    }
}

/// The first 16 of every 32 rows.
fn every_16(first: Cell, rows: u32, columns: u32) -> Vec<Area> {
    let area =
        |sixteen: u32| Area { first: Cell { row: first.row + 32 * sixteen, ..first }, rows: 16, columns };
    (0..rows / 16).map(area).collect()
}
