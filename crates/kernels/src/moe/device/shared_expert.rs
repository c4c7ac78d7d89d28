//! The sum of the routed experts and of a gated shared one, added to a residual: a thread for each element.

use warpwright::prelude::*;

use crate::columns::THREADS;
use crate::rows::RowElement;

/// The kernel for rows of that many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SharedExpert {
    pub(crate) columns: u32,
}

impl SharedExpert {
    /// y += routed + sigmoid(gate of the token) · shared.
    #[kernel]
    pub(crate) fn run<T: RowElement>(
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
}
