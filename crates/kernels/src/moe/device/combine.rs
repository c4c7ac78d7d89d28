//! The weighted sum of each token's rows: a thread for each vector of the result.

use warpwright::prelude::*;

use crate::columns::VectorGrid;
use crate::rows::{Chunk, RowElement};
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Combine {
    pub(crate) grid: VectorGrid,
    pub(crate) choices: u32,
}

impl Combine {
    /// `x` is (tokens · choices, columns), `rows` and `weights` are (tokens, choices), `y` is
    /// (tokens, columns).
    #[kernel]
    pub(crate) fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        rows: &Global<u32>,
        weights: &Global<f32>,
        y: &mut Global<T>,
        tokens: u32,
    ) {
        let VectorGrid { columns, lanes, .. } = self.grid;
        for at in self.grid.positions(tokens) {
            let first = at.row.mul_wide(self.choices);
            let load = |choice: u32| {
                let row = rows.at(first).at(choice).load_read_only();
                device_assert(row.lt(tokens * self.choices), "a choice has no row");
                let from = x.at(row.mul_wide(columns)).at(at.column);
                let weight = weights.at(first).at(choice).load_read_only();
                (weight, Chunk::<T>::load(from, lanes, vector::read_once()))
            };
            let loaded: Vec<_> = (0..self.choices).map(load).collect();
            let mut sums = vec![constant(0f32); lanes as usize];
            for (weight, chunk) in loaded {
                sums = sums
                    .iter()
                    .zip(chunk.values())
                    .map(|(sum, x)| x.mul_add(weight, *sum))
                    .collect::<Vec<_>>();
            }
            if at.is_inside {
                Chunk::<T>::of(&sums).store(at.of(*y, constant(columns)), Access::new());
            }
        }
    }
}
