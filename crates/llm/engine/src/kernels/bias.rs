//! A bias in front of a product: rows that the product is added to.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result};

use crate::number::Number;

/// Threads of a CTA.
const THREADS: u32 = 256;

/// Rows of that many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Bias {
    columns: u32,
}

impl Bias {
    #[kernel]
    fn run<T: Number, U: Number>(&self, bias: &Global<T>, rows: &mut Global<U>, count: u32) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            rows.at(at).store(bias.at(at % self.columns).load().convert::<f32>().convert::<U>());
        }
    }
}

/// Every row = the bias.
pub(crate) fn fill<T: Number, U: Number>(
    (operations, stream): (&Operations, &Stream),
    bias: &Buffer<T>,
    rows: &mut Buffer<U>,
) -> Result<()> {
    let kernel = operations.kernel(Bias { columns: bias.len() as u32 }, Bias::run::<T, U>)?;
    let grid = operations.grid("a bias", (rows.len() as u64).div_ceil(THREADS.into()))?;
    let count = rows.len() as u32;
    kernel.launch(stream, grid, (bias, rows, count))?;
    Ok(())
}
