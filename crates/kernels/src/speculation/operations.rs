//! The operations for programs. Tokens, slots, positions and limits are read when a kernel runs, so that a CUDA graph may be
//! replayed with others.

use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use super::last_tokens::LastTokens;
use super::problem::{Accepted, NextRows, OPERATION, Rows, Sequences, SlotTokens, Speculation, THREADS};
use crate::operations::{Operations, Result, expect_length};
use crate::sampling::PARAMETER_WORDS;

impl Operations {
    /// The grid of a thread for each of `count`.
    fn grid_of_tokens(&self, count: usize) -> Result<u32> {
        self.grid(OPERATION, (count as u64).div_ceil(THREADS.into()))
    }

    /// `tokens[i]` = `given[i]`; where that is [`LAST`](super::LAST), what the slot of the token's sequence sampled last.
    /// `sequences` are (tokens), `slots` (sequences) and `last` (slots).
    ///
    /// # Errors
    /// A buffer has another length than `given`, or the device refuses.
    pub fn resolve_tokens(
        &self,
        stream: &Stream,
        given: &Buffer<i32>,
        (sequences, slots): (&Buffer<u32>, &Buffer<u32>),
        last: &Buffer<u32>,
        tokens: &mut Buffer<i32>,
    ) -> Result<LaunchCounts> {
        expect_length("the sequences of tokens", given.len(), sequences.len())?;
        expect_length("the resolved tokens", given.len(), tokens.len())?;
        if given.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let (grid, count) = (self.grid_of_tokens(given.len())?, given.len() as u32);
        let kernel = self.kernel(LastTokens, LastTokens::resolve)?;
        Ok(kernel.launch(stream, grid, (given, sequences, slots, last, tokens, count))?)
    }

    /// Keeps the tokens that rows of logits sampled in the slots `slots`, with their positions `ends`.
    ///
    /// # Errors
    /// A buffer has another length than `sampled`, or the device refuses.
    pub fn remember_tokens(
        &self,
        stream: &Stream,
        sampled: &Buffer<u32>,
        (slots, ends): (&Buffer<u32>, &Buffer<u32>),
        SlotTokens { last, positions, .. }: &mut SlotTokens,
    ) -> Result<LaunchCounts> {
        expect_length("the slots of sampled tokens", sampled.len(), slots.len())?;
        expect_length("the positions of sampled tokens", sampled.len(), ends.len())?;
        expect_length("the positions of slots", last.len(), positions.len())?;
        if sampled.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let (grid, count) = (self.grid_of_tokens(sampled.len())?, sampled.len() as u32);
        let kernel = self.kernel(LastTokens, LastTokens::remember)?;
        Ok(kernel.launch(stream, grid, (sampled, slots, ends, last, positions, count))?)
    }

    /// `next[i]` = the token after `tokens[i]` in its sequence; after the last one, what the sequence's slot sampled last.
    /// Sequence s has the tokens from `starts[s]` to `starts[s + 1]`.
    ///
    /// # Errors
    /// A buffer has another length than the tokens or the sequences need, or the device refuses.
    pub fn follow_tokens(
        &self,
        stream: &Stream,
        tokens: &Buffer<i32>,
        (sequences, starts, slots): (&Buffer<u32>, &Buffer<u32>, &Buffer<u32>),
        last: &Buffer<u32>,
        next: &mut Buffer<i32>,
    ) -> Result<LaunchCounts> {
        expect_length("the sequences of tokens", tokens.len(), sequences.len())?;
        expect_length("the starts of sequences", slots.len() + 1, starts.len())?;
        expect_length("the next tokens", tokens.len(), next.len())?;
        if tokens.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let (grid, count) = (self.grid_of_tokens(tokens.len())?, tokens.len() as u32);
        let kernel = self.kernel(LastTokens, LastTokens::follow)?;
        Ok(kernel.launch(stream, grid, (tokens, sequences, starts, slots, last, next, count))?)
    }

