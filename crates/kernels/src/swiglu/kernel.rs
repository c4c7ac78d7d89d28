//! The kernel: a thread for each vector.

use warpwright::prelude::*;

use crate::columns::VectorGrid;
use crate::overlap;
use crate::rows::{Chunk, RowElement};

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Swiglu {
    pub(super) grid: VectorGrid,
    /// Whether the launch overlaps its predecessor.
    pub(super) overlaps: bool,
}

impl Swiglu {
    /// `gates` and `values` are matrices of those offsets and strides, `y` is (rows, columns).
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        gates: &Global<T>,
        values: &Global<T>,
        y: &mut Global<T>,
        of_gates: [u32; 2],
        of_values: [u32; 2],
        rows: u32,
    ) {
        let positions = self.grid.positions(rows);
        let lanes = self.grid.lanes;
        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        let mut loaded = vec![];
        for at in &positions {
            let gate = Chunk::load(at.of_columns(*gates, of_gates), lanes, Access::new());
            let value = Chunk::load(at.of_columns(*values, of_values), lanes, Access::new());
            loaded.push((gate, value));
        }
        for (at, (gate, value)) in positions.iter().zip(loaded) {
            let products: Vec<_> = gate
                .values()
                .into_iter()
                .zip(value.values())
                .map(|(gate, value)| gate.silu() * value)
                .collect();
            if at.is_inside {
                let to = at.of(*y, constant(self.grid.columns));
                Chunk::<T>::of(&products).store(to, Access::new());
            }
        }
    }
}
