//! Results, and what is refused.

use warpwright::lang::element::e4m3;
use warpwright::runtime::Buffer;

use crate::gemm::problem::scales::Granularity;
use crate::operations::{OperationError, Result, expect_length};

/// Rows of e4m3 with a scale for each 128 of a row.
pub struct QuantizedRows<'l> {
    /// (rows, columns).
    pub values: &'l mut Buffer<e4m3>,
    /// (blocks of columns, padded rows), in the layout of [`Granularity::index`].
    pub scales: &'l mut Buffer<f32>,
}

impl QuantizedRows<'_> {
    /// Refuses buffers of other lengths than those of (rows, columns). Returns the padded rows.
    pub(super) fn check(&self, (rows, columns): (u32, u32)) -> Result<u32> {
        if !columns.is_multiple_of(4) {
            let reason = format!("rows of {columns} elements; give a multiple of 4");
            return Err(OperationError::Shape { what: "quantized rows", reason });
        }
        let (blocks, padded) = Granularity::Row.extents((rows, columns));
        expect_length("quantized rows", rows as usize * columns as usize, self.values.len())?;
        expect_length("the scales of rows", blocks as usize * padded as usize, self.scales.len())?;
        Ok(padded)
    }
}
