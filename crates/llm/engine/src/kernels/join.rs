//! Rows side by side: a thread for each element.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result, expect_length};

use crate::number::Number;

/// Threads of a CTA.
const THREADS: u32 = 256;

/// Rows [a | b] of rows a and b, each of that many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JoinColumns {
    pub(crate) columns: u32,
}

impl JoinColumns {
    #[kernel]
    fn run<T: Number>(&self, a: &Global<T>, b: &Global<T>, joined: &mut Global<T>, count: u32) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            let (row, column) = (at / self.columns, at % self.columns);
            let to = joined.at(row.mul_wide(2 * self.columns)).at(column);
            to.store(a.at(at).load());
            to.at(self.columns).store(b.at(at).load());
        }
    }

    /// Joins all rows.
    pub(crate) fn launch<T: Number>(
        self,
        (operations, stream): (&Operations, &Stream),
        [a, b]: [&Buffer<T>; 2],
        joined: &mut Buffer<T>,
    ) -> Result<()> {
        expect_length("rows to join", a.len(), b.len())?;
        expect_length("joined rows", 2 * a.len(), joined.len())?;
        let kernel = operations.kernel(self, Self::run::<T>)?;
        let grid = operations.grid("joined rows", (a.len() as u64).div_ceil(THREADS.into()))?;
        kernel.launch(stream, grid, (a, b, joined, a.len() as u32))?;
        Ok(())
    }
}
