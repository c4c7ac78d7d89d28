//! Blockwise scales for `mma.sync`.
//!
//! ```text
//! k-tiles of 64 elements   0        1        2        3 ..
//! accumulators             from zero         from zero         32 of k an instruction, f32
//! totals                     + acc · sa · sb   + acc · sa · sb   f32, in the same thread's registers
//! ```
//!
//! The scales of a block of k are loaded while its first k-tile is multiplied.

use warpwright::prelude::*;

use super::mma_sync::{DEPTH_BYTES, MmaSyncGemm, MmaSyncOperand};
use crate::gemm::problem::scales::{BLOCK, Granularities, Granularity};

/// K-tiles of a block of scales: elements are bytes.
const BLOCK_TILES: u32 = BLOCK / DEPTH_BYTES;

/// The scales of a thread's rows of A or columns of B.
struct ThreadScales {
    scales: Global<f32>,
    /// Scales from one block of k to the next.
    pitch: Reg<u32>,
    /// The index of each in a block of k.
    indices: Vec<Reg<u32>>,
    values: Fragment<f32>,
}

impl ThreadScales {
    #[track_caller]
    fn new<T: Element>(
        operand: &MmaSyncOperand<T>,
        granularity: Granularity,
        rows: Vec<Reg<u32>>,
        last: Reg<u32>,
    ) -> Self {
        let index = |row: Reg<u32>| {
            let row = row.min(last);
            operand.before.map_or(row, |before| before + row) / granularity.rows()
        };
        let indices: Vec<_> = rows.into_iter().map(index).collect();
        let layout = Layout::column_major(indices.len() as u32).expect("a vector");
        let mut values = Fragment::with_layout(layout);
        values.clear();
        Self { scales: operand.scales.cast(), pitch: operand.pitch, indices, values }
    }

    #[track_caller]
    fn load(&mut self, block: Reg<u32>) {
        let first = block * self.pitch;
        for (at, index) in (0..).zip(&self.indices) {
            self.values.set(at, self.scales.at(first + *index).load());
        }
    }

    /// The scale of row or column `at` of the thread's; all have one if there is one.
    #[track_caller]
    fn get(&self, at: u32) -> Reg<f32> {
        self.values.get(if self.indices.len() == 1 { 0 } else { at })
    }
}

/// The scales of a thread's accumulators, and their sums.
pub(super) struct PromotedTotals {
    a: ThreadScales,
    b: ThreadScales,
    /// Repetitions of the MMA along m and n.
    repetitions: (u32, u32),
    pub(super) totals: Fragment<f32>,
}

impl PromotedTotals {
    /// For the tile at `at` of a C of those extents.
    #[track_caller]
    pub(super) fn new<A: Element, B: Element>(
        gemm: &MmaSyncGemm,
        (of_a, of_b): Granularities,
        (a, b): (&MmaSyncOperand<A>, &MmaSyncOperand<B>),
        part: &ThreadMma,
        at: (Reg<u32>, Reg<u32>),
        (m, n): (Reg<u32>, Reg<u32>),
    ) -> Self {
        let tile = (gemm.tile.0, gemm.tile.1);
        let coordinates = part.c_coordinates(tile);
        let repetitions = gemm.repetitions();
        // Of the four accumulators of a repetition the first two are in one row, and the last two in
        // another: two columns.
        let row = |index: u32| at.0 + coordinates.row(index / 2 * 4 + index % 2 * 2);
        let column = |index: u32| at.1 + coordinates.column(index / 2 * 4 * repetitions.0 + index % 2);
        let rows = match of_a {
            Granularity::Block if !gemm.along_m => vec![at.0],
            _ => (0..2 * repetitions.0).map(row).collect(),
        };
        let columns = match of_b {
            Granularity::Block => vec![at.1],
            Granularity::Row => (0..2 * repetitions.1).map(column).collect(),
        };
        let mut totals: Fragment<f32> = part.c_fragment(tile);
        totals.clear();
        Self {
            a: ThreadScales::new(a, of_a, rows, m - 1u32),
            b: ThreadScales::new(b, of_b, columns, n - 1u32),
            repetitions,
            totals,
        }
    }
}

#[device]
impl PromotedTotals {
    /// Begins k-tile `tile`.
    pub(super) fn begin(&mut self, tile: Reg<u32>) {
        if (tile % BLOCK_TILES).eq(0u32) {
            let block = tile / BLOCK_TILES;
            self.a.load(block);
            self.b.load(block);
        }
    }

    /// Adds the accumulators, scaled, and clears them, where a block of k ends with `tile` of
    /// `tiles`.
    pub(super) fn end(&mut self, accumulators: &mut Fragment<f32>, tile: Reg<u32>, tiles: Reg<u32>) {
        let is_last = (tile % BLOCK_TILES).eq(BLOCK_TILES - 1) | (tile + 1u32).eq(tiles);
        if is_last {
            let (along_m, along_n) = self.repetitions;
            for column in 0..2 * along_n {
                for row in 0..2 * along_m {
                    let index = 4 * (column / 2 * along_m + row / 2) + row % 2 * 2 + column % 2;
                    let scale = self.a.get(row) * self.b.get(column);
                    let total = accumulators.get(index).mul_add(scale, self.totals.get(index));
                    self.totals.set(index, total);
                }
            }
            accumulators.clear();
        }
    }
}
