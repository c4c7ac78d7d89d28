//! silu(gate) · up of rows that hold both.

use warpwright::runtime::Buffer;
use warpwright_kernels::columns::MatrixColumns;

use super::pass::Pass;
use crate::error::Result;
use crate::number::Number;

/// silu(gate) · up of rows [gate | up] of `stride` elements.
pub(super) fn swiglu<T: Number>(
    pass: &mut Pass<'_, T>,
    gate_up: &Buffer<T>,
    columns: u32,
    stride: u32,
) -> Result<Buffer<T>> {
    let rows = (gate_up.len() / stride as usize) as u32;
    let mut y = pass.memory.take(rows as usize * columns as usize)?;
    let gate = MatrixColumns { buffer: gate_up, offset: 0, stride };
    let up = MatrixColumns { offset: columns, ..gate };
    pass.operations.swiglu(pass.stream, (rows, columns), gate, up, &mut y)?;
    pass.note("swiglu", 3 * y.bytes(), 5 * y.len() as u64);
    Ok(y)
}
