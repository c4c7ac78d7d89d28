//! The operations for programs.

use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use super::kernel::{LANES, QuantizeNormalized, QuantizeRows, WARPS};
use super::problem::QuantizedRows;
use crate::gemv::InputNorm;
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::overlap::{self, overlaps};

/// Columns of a row at most: a thread has a part of it in registers.
const MAX_COLUMNS: u32 = 1 << 16;

impl Operations {
    /// The rows of `x`, (rows, columns), quantized.
    ///
    /// # Errors
    /// Columns are no multiple of 4, a buffer does not have the length of the shape, or the device refuses.
    pub fn quantize_rows(
        &self,
        stream: &Stream,
        (x, columns): (&Buffer<bf16>, u32),
        to: QuantizedRows<'_>,
    ) -> Result<LaunchCounts> {
        self.quantize_rows_of(stream, (columns, columns, false), x, to)
    }

    /// silu(gate) · value of rows of `stride` elements, of which the first are `columns` gates and as many values,
    /// quantized.
    ///
    /// # Errors
    /// As [`quantize_rows`](Self::quantize_rows), or the stride is too short or no multiple of 4.
    pub fn quantize_swiglu(
        &self,
        stream: &Stream,
        (x, stride, columns): (&Buffer<bf16>, u32, u32),
        to: QuantizedRows<'_>,
    ) -> Result<LaunchCounts> {
        if stride / 2 < columns || !stride.is_multiple_of(4) {
            let reason =
                format!("rows of {stride} elements for {columns} gates and values; give a multiple of 4");
            return Err(OperationError::Shape { what: "the quantized rows of SwiGLU", reason });
        }
        self.quantize_rows_of(stream, (columns, stride, true), x, to)
    }

    fn quantize_rows_of(
        &self,
        stream: &Stream,
        (columns, stride, is_swiglu): (u32, u32, bool),
        x: &Buffer<bf16>,
        to: QuantizedRows<'_>,
    ) -> Result<LaunchCounts> {
        let rows = self.grid("quantized rows", x.len() as u64 / u64::from(stride.max(1)))?;
        expect_length("the rows to quantize", rows as usize * stride as usize, x.len())?;
        let padded = to.check((rows, columns))?;
        if rows == 0 || columns == 0 {
            return Ok(LaunchCounts::default());
        }
        let overlaps = overlaps(self);
        let kernel = self.kernel(QuantizeRows { columns, stride, is_swiglu, overlaps }, QuantizeRows::run)?;
        let grid = (rows.div_ceil(WARPS), columns.div_ceil(32 * LANES));
        let launch = overlap::shape(kernel.shape(grid), overlaps);
        Ok(kernel.launch(stream, launch, (x, to.values, to.scales, rows, padded))?)
    }

    /// RMSNorm of the rows of `x`, (rows, gains), quantized. `kept` has the normalized rows as they are, or nothing if it
    /// has another length than `x`.
    ///
    /// # Errors
    /// As [`quantize_rows`](Self::quantize_rows), or there are more than 65,536 gains.
    pub fn quantize_normalized(
        &self,
        stream: &Stream,
        x: &Buffer<bf16>,
        InputNorm { gains, gain, epsilon }: InputNorm<'_, bf16>,
        to: QuantizedRows<'_>,
        kept: &mut Buffer<bf16>,
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "quantized rows of RMSNorm";
        let columns = u32::try_from(gains.len()).ok().filter(|columns| (1..=MAX_COLUMNS).contains(columns));
        let columns = columns.ok_or_else(|| OperationError::Shape {
            what: WHAT,
            reason: format!("rows of {} elements; give 1 to {MAX_COLUMNS}", gains.len()),
        })?;
        let rows = self.grid(WHAT, x.len() as u64 / u64::from(columns))?;
        expect_length("the rows to normalize", rows as usize * columns as usize, x.len())?;
        let padded = to.check((rows, columns))?;
        if rows == 0 {
            return Ok(LaunchCounts::default());
        }
        let (is_kept, overlaps) = (kept.len() == x.len(), overlaps(self));
        let kernel = QuantizeNormalized { columns, gain, is_kept, overlaps };
        let kernel = self.kernel(kernel, QuantizeNormalized::run)?;
        let launch = overlap::shape(kernel.shape(rows), overlaps);
        Ok(kernel.launch(stream, launch, (x, gains, to.values, to.scales, kept, padded, epsilon))?)
    }
}
