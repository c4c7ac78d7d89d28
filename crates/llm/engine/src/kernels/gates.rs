//! Elementwise products with gates: a thread for each element.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result};

use crate::number::Number;

/// Threads of a CTA.
const THREADS: u32 = 256;

/// y = x · sigmoid(gate) of heads whose gates follow their queries in a fused projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeadGates {
    pub(crate) heads: u32,
    pub(crate) head_dim: u32,
    /// Elements from token to token of the projection, and from head to head.
    pub(crate) token_stride: u32,
    pub(crate) head_stride: u32,
    /// The first gate.
    pub(crate) offset: u32,
}

impl HeadGates {
    #[kernel]
    fn run<T: Number>(&self, x: &Global<T>, projection: &Global<T>, y: &mut Global<T>, count: u32) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            let (head, column) = (at / self.head_dim, at % self.head_dim);
            let (token, head) = (head / self.heads, head % self.heads);
            let gate =
                projection.at(token.mul_wide(self.token_stride)).at(head * self.head_stride + self.offset);
            let gate = gate.at(column).load().convert::<f32>();
            y.at(at).store((x.at(at).load().convert::<f32>() * gate.sigmoid()).convert::<T>());
        }
    }

    /// Gates all of `x`.
    pub(crate) fn launch<T: Number>(
        self,
        (operations, stream): (&Operations, &Stream),
        (x, projection): (&Buffer<T>, &Buffer<T>),
        y: &mut Buffer<T>,
    ) -> Result<()> {
        let kernel = operations.kernel(self, Self::run::<T>)?;
        let grid = operations.grid("the gates of heads", (x.len() as u64).div_ceil(THREADS.into()))?;
        kernel.launch(stream, grid, (x, projection, y, x.len() as u32))?;
        Ok(())
    }
}

/// y += routed + sigmoid(gate of the token) · shared, of rows of that many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SharedExpert {
    pub(crate) columns: u32,
}

impl SharedExpert {
    #[kernel]
    fn run<T: Number>(
        &self,
        routed: &Global<T>,
        shared: &Global<T>,
        gates: &Global<T>,
        y: &mut Global<T>,
        count: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            let gate = gates.at(at / self.columns).load().convert::<f32>().sigmoid();
            let sum =
                gate.mul_add(shared.at(at).load().convert::<f32>(), routed.at(at).load().convert::<f32>());
            y.at(at).store((sum + y.at(at).load().convert::<f32>()).convert::<T>());
        }
    }

    /// Adds both to all rows.
    pub(crate) fn launch<T: Number>(
        self,
        (operations, stream): (&Operations, &Stream),
        (routed, shared, gates): (&Buffer<T>, &Buffer<T>, &Buffer<T>),
        y: &mut Buffer<T>,
    ) -> Result<()> {
        let kernel = operations.kernel(self, Self::run::<T>)?;
        let grid = operations.grid("the shared expert", (routed.len() as u64).div_ceil(THREADS.into()))?;
        kernel.launch(stream, grid, (routed, shared, gates, y, routed.len() as u32))?;
        Ok(())
    }
}
