//! Copies of rows to rows of their indices: a thread for each element.

use warpwright::prelude::*;

use crate::columns::THREADS;
use crate::rows::RowElement;

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CopyRows;

impl CopyRows {
    /// Row `to` of `table`, whose rows have `columns` elements, becomes row `from`.
    #[kernel]
    pub(super) fn copy<T: RowElement>(&self, table: &mut Global<T>, from: u32, to: u32, columns: u32) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < columns {
            let value = table.at(from.mul_wide(columns)).at(at).load();
            table.at(to.mul_wide(columns)).at(at).store(value);
        }
    }

    /// Row `indices[row]` of `table` becomes row `row` of `rows`, for each row of the grid.
    #[kernel]
    pub(super) fn scatter<T: RowElement>(
        &self,
        rows: &Global<T>,
        indices: &Global<u32>,
        table: &mut Global<T>,
        columns: u32,
    ) {
        launch::threads(THREADS);
        let (at, row) = (block_idx().x * THREADS + thread_idx().x, block_idx().y);
        if at < columns {
            let value = rows.at(row.mul_wide(columns)).at(at).load();
            table.at(indices[row].mul_wide(columns)).at(at).store(value);
        }
    }
}

/// Rows [a | b] of rows a and b, each of that many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Concatenate {
    pub(super) columns: u32,
}

impl Concatenate {
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        joined: &mut Global<T>,
        count: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            let (row, column) = (at / self.columns, at % self.columns);
            let to = joined.at(row.mul_wide(2 * self.columns)).at(column);
            to.store(a.at(at).load());
            to.at(self.columns).store(b.at(at).load());
        }
    }
}
