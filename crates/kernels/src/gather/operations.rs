//! The operation for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::Gather;
use super::rows::{Concatenate, CopyRows};
use crate::columns::{THREADS, VectorGrid};
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
        let entries = rows_of("a gather of rows", table, columns)?;
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

    /// Row `indices[i]` of `table`, which has rows of `columns` elements, = row i of `rows`. Indices are read when the
    /// kernel runs; two that are the same leave one of their rows.
    ///
    /// # Errors
    /// The table has no whole rows, `rows` has another length than rows for all indices, there are 65,536 indices or
    /// more, or the device refuses.
    pub fn scatter_rows<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        rows: &Buffer<T>,
        indices: &Buffer<u32>,
        (table, columns): (&mut Buffer<T>, u32),
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "a scatter of rows";
        rows_of(WHAT, table, columns)?;
        expect_length("the rows of a scatter", indices.len() * columns as usize, rows.len())?;
        let count = u32::try_from(indices.len()).ok().filter(|count| *count < 1 << 16);
        let count = count.ok_or_else(|| OperationError::Shape {
            what: WHAT,
            reason: format!("{} rows are 65,536 or more; do the work in parts", indices.len()),
        })?;
        if count == 0 {
            return Ok(LaunchCounts::default());
        }
        let kernel = self.kernel(CopyRows, CopyRows::scatter::<T>)?;
        Ok(kernel.launch(stream, (columns.div_ceil(THREADS), count), (rows, indices, table, columns))?)
    }

    /// Row `to` of `table`, which has rows of `columns` elements, = row `from`.
    ///
    /// # Errors
    /// The table has no whole rows or not these, or the device refuses.
    pub fn copy_row<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (table, columns): (&mut Buffer<T>, u32),
        (from, to): (u32, u32),
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "a copy of a row";
        let entries = rows_of(WHAT, table, columns)?;
        if from.max(to) as usize >= entries {
            let reason = format!("rows {from} and {to} of {entries}; give rows of the table");
            return Err(OperationError::Shape { what: WHAT, reason });
        }
        let kernel = self.kernel(CopyRows, CopyRows::copy::<T>)?;
        Ok(kernel.launch(stream, columns.div_ceil(THREADS), (table, from, to, columns))?)
    }

    /// Row i of `joined`, (rows, 2 columns), = row i of `a` and then row i of `b`, (rows, columns).
    ///
    /// # Errors
    /// `a` has no whole rows, a buffer does not have the length of the shape, or the device refuses.
    pub fn concatenate_rows<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        ([a, b], columns): ([&Buffer<T>; 2], u32),
        joined: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "a concatenation of rows";
        expect_length("the second rows of a concatenation", a.len(), b.len())?;
        expect_length("the concatenated rows", 2 * a.len(), joined.len())?;
        if a.is_empty() {
            return Ok(LaunchCounts::default());
        }
        rows_of(WHAT, a, columns)?;
        let kernel = self.kernel(Concatenate { columns }, Concatenate::run::<T>)?;
        let grid = self.grid(WHAT, (a.len() as u64).div_ceil(THREADS.into()))?;
        Ok(kernel.launch(stream, grid, (a, b, joined, a.len() as u32))?)
    }
}

/// The rows of a table; at least one.
fn rows_of<T: Storable>(what: &'static str, table: &Buffer<T>, columns: u32) -> Result<usize> {
    let rows = table.len() / (columns as usize).max(1);
    if rows == 0 || columns == 0 || rows * columns as usize != table.len() {
        let reason = format!("a table of {} elements has no whole rows of {columns}", table.len());
        return Err(OperationError::Shape { what, reason });
    }
    Ok(rows)
}
