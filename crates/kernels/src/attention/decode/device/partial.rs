//! Partial results, and how they are combined: those of the warps of a CTA in shared memory, and
//! those of the CTAs that share a head in global memory.
//!
//! ```text
//! of keys A: maximum m, sum l of 2^(s - m), output o        both together: m = max(mA, mB), l = lA 2^(mA - m) + lB 2^(mB - m), o likewise
//! ```

use warpwright::lang::space::Space;
use warpwright::prelude::*;

use super::softmax::base;

/// Columns that a thread combines at once: 16 bytes.
pub(super) const COLUMNS: u32 = 4;

/// The result over some keys: of one row, `COLUMNS` columns.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Partial {
    pub(super) maximum: Reg<f32>,
    pub(super) sum: Reg<f32>,
    pub(super) columns: [Reg<f32>; COLUMNS as usize],
}

#[device]
impl Partial {
    /// That of no keys.
    pub(super) fn empty() -> Self {
        Self { maximum: constant(f32::NEG_INFINITY), sum: constant(0.0), columns: [constant(0.0); 4] }
    }

    /// That of all keys of `partials`.
    pub(super) fn combined(partials: &[Partial]) -> Self {
        let mut maximum = partials[0].maximum;
        for partial in &partials[1..] {
            maximum = maximum.max(partial.maximum);
        }
        let base = base(maximum);
        let mut all = Self { maximum, ..Self::empty() };
        for partial in partials {
            let weight = fast::exp2(partial.maximum - base);
            all.sum += partial.sum * weight;
            for (sum, column) in all.columns.iter_mut().zip(partial.columns) {
                *sum += column * weight;
            }
        }
        all
    }
}

/// Partial results in memory: (index, row).
pub(super) struct Partials<S: Space> {
    /// Rows of each.
    pub(super) rows: u32,
    /// Elements from one row of outputs to the next.
    pub(super) pitch: u32,
    /// Maximum and sum of each row.
    pub(super) statistics: Pointer<f32, S>,
    pub(super) outputs: Pointer<f32, S>,
}

impl<S: Space> Partials<S> {
    /// Maximum and sum.
    #[track_caller]
    pub(super) fn statistics(&self, index: Reg<u32>, row: Reg<u32>) -> Pointer<f32, S> {
        self.statistics.at((index * self.rows + row) * 2)
    }

    /// The outputs from a column on.
    #[track_caller]
    pub(super) fn output(&self, index: Reg<u32>, row: Reg<u32>, column: Reg<u32>) -> Pointer<f32, S> {
        self.outputs.at((index * self.rows + row) * self.pitch + column)
    }

    #[track_caller]
    pub(super) fn load(&self, index: Reg<u32>, row: Reg<u32>, column: Reg<u32>) -> Partial {
        let [maximum, sum] = self.statistics(index, row).load_vector::<2>();
        Partial { maximum, sum, columns: self.output(index, row, column).load_vector() }
    }

    /// Stores a partial result; the thread of column 0 stores the statistics.
    #[device]
    pub(super) fn store(&self, index: Reg<u32>, row: Reg<u32>, column: Reg<u32>, partial: &Partial) {
        self.store_parts([index, index], row, column, partial);
    }

    /// Stores a partial result, of which the statistics and the outputs have different indices.
    #[device]
    pub(super) fn store_parts(
        &self,
        [statistics, output]: [Reg<u32>; 2],
        row: Reg<u32>,
        column: Reg<u32>,
        partial: &Partial,
    ) {
        if column == 0 {
            self.statistics(statistics, row).store_vector([partial.maximum, partial.sum]);
        }
        self.output(output, row, column).store_vector(partial.columns);
    }
}
