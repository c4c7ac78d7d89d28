//! Where the keys of a block are in K and V: neighbors, or in the pages of a cache.
//!
//! ```text
//! pages of 64 keys, a block of 128     K and V: (page, key of the page, head, d)
//! block table   5 | 2 | 9 | ..
//! block 0       part 0: page 5         a part has the keys of one page. Each panel of 128 bytes of a
//!               part 1: page 2         part is one tensor copy; all complete the stage's mbarrier
//! block 1       part 0: page 9 ..
//! ```

use warpwright::lang::control::trap;
use warpwright::prelude::*;

use super::configuration::{ForwardKernel, ValueLayout};
use super::scheduler::{ForwardProblem, Sequence, Tile};
use crate::attention::packed_blocks::first_block;

/// The parts of a block of K or V: the matrix of each, and where it begins there.
pub(super) type Parts = Vec<(MappedMatrix, (Reg<u32>, Reg<u32>))>;

/// The keys of a tile's sequence.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Keys {
    kernel: ForwardKernel,
    sequence: Sequence,
    /// The head of K and V.
    head: Reg<u32>,
    /// The sequence's row of the block table.
    pages: Global<u32>,
}

#[device]
impl Keys {
    pub(super) fn new(kernel: ForwardKernel, problem: &ForwardProblem, tile: &Tile) -> Self {
        let (sequence, head) = (tile.sequence, tile.head / problem.heads[1]);
        let mut pages = problem.pages;
        // `device_assert` calls a function, beside which ptxas serializes `wgmma`.
        if kernel.packed {
            // It has more queries than the tiles of a sequence.
            if sequence.lengths[0] > problem.lengths[0] {
                trap();
            }
        }
        if let Some(page_size) = kernel.page_size {
            let entries = problem.pages_per_sequence;
            // It is longer than its entries.
            if sequence.lengths[1] > entries * page_size {
                trap();
            }
            pages = pages.at(sequence.number as u64 * entries as u64);
        }
        Self { kernel, sequence, head, pages }
    }

    /// The keys of the sequence in a block.
    pub(super) fn present(&self, block: Reg<u32>) -> Reg<u32> {
        let before = block * self.kernel.block;
        (self.sequence.lengths[1].max(before) - before).min(self.kernel.block)
    }

    /// A block of K.
    pub(super) fn keys(&self, k: &TensorMap, block: Reg<u32>) -> Parts {
        self.parts(k, block)
            .into_iter()
            .map(|(matrix, key)| (matrix, (key, constant(0u32))))
            .collect::<Vec<_>>()
    }

    /// A block of V.
    pub(super) fn values(&self, v: &TensorMap, block: Reg<u32>) -> Parts {
        let layout = self.kernel.values();
        let parts = match layout {
            ValueLayout::TransposedBefore => vec![self.transposed(v, block)],
            _ => self.parts(v, block),
        };
        let place = |key| match layout {
            ValueLayout::TransposedInside => (key, constant(0u32)),
            _ => (constant(0u32), key),
        };
        parts.into_iter().map(|(matrix, key)| (matrix, place(key))).collect::<Vec<_>>()
    }

    /// The matrix of K or V, and the row in it, of each part of a block.
    fn parts(&self, map: &TensorMap, block: Reg<u32>) -> Vec<(MappedMatrix, Reg<u32>)> {
        let matrix = MappedMatrix::from(map).batch(self.head);
        let first = block * self.kernel.block;
        match self.kernel.page_size {
            Some(page_size) => {
                // Past the end there are no pages: the last one stands for them.
                let last = (self.sequence.lengths[1].max(1) - 1u32) / page_size;
                let offsets = (0..self.kernel.block).step_by(self.kernel.part_keys() as usize);
                let part = |offset: u32| {
                    let key = first + offset;
                    let page = self.pages.at((key / page_size).min(last)).load();
                    (matrix.batch(page), key % page_size)
                };
                offsets.map(part).collect()
            }
            None if self.kernel.packed => vec![(matrix, self.sequence.starts[1] + first)],
            None => vec![(matrix.batch(self.sequence.number), first)],
        }
    }

    /// The matrix of V transposed, (d, key), and the key in it, of a block. A packed sequence begins with a
    /// block of its own there.
    fn transposed(&self, map: &TensorMap, block: Reg<u32>) -> (MappedMatrix, Reg<u32>) {
        let matrix = MappedMatrix::from(map).batch(self.head);
        let (rows, sequence) = (self.kernel.block, self.sequence);
        match self.kernel.packed {
            true => (matrix, (first_block(rows, (sequence.starts[1], sequence.number)) + block) * rows),
            false => (matrix.batch(sequence.number), block * rows),
        }
    }
}
