//! Speculative decoding on the device: the tokens to verify, those that count, and where drafts go.
//!
//! ```text
//! rows (sequences, each)     last | drafts ..
//! sampled after each row     t1   | t2 ..        t1 counts; t2 counts if t1 is the first draft, and so on
//! ```

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result};
use warpwright_kernels::rope::NO_SLOT;
use warpwright_kernels::sampling::PARAMETER_WORDS;

use super::tokens::{LAST, SlotTokens};

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Speculation {
    /// Rows of each sequence: a token and its drafts.
    pub(crate) each: u32,
    /// Tokens of a page.
    pub(crate) page_size: u32,
}

/// The sequences of a step, as the host knows them.
pub(crate) struct Sequences<'l> {
    /// The last token of each, or [`LAST`]: it and its position are those of the slot.
    pub(crate) given: &'l Buffer<i32>,
    /// Positions of the tokens, as far as they are known.
    pub(crate) positions: &'l Buffer<u32>,
    /// Drafts of each that may count; [`PADDING`] for what is none.
    pub(crate) limits: &'l Buffer<i32>,
    pub(crate) slots: &'l Buffer<u32>,
    /// (sequences, entries): pages.
    pub(crate) table: &'l Buffer<u32>,
    /// (sequences, words): how the first token of each is drawn.
    pub(crate) parameters: &'l Buffer<u32>,
}

/// Rows to verify.
pub(crate) struct Rows<'l> {
    pub(crate) tokens: &'l mut Buffer<i32>,
    pub(crate) positions: &'l mut Buffer<u32>,
    /// The keys that they write.
    pub(crate) keys: &'l mut Buffer<u32>,
    /// (sequences): keys of each.
    pub(crate) lengths: &'l mut Buffer<u32>,
    /// (rows, words): how tokens are drawn.
    pub(crate) parameters: &'l mut Buffer<u32>,
}

/// What counts.
pub(crate) struct Accepted<'l> {
    /// (sequences): sampled tokens that count.
    pub(crate) counts: &'l mut Buffer<u32>,
    /// (sequences): the row after the last one that counts, and that one.
    pub(crate) ends: &'l mut Buffer<u32>,
    pub(crate) last_rows: &'l mut Buffer<i32>,
    /// (rows): the token after each row that counts.
    pub(crate) next: &'l mut Buffer<i32>,
}

/// The limit of a sequence that is padding, and writes no key.
pub(crate) const PADDING: i32 = -1;

/// Words of the offset of a draw: the low one and the high one.
const OFFSET_WORDS: [u32; 2] = [10, 11];

/// Threads of a CTA.
const THREADS: u32 = 128;

#[derive(Clone, Copy, DeviceValue, KernelParameter)]
struct SequenceInputs {
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
    fn prepare(
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
                let page = sequences.table.at(sequence * entries + position / self.page_size).load();
                key = page * self.page_size + position % self.page_size;
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
    fn accept(
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
    fn keep(
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
                let page = table[sequence * entries + position / self.page_size];
                key = page * self.page_size + position % self.page_size;
            }
            let position = position.min(most.max(1u32) - 1);
            positions[sequence] = position;
            keys[sequence] = key;
            lengths[sequence] = position + 1;
        }
    }
}

impl Speculation {
    /// The rows of the sequences.
    pub(crate) fn prepare_rows(
        self,
        (operations, stream): (&Operations, &Stream),
        sequences: &Sequences<'_>,
        slots: &SlotTokens,
        rows: Rows<'_>,
    ) -> Result<()> {
        let Sequences { given, positions, limits, slots: of_sequences, table, parameters } = sequences;
        let (count, entries) = (rows.tokens.len() as u32, (table.len() / given.len()) as u32);
        let inputs = (*given, *positions, *limits, *of_sequences, *table, *parameters);
        let SlotTokens { last, positions: of_slots, drafts } = slots;
        let kernel = operations.kernel(self, Self::prepare)?;
        let Rows { tokens, positions, keys, lengths, parameters } = rows;
        kernel.launch(
            stream,
            count.div_ceil(THREADS),
            (inputs, last, of_slots, drafts, tokens, positions, keys, lengths, parameters, entries, count),
        )?;
        Ok(())
    }

    /// Which sampled tokens count, and the last token of each slot.
    pub(crate) fn accept_drafts(
        self,
        (operations, stream): (&Operations, &Stream),
        sequences: &Sequences<'_>,
        (tokens, positions, sampled): (&Buffer<i32>, &Buffer<u32>, &Buffer<u32>),
        SlotTokens { last, positions: of_slots, .. }: &mut SlotTokens,
        accepted: Accepted<'_>,
    ) -> Result<()> {
        let count = sequences.slots.len() as u32;
        let Accepted { counts, ends, last_rows, next } = accepted;
        let from = (sequences.slots, sequences.limits);
        let kernel = operations.kernel(self, Self::accept)?;
        kernel.launch(
            stream,
            count.div_ceil(THREADS),
            (
                from.0, from.1, tokens, positions, sampled, last, of_slots, counts, ends, last_rows, next,
                count,
            ),
        )?;
        Ok(())
    }

    /// Keeps draft number `number` of each sequence, and prepares the rows of the next one.
    pub(crate) fn keep_drafts(
        self,
        (operations, stream): (&Operations, &Stream),
        (drafted, number, vocabulary): (&Buffer<u32>, u32, u32),
        (slots, held, table): (&Buffer<u32>, &Buffer<u32>, &Buffer<u32>),
        SlotTokens { positions: of_slots, drafts, .. }: &mut SlotTokens,
        (next, positions, keys, lengths): (
            &mut Buffer<i32>,
            &mut Buffer<u32>,
            &mut Buffer<u32>,
            &mut Buffer<u32>,
        ),
    ) -> Result<()> {
        let (count, entries) = (slots.len() as u32, (table.len() / slots.len()) as u32);
        let kernel = operations.kernel(self, Self::keep)?;
        let from = (drafted, slots, held, table, &*of_slots);
        let to = (drafts, next, positions, keys, lengths);
        kernel.launch(
            stream,
            count.div_ceil(THREADS),
            (
                from.0, from.1, from.2, from.3, from.4, to.0, to.1, to.2, to.3, to.4, entries, number,
                vocabulary, count,
            ),
        )?;
        Ok(())
    }
}
