//! Shapes, buffers, and what is refused.

use warpwright::runtime::Buffer;

use crate::operations::{OperationError, Result, expect_length};
use crate::sampling::PARAMETER_WORDS;

/// The operation's name in errors.
pub(super) const OPERATION: &str = "speculative decoding";
/// Threads of a CTA.
pub(super) const THREADS: u32 = 128;

/// A token of a step that the device has to look up: the one that its slot sampled last.
pub const LAST: i32 = -1;

/// The limit of a sequence that is padding, and writes no key.
pub const PADDING: i32 = -1;

/// What each slot has.
pub struct SlotTokens {
    /// (slots): the token that the slot sampled last, which no step has computed yet.
    pub last: Buffer<u32>,
    /// (slots): its position.
    pub positions: Buffer<u32>,
    /// (slots, drafts): tokens that follow it, perhaps.
    pub drafts: Buffer<u32>,
}

/// The shape of a step that verifies drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Speculation {
    /// Rows of each sequence: a token and its drafts.
    pub each: u32,
    /// Tokens of a page.
    pub page_size: u32,
}

/// The sequences of a step, as the host knows them.
pub struct Sequences<'l> {
    /// The last token of each, or [`LAST`]: it and its position are those of the slot.
    pub given: &'l Buffer<i32>,
    /// Positions of the tokens, as far as they are known.
    pub positions: &'l Buffer<u32>,
    /// Drafts of each that may count; [`PADDING`] for what is none.
    pub limits: &'l Buffer<i32>,
    /// The slot of each.
    pub slots: &'l Buffer<u32>,
    /// (sequences, entries): pages.
    pub table: &'l Buffer<u32>,
    /// (sequences, words): how the first token of each is drawn, as
    /// [`SamplingParameters::words`](crate::sampling::SamplingParameters::words).
    pub parameters: &'l Buffer<u32>,
}

/// Rows to verify.
pub struct Rows<'l> {
    /// (rows): the tokens.
    pub tokens: &'l mut Buffer<i32>,
    /// (rows): their positions.
    pub positions: &'l mut Buffer<u32>,
    /// (rows): the keys that they write.
    pub keys: &'l mut Buffer<u32>,
    /// (sequences): keys of each.
    pub lengths: &'l mut Buffer<u32>,
    /// (rows, words): how tokens are drawn.
    pub parameters: &'l mut Buffer<u32>,
}

/// What counts.
pub struct Accepted<'l> {
    /// (sequences): sampled tokens that count.
    pub counts: &'l mut Buffer<u32>,
    /// (sequences): the row after the last one that counts.
    pub ends: &'l mut Buffer<u32>,
    /// (sequences): the last row that counts.
    pub last_rows: &'l mut Buffer<i32>,
    /// (rows): the token after each row that counts.
    pub next: &'l mut Buffer<i32>,
}

/// Where the next draft of each sequence is computed: (sequences) each.
pub struct NextRows<'l> {
    /// The tokens.
    pub next: &'l mut Buffer<i32>,
    /// Their positions.
    pub positions: &'l mut Buffer<u32>,
    /// The keys that they write.
    pub keys: &'l mut Buffer<u32>,
    /// Keys of each sequence.
    pub lengths: &'l mut Buffer<u32>,
}

impl Speculation {
    /// Refuses buffers of slots that do not go together, and a block table without whole rows. Returns its entries of a
    /// sequence.
    pub(super) fn check(self, slots: &SlotTokens, table: &Buffer<u32>, sequences: usize) -> Result<u32> {
        let Self { each, page_size } = self;
        if each == 0 || page_size == 0 {
            let reason = format!("{each} rows of a sequence and pages of {page_size} tokens; give 1 or more");
            return Err(OperationError::Shape { what: OPERATION, reason });
        }
        expect_length("the positions of slots", slots.last.len(), slots.positions.len())?;
        let drafts = slots.last.len() * (each as usize - 1);
        if slots.drafts.len() < drafts {
            expect_length("the drafts of slots", drafts, slots.drafts.len())?;
        }
        let entries = table.len() / sequences.max(1);
        expect_length("the pages of sequences", entries * sequences, table.len())?;
        Ok(entries as u32)
    }
}

impl Sequences<'_> {
    /// The number of sequences.
    ///
    /// # Errors
    /// A buffer has another length.
    pub(super) fn count(&self) -> Result<usize> {
        let count = self.slots.len();
        expect_length("the given tokens of sequences", count, self.given.len())?;
        expect_length("the positions of sequences", count, self.positions.len())?;
        expect_length("the limits of sequences", count, self.limits.len())?;
        expect_length("the parameters of sequences", count * PARAMETER_WORDS, self.parameters.len())?;
        Ok(count)
    }
}
