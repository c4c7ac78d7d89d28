//! Columns of row-major matrices, and kernels with a thread for each vector of them.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable};

use crate::operations::{OperationError, Operations, Result};
use crate::vector;

/// Some columns of a row-major matrix, such as a part of a fused projection.
#[derive(Clone, Copy)]
pub struct MatrixColumns<'l, T> {
    /// The matrix.
    pub buffer: &'l Buffer<T>,
    /// The index of the first element.
    pub offset: u32,
    /// Elements from row to row. Vector loads need an offset and a stride of whole vectors.
    pub stride: u32,
}

impl<'l, T: Storable> MatrixColumns<'l, T> {
    /// All columns of a matrix of `columns` columns.
    pub fn all(buffer: &'l Buffer<T>, columns: u32) -> Self {
        Self { buffer, offset: 0, stride: columns }
    }

    /// Refuses a buffer that ends before the last of `rows` rows of `columns` columns.
    pub(crate) fn check(&self, what: &'static str, (rows, columns): (u32, u32)) -> Result<()> {
        let before = u64::from(rows.saturating_sub(1)) * u64::from(self.stride);
        let end = u64::from(self.offset) + before + u64::from(columns);
        let given = self.buffer.len() as u64;
        if rows > 0 && end > given {
            let reason = format!("the last row ends at element {end}, and the buffer has {given}");
            return Err(OperationError::Shape { what, reason });
        }
        Ok(())
    }

    /// Offset and stride.
    pub(crate) fn extents(&self) -> [u32; 2] {
        [self.offset, self.stride]
    }
}

/// A thread for each vector, or for a few vectors, of a matrix.
///
/// ```text
/// vectors of the matrix, row by row   | step 0 of CTA 0: 256 | step 1 of CTA 0: 256 | step 0 of CTA 1 ..
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VectorGrid {
    /// Elements of a row.
    pub(crate) columns: u32,
    /// Elements of a vector.
    pub(crate) lanes: u32,
    /// Vectors of a thread.
    pub(crate) steps: u32,
}

/// Threads of a CTA.
pub(crate) const THREADS: u32 = 256;

/// A vector of a thread. Threads past the last vector have the last one, which they must not store.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct VectorPosition {
    pub(crate) is_inside: Reg<bool>,
    pub(crate) row: Reg<u32>,
    pub(crate) column: Reg<u32>,
}

impl VectorPosition {
    /// The vector in a matrix with `stride` elements from row to row.
    #[track_caller]
    pub(crate) fn of<T: Element>(&self, matrix: Global<T>, stride: Reg<u32>) -> Global<T> {
        matrix.at(self.row.mul_wide(stride)).at(self.column)
    }

    /// The vector in [`MatrixColumns`] of those extents.
    #[track_caller]
    pub(crate) fn of_columns<T: Element>(
        &self,
        buffer: Global<T>,
        [offset, stride]: [Reg<u32>; 2],
    ) -> Global<T> {
        self.of(buffer, stride).at(offset)
    }
}

impl VectorGrid {
    /// The widest vectors of `T` that stay aligned over rows of `columns` elements and over
    /// matrices of the extents `also`.
    pub(crate) fn new<T: Element>(columns: u32, also: &[[u32; 2]], steps: u32) -> Self {
        let extents = also.iter().flatten().chain([&columns]);
        let lanes = extents.map(|extent| vector::widest(u64::from(*extent), T::BYTES)).min();
        Self { columns, lanes: lanes.unwrap_or(1), steps }
    }

    /// CTAs for `rows` rows.
    ///
    /// # Errors
    /// There are more vectors than 31 bits count.
    pub(crate) fn grid(&self, operations: &Operations, what: &'static str, rows: u32) -> Result<u32> {
        let vectors = u64::from(rows) * u64::from(self.columns / self.lanes);
        if vectors >= 1 << 31 {
            let reason = format!("{vectors} vectors are 2^31 or more; do the work in parts");
            return Err(OperationError::Shape { what, reason });
        }
        operations.grid(what, vectors.div_ceil((THREADS * self.steps).into()))
    }

    /// The vectors of this thread in a matrix of `rows` rows. States the block.
    #[track_caller]
    pub(crate) fn positions(&self, rows: Reg<u32>) -> Vec<VectorPosition> {
        launch::threads(THREADS);
        let of_row = self.columns / self.lanes;
        let count = rows * of_row;
        let first = block_idx().x * (THREADS * self.steps) + thread_idx().x;
        let position = |step: u32| {
            let vector = first + step * THREADS;
            let is_inside = vector.lt(count);
            let vector = vector.min(count - 1);
            VectorPosition { is_inside, row: vector / of_row, column: vector % of_row * self.lanes }
        };
        (0..self.steps).map(position).collect()
    }
}
