//! The kernel: a thread for some vectors of the result, whose loads are all in flight at once.

use warpwright::prelude::*;

use crate::columns::VectorGrid;
use crate::rows::{Chunk, RowElement};
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gather {
    pub(super) grid: VectorGrid,
}

impl Gather {
    /// `table` is (entries, columns), with at least one entry; `indices` is (rows), `y` (rows,
    /// columns).
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        table: &Global<T>,
        indices: &Global<i32>,
        y: &mut Global<T>,
        first: i32,
        entries: u32,
        rows: u32,
    ) {
        let VectorGrid { columns, lanes, .. } = self.grid;
        let positions = self.grid.positions(rows);
        let mut loaded = vec![];
        for at in &positions {
            let entry = (indices.at(at.row).load_read_only() - first).bit_cast::<u32>();
            let from = table.at(entry.min(entries - 1).mul_wide(columns)).at(at.column);
            let chunk = Chunk::<T>::load(from, lanes, vector::read_once());
            loaded.push(chunk.or_zero(entry.lt(entries)));
        }
        for (at, chunk) in positions.iter().zip(loaded) {
            if at.is_inside {
                chunk.store(at.of(*y, constant(columns)), Access::new());
            }
        }
    }
}
