//! The blocks of packed sequences.

use warpwright::prelude::*;

/// The rows of Q or of K of packed sequences, in blocks of `rows`. Sequence s has the blocks of a head
/// from `offsets[s] / rows + s` on: no two sequences share a block, and each leaves at most one empty.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct PackedBlocks {
    /// The first row of each sequence, and the number of all.
    pub(super) offsets: Global<u32>,
    pub(super) sequences: Reg<u32>,
    pub(super) rows: u32,
}

/// The rows of a packed sequence.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct PackedSequence {
    pub(super) number: Reg<u32>,
    /// Its first row in the matrix, and its rows.
    pub(super) first: Reg<u32>,
    pub(super) count: Reg<u32>,
    pub(super) first_block: Reg<u32>,
}

#[device]
impl PackedBlocks {
    /// The blocks of a head, of `all` rows.
    pub(super) fn count(self, all: Reg<u32>) -> Reg<u32> {
        all / self.rows + self.sequences
    }

    /// The sequence that has a block.
    pub(super) fn sequence_of(self, block: Reg<u32>) -> PackedSequence {
        let (mut low, mut high) = (constant(0u32), self.sequences);
        while low + 1u32 < high {
            let middle = (low + high) / 2u32;
            if self.first_block(middle) <= block {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.sequence(low)
    }

    pub(super) fn sequence(self, number: Reg<u32>) -> PackedSequence {
        let first = self.offsets.at(number).load();
        let count = self.offsets.at(number + 1u32).load() - first;
        PackedSequence { number, first, count, first_block: self.first_block(number) }
    }

    fn first_block(self, number: Reg<u32>) -> Reg<u32> {
        first_block(self.rows, (self.offsets.at(number).load(), number))
    }
}

/// The first block of `rows` rows of sequence `number`, whose first row is `start`.
#[device]
pub(super) fn first_block(rows: u32, (start, number): (Reg<u32>, Reg<u32>)) -> Reg<u32> {
    start / rows + number
}