    /// The rows to verify: each sequence's last token and its drafts, their positions, the keys that they write and how
    /// they are drawn.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, or the device refuses.
    pub fn prepare_drafts(
        &self,
        stream: &Stream,
        speculation: Speculation,
        sequences: &Sequences<'_>,
        slots: &SlotTokens,
        rows: Rows<'_>,
    ) -> Result<LaunchCounts> {
        let count = sequences.count()?;
        let entries = speculation.check(slots, sequences.table, count)?;
        let Rows { tokens, positions, keys, lengths, parameters } = rows;
        let all = count * speculation.each as usize;
        expect_length("the tokens of drafts", all, tokens.len())?;
        expect_length("the positions of drafts", all, positions.len())?;
        expect_length("the keys of drafts", all, keys.len())?;
        expect_length("the keys of sequences", count, lengths.len())?;
        expect_length("the parameters of drafts", all * PARAMETER_WORDS, parameters.len())?;
        if all == 0 {
            return Ok(LaunchCounts::default());
        }
        let Sequences { given, positions: known, limits, slots: of_sequences, table, parameters: drawn } =
            sequences;
        let inputs = (*given, *known, *limits, *of_sequences, *table, *drawn);
        let SlotTokens { last, positions: of_slots, drafts } = slots;
        let kernel = self.kernel(speculation, Speculation::prepare)?;
        let arguments = (
            inputs, last, of_slots, drafts, tokens, positions, keys, lengths, parameters, entries, all as u32,
        );
        Ok(kernel.launch(stream, self.grid_of_tokens(all)?, arguments)?)
    }

    /// Which tokens, sampled after the rows, count, and the last token of each slot.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, or the device refuses.
    pub fn accept_drafts(
        &self,
        stream: &Stream,
        speculation: Speculation,
        sequences: &Sequences<'_>,
        (tokens, positions, sampled): (&Buffer<i32>, &Buffer<u32>, &Buffer<u32>),
        slots: &mut SlotTokens,
        accepted: Accepted<'_>,
    ) -> Result<LaunchCounts> {
        let count = sequences.count()?;
        speculation.check(slots, sequences.table, count)?;
        let Accepted { counts, ends, last_rows, next } = accepted;
        let all = count * speculation.each as usize;
        expect_length("the tokens of drafts", all, tokens.len())?;
        expect_length("the positions of drafts", all, positions.len())?;
        expect_length("the sampled tokens", all, sampled.len())?;
        expect_length("the counts of accepted tokens", count, counts.len())?;
        expect_length("the ends of accepted tokens", count, ends.len())?;
        expect_length("the last accepted rows", count, last_rows.len())?;
        expect_length("the next tokens", all, next.len())?;
        if count == 0 {
            return Ok(LaunchCounts::default());
        }
        let SlotTokens { last, positions: of_slots, .. } = slots;
        let kernel = self.kernel(speculation, Speculation::accept)?;
        let arguments = (
            sequences.slots,
            sequences.limits,
            tokens,
            positions,
            sampled,
            last,
            of_slots,
            counts,
            ends,
            last_rows,
            next,
            count as u32,
        );
        Ok(kernel.launch(stream, self.grid_of_tokens(count)?, arguments)?)
    }

    /// Keeps draft number `number` of each sequence, and prepares the rows of the next one. `held` are the positions that
    /// pages of each sequence hold. A draft of no token of the vocabulary is its last token.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, or the device refuses.
    pub fn keep_drafts(
        &self,
        stream: &Stream,
        speculation: Speculation,
        (drafted, number, vocabulary): (&Buffer<u32>, u32, u32),
        (slots, held, table): (&Buffer<u32>, &Buffer<u32>, &Buffer<u32>),
        of_slots: &mut SlotTokens,
        rows: NextRows<'_>,
    ) -> Result<LaunchCounts> {
        let count = slots.len();
        let entries = speculation.check(of_slots, table, count)?;
        let NextRows { next, positions, keys, lengths } = rows;
        expect_length("the drafted tokens", count, drafted.len())?;
        expect_length("the positions that pages hold", count, held.len())?;
        expect_length("the next tokens", count, next.len())?;
        expect_length("the positions of drafts", count, positions.len())?;
        expect_length("the keys of drafts", count, keys.len())?;
        expect_length("the keys of sequences", count, lengths.len())?;
        if number + 1 >= speculation.each {
            expect_length("the drafts of a sequence", number as usize + 1, speculation.each as usize - 1)?;
        }
        if count == 0 {
            return Ok(LaunchCounts::default());
        }
        let SlotTokens { positions: known, drafts, .. } = of_slots;
        let kernel = self.kernel(speculation, Speculation::keep)?;
        let arguments = (
            drafted,
            slots,
            held,
            table,
            &*known,
            drafts,
            next,
            positions,
            keys,
            lengths,
            entries,
            number,
            vocabulary,
            count as u32,
        );
        Ok(kernel.launch(stream, self.grid_of_tokens(count)?, arguments)?)
    }
}
