//! The operation for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::Swiglu;
use crate::columns::{MatrixColumns, THREADS, VectorGrid};
use crate::operations::{Operations, Result, expect_length};
use crate::overlap::{self, overlaps};
use crate::rows::{MatrixShape, RowElement};

/// Vectors of a thread for which CTAs become fewer. (H200, decodes of Qwen 3.5-9B: two are faster for 64 rows,
/// three not for 128.)
const MAX_STEPS: u64 = 2;
/// CTAs that an SM holds beside the last ones of a GEMM: those that come later wait for these.
const CTAS_PER_SM: u32 = 2;

/// Vectors of a thread: more than one where all CTAs are then resident while they wait for the
/// predecessor.
fn steps_of(vectors: u64, sm_count: u32) -> u32 {
    match vectors.div_ceil(u64::from(THREADS * CTAS_PER_SM * sm_count)) {
        steps @ 1..=MAX_STEPS => steps as u32,
        _ => 1,
    }
}

impl Operations {
    /// y = silu(gates) · values, elementwise; y is (rows, columns) without gaps. Gates and values
    /// are two matrices, or the halves of the columns of one.
    ///
    /// A result is off by at most 20 u of itself, where u is 2^-24, and by one rounding to `T`.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::columns::MatrixColumns;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let x = device.buffer_from(&[0.0f32, -f32::INFINITY, 7.0, 5.0])?;
    /// let gates = MatrixColumns { buffer: &x, offset: 0, stride: 4 };
    /// let mut y = device.uninitialized(2)?;
    /// operations.swiglu(&stream, (1, 2), gates, MatrixColumns { offset: 2, ..gates }, &mut y)?;
    /// assert_eq!(y.to_vec()?, [0.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer ends before the last row, y has another length than the shape, or the device
    /// refuses.
    pub fn swiglu<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        shape: MatrixShape,
        gates: MatrixColumns<'_, T>,
        values: MatrixColumns<'_, T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let extents = [gates.extents(), values.extents()];
        let of_row = shape.1 / VectorGrid::new::<T>(shape.1, &extents, 1).lanes;
        let vectors = u64::from(shape.0) * u64::from(of_row);
        let steps = steps_of(vectors, self.device().properties().sm_count);
        self.swiglu_by(steps, stream, shape, gates, values, y)
    }

    /// As [`swiglu`](Self::swiglu), with `steps` vectors of each thread.
    pub fn swiglu_by<T: RowElement + Storable>(
        &self,
        steps: u32,
        stream: &Stream,
        (rows, columns): MatrixShape,
        gates: MatrixColumns<'_, T>,
        values: MatrixColumns<'_, T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        gates.check("the gates of SwiGLU", (rows, columns))?;
        values.check("the values of SwiGLU", (rows, columns))?;
        expect_length("the output of SwiGLU", rows as usize * columns as usize, y.len())?;
        if y.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let extents = [gates.extents(), values.extents()];
        let grid = VectorGrid::new::<T>(columns, &extents, steps);
        let overlaps = overlaps(self);
        let kernel = self.kernel(Swiglu { grid, overlaps }, Swiglu::run::<T>)?;
        let launch = overlap::shape(kernel.shape(grid.grid(self, "SwiGLU", rows)?), overlaps);
        let arguments = (gates.buffer, values.buffer, y, extents[0], extents[1], rows);
        Ok(kernel.launch(stream, launch, arguments)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 12,288 elements of bf16 on an H200.
    #[test]
    fn threads_have_more_vectors_where_all_ctas_are_then_resident() {
        let of_rows = |rows: u64| steps_of(rows * 12_288 / 8, 132);
        assert_eq!([0, 1, 16, 44, 64, 128, 256].map(of_rows), [1, 1, 1, 1, 2, 1, 1]);
    }
}
