//! Copies of state between slots, and from rows to slots.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result, expect_length};

use crate::number::Number;

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CopySlots;

/// Threads of a CTA.
const THREADS: u32 = 256;

impl CopySlots {
    /// Slot `to` of `states`, (slots, length), becomes slot `from`.
    #[kernel]
    fn copy<T: Number>(&self, states: &mut Global<T>, from: u32, to: u32, length: u32) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < length {
            let value = states.at(from.mul_wide(length)).at(at).load();
            states.at(to.mul_wide(length)).at(at).store(value);
        }
    }

    /// Slot `slots[row]` of `states` becomes row `row` of `rows`, for each row of the grid.
    #[kernel]
    fn scatter<T: Number>(&self, rows: &Global<T>, slots: &Global<u32>, states: &mut Global<T>, length: u32) {
        launch::threads(THREADS);
        let (at, row) = (block_idx().x * THREADS + thread_idx().x, block_idx().y);
        if at < length {
            let value = rows.at(row.mul_wide(length)).at(at).load();
            states.at(slots[row].mul_wide(length)).at(at).store(value);
        }
    }
}

/// Copies a slot of `states`, whose slots have `length` elements.
pub(crate) fn copy_slot<T: Number>(
    (operations, stream): (&Operations, &Stream),
    states: &mut Buffer<T>,
    (from, to): (u32, u32),
    length: usize,
) -> Result<()> {
    let kernel = operations.kernel(CopySlots, CopySlots::copy::<T>)?;
    kernel.launch(stream, (length as u32).div_ceil(THREADS), (states, from, to, length as u32))?;
    Ok(())
}

/// Copies rows of `length` elements to the slots of `states`.
pub(crate) fn scatter_rows<T: Number>(
    (operations, stream): (&Operations, &Stream),
    (rows, slots): (&Buffer<T>, &Buffer<u32>),
    states: &mut Buffer<T>,
    length: usize,
) -> Result<()> {
    expect_length("the rows of slots", slots.len() * length, rows.len())?;
    let kernel = operations.kernel(CopySlots, CopySlots::scatter::<T>)?;
    let grid = ((length as u32).div_ceil(THREADS), slots.len() as u32);
    kernel.launch(stream, grid, (rows, slots, states, length as u32))?;
    Ok(())
}
