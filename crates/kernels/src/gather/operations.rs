//! The operation for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::Gather;
use crate::columns::VectorGrid;
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::rows::RowElement;

/// Vectors of a thread: an index is loaded before its row.
pub const STEPS: u32 = 4;

impl Operations {
    /// Row i of `y` = row `indices[i]` - `first` of `table`, which has rows of `columns` elements.
    /// Where the table does not have that row, row i of `y` is zeros.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let table = device.buffer_from(&[0.0f32, 1.0, 2.0, 3.0])?;
    /// let tokens = device.buffer_from(&[1, -1, 0, 2])?;
    /// let mut y = device.uninitialized(8)?;
    /// operations.gather_rows(&stream, (&table, 2), (&tokens, 0), &mut y)?;
    /// assert_eq!(y.to_vec()?, [2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The table has no whole rows, `y` has another length than rows for all indices, or the device
    /// refuses.
    pub fn gather_rows<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        table: (&Buffer<T>, u32),
        indices: (&Buffer<i32>, i32),
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        self.gather_rows_by(STEPS, stream, table, indices, y)
    }

    /// As [`gather_rows`](Self::gather_rows), with `steps` vectors of each thread.
    pub fn gather_rows_by<T: RowElement + Storable>(
        &self,
        steps: u32,
        stream: &Stream,
        (table, columns): (&Buffer<T>, u32),
        (indices, first): (&Buffer<i32>, i32),
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let refuse = |reason| Err(OperationError::Shape { what: "a gather of rows", reason });
        let entries = table.len() / (columns as usize).max(1);
        if entries == 0 || columns == 0 || entries * columns as usize != table.len() {
            return refuse(format!("a table of {} elements has no whole rows of {columns}", table.len()));
        }
        let (Ok(entries), Ok(rows)) = (u32::try_from(entries), u32::try_from(indices.len())) else {
            return refuse("there are 2^32 rows or more; do the work in parts".to_owned());
        };
        expect_length("the output of a gather of rows", indices.len() * columns as usize, y.len())?;
        if rows == 0 {
            return Ok(LaunchCounts::default());
        }
        let grid = VectorGrid::new::<T>(columns, &[], steps);
        let kernel = self.kernel(Gather { grid }, Gather::run::<T>)?;
        let ctas = grid.grid(self, "a gather of rows", rows)?;
        Ok(kernel.launch(stream, ctas, (table, indices, y, first, entries, rows))?)
    }
}
