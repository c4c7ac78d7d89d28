//! The operation for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::HeadGates;
use crate::columns::THREADS;
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::rope::HeadRows;
use crate::rows::RowElement;

/// The operation's name in errors.
const OPERATION: &str = "the gates of heads";

impl Operations {
    /// y = x · sigmoid(gates), of (tokens, heads, head_dim) elements.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, there are 2^32 elements or more, or the device refuses.
    pub fn gate_heads<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (tokens, heads, head_dim): (u32, u32, u32),
        x: &Buffer<T>,
        gates: HeadRows<'_, T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let count = tokens as usize * heads as usize * head_dim as usize;
        expect_length("the heads to gate", count, x.len())?;
        expect_length("the gated heads", count, y.len())?;
        gates.check(OPERATION, (tokens, heads, head_dim))?;
        let elements = u32::try_from(count).map_err(|_| OperationError::Shape {
            what: OPERATION,
            reason: format!("{count} elements are 2^32 or more; do the work in parts"),
        })?;
        if count == 0 {
            return Ok(LaunchCounts::default());
        }
        let HeadRows { buffer, offset, token_stride, head_stride } = gates;
        let kernel = HeadGates { heads, head_dim, token_stride, head_stride, offset };
        let kernel = self.kernel(kernel, HeadGates::run::<T>)?;
        let grid = self.grid(OPERATION, (count as u64).div_ceil(THREADS.into()))?;
        Ok(kernel.launch(stream, grid, (x, buffer, y, elements))?)
    }
}
