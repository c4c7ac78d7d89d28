//! How the threads of a CTA copy a k-block of A or B.

use warpwright::prelude::*;

use crate::vector::{element, load_lanes};

/// `width` neighboring elements of a row-major matrix of (rows, columns), or zeros outside it.
#[device]
pub fn load_or_zero(
    matrix: Global<f32>,
    (rows, columns): (Reg<u32>, Reg<u32>),
    (row, column): (Reg<u32>, Reg<u32>),
    width: u32,
) -> Vec<Reg<f32>> {
    let mut values: Vec<Reg<f32>> = (0..width).map(|_| constant(0.0f32)).collect();
    if row < rows && column < columns {
        values = load_lanes(element(matrix, columns, row, column), width, Access::new());
    }
    values
}

/// Which elements of a k-block a thread copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// A run per thread: lanes are far apart.
    Runs,
    /// Neighboring threads copy neighboring vectors: coalesced.
    Interleaved,
}

/// A k-block (rows, columns) that `threads` threads copy in vectors of `width`.
#[derive(Clone, Copy, Debug)]
pub struct KBlock {
    /// Rows and columns.
    pub shape: (u32, u32),
    /// Threads that copy it.
    pub threads: u32,
    /// Elements of a vector.
    pub width: u32,
}

impl KBlock {
    /// Vectors of a thread.
    pub fn count(&self) -> u32 {
        self.shape.0 * self.shape.1 / self.width / self.threads
    }

    /// The (row, column) of each of a thread's vectors.
    #[track_caller]
    pub fn places(&self, thread: Reg<u32>, spread: Spread) -> Vec<(Reg<u32>, Reg<u32>)> {
        let in_row = self.shape.1 / self.width;
        let place = |vector: Reg<u32>| (vector / in_row, vector % in_row * self.width);
        let first = place(thread);
        (0..self.count())
            .map(|index| match spread {
                Spread::Runs => place(thread * self.count() + index),
                // Whole rows apart: only the row changes, by a constant.
                Spread::Interleaved if self.threads.is_multiple_of(in_row) => {
                    (first.0 + index * (self.threads / in_row), first.1)
                }
                Spread::Interleaved => place(thread + index * self.threads),
            })
            .collect()
    }
}
