//! The kernels of drafts.

use warpwright::prelude::*;

use super::problem::{LAST, Speculation, THREADS};
use crate::rope::NO_SLOT;
use crate::sampling::PARAMETER_WORDS;

/// Words of the offset of a draw: the low one and the high one.
const OFFSET_WORDS: [u32; 2] = [10, 11];

#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct SequenceInputs {
    given: Global<i32>,
    positions: Global<u32>,
    limits: Global<i32>,
    slots: Global<u32>,
    table: Global<u32>,
    parameters: Global<u32>,
}

impl Speculation {
    /// A thread for each row.
    #[kernel]
    pub(super) fn prepare(
        &self,
        sequences: SequenceInputs,
        last: &Global<u32>,
        of_slots: &Global<u32>,
        drafts: &Global<u32>,
        tokens: &mut Global<i32>,
        positions: &mut Global<u32>,
        keys: &mut Global<u32>,
        lengths: &mut Global<u32>,
        parameters: &mut Global<u32>,
        entries: u32,
        rows: u32,
    ) {
        launch::threads(THREADS);
        let row = block_idx().x * THREADS + thread_idx().x;
        if row < rows {
            let (sequence, at) = (row / self.each, row % self.each);
            let slot = sequences.slots.at(sequence).load();
            let limit = sequences.limits.at(sequence).load();
            let known = sequences.positions.at(sequence).load();
            let mut token = sequences.given.at(sequence).load();
            let mut first = known;
            if token == LAST {
                token = last[slot].bit_cast::<i32>();
                first = of_slots[slot];
            }
            if at > 0 {
                token = drafts[slot * (self.each - 1) + at - 1].bit_cast::<i32>();
            }
            // Rows after the limit count for nothing; their positions are those of the last one before.
            let position = first + at.min(limit.max(0i32).bit_cast::<u32>());
            let mut key = constant(NO_SLOT);
            if at.bit_cast::<i32>().le(limit) {
                key = self.key(sequences.table.at(sequence * entries), position);
            }
            tokens[row] = token;
            positions[row] = position;
            keys[row] = key;
            if at == 0 {
                lengths[sequence] = first + self.each;
            }
            let words = PARAMETER_WORDS as u32;
            let (from, to) = (sequences.parameters.at(sequence * words), parameters.at(row * words));
            for word in (0..words).filter(|word| !OFFSET_WORDS.contains(word)) {
                to.at(word).store(from.at(word).load());
            }
            let [low, high] = OFFSET_WORDS;
            let word = |word: u32| from.at(word).load().convert::<u64>();
            // The offset of the first token is that of its known position.
            let ahead = (first + at).convert::<u64>() - known.convert::<u64>();
            let offset = (word(low) | (word(high) << 32u32)) + ahead;
            to.at(low).store(offset.convert::<u32>());
            to.at(high).store((offset >> 32u32).convert::<u32>());
        }
    }

    /// A thread for each sequence.
    #[kernel]
    pub(super) fn accept(
        &self,
        slots: &Global<u32>,
        limits: &Global<i32>,
        tokens: &Global<i32>,
        positions: &Global<u32>,
        sampled: &Global<u32>,
        last: &mut Global<u32>,
        of_slots: &mut Global<u32>,
        counts: &mut Global<u32>,
        ends: &mut Global<u32>,
        last_rows: &mut Global<i32>,
        next: &mut Global<i32>,
        sequences: u32,
    ) {
        launch::threads(THREADS);
        let sequence = block_idx().x * THREADS + thread_idx().x;
        if sequence < sequences {
            let (first, limit) = (sequence * self.each, limits[sequence]);
            let mut count = constant(1u32);
            let mut are_right = constant(true);
            for draft in 1..self.each {
                let is_same = sampled[first + (draft - 1)].eq(tokens[first + draft].bit_cast::<u32>());
                are_right = are_right & is_same & limit.ge(draft.cast_signed());
                count = count + are_right.select(1u32, 0u32);
            }
            for at in 0..self.each {
                let token = sampled[first + at].bit_cast::<i32>();
                next[first + at] = count.gt(at).select(token, 0i32);
            }
            let slot = slots[sequence];
            last[slot] = sampled[first + count - 1];
            of_slots[slot] = positions[first] + count;
            counts[sequence] = count;
            ends[sequence] = first + count;
            last_rows[sequence] = (first + count - 1).bit_cast::<i32>();
        }
    }

    /// Draft number `number` of each sequence, and where the MTP layer computes it: a thread for each sequence.
    /// `held` are the positions that pages of the sequence hold.
    #[kernel]
    pub(super) fn keep(
        &self,
        drafted: &Global<u32>,
        slots: &Global<u32>,
        held: &Global<u32>,
        table: &Global<u32>,
        of_slots: &Global<u32>,
        drafts: &mut Global<u32>,
        next: &mut Global<i32>,
        positions: &mut Global<u32>,
        keys: &mut Global<u32>,
        lengths: &mut Global<u32>,
        entries: u32,
        number: u32,
        vocabulary: u32,
        sequences: u32,
    ) {
        launch::threads(THREADS);
        let sequence = block_idx().x * THREADS + thread_idx().x;
        if sequence < sequences {
            let slot = slots[sequence];
            // A row with NaN has no token; any other is as good.
            let token = drafted[sequence].min(vocabulary - 1);
            drafts[slot * (self.each - 1) + number] = token;
            next[sequence] = token.bit_cast::<i32>();
            let (position, most) = (of_slots[slot] + number, held[sequence]);
            let mut key = constant(NO_SLOT);
            if position < most {
                key = self.key(table.at(sequence * entries), position);
            }
            let position = position.min(most.max(1u32) - 1);
            positions[sequence] = position;
            keys[sequence] = key;
            lengths[sequence] = position + 1;
        }
    }
}

#[device]
impl Speculation {
    /// The key of a position of a sequence whose pages are `pages`.
    fn key(&self, pages: Global<u32>, position: Reg<u32>) -> Reg<u32> {
        let page = pages.at(position / self.page_size).load();
        page * self.page_size + position % self.page_size
    }
}
