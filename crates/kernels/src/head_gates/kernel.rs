//! The kernel: a thread for each element.

use warpwright::prelude::*;

use crate::columns::THREADS;
use crate::rows::RowElement;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeadGates {
    pub(super) heads: u32,
    pub(super) head_dim: u32,
    /// Elements from token to token of the projection, and from head to head.
    pub(super) token_stride: u32,
    pub(super) head_stride: u32,
    /// The first gate.
    pub(super) offset: u32,
}

impl HeadGates {
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        projection: &Global<T>,
        y: &mut Global<T>,
        count: u32,
    ) {
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
}
