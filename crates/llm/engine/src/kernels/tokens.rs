//! Tokens that the device sampled: read by the next step without the host.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result};

/// A token of a step that the device has to look up: the one that its slot sampled last.
pub(crate) const LAST: i32 = -1;

/// What each slot has, and one that nobody reads.
pub(crate) struct SlotTokens {
    /// (slots): the token that the slot sampled last, which no step has computed yet, and its position.
    pub(crate) last: Buffer<u32>,
    pub(crate) positions: Buffer<u32>,
    /// (slots, drafts): tokens that follow it, perhaps.
    pub(crate) drafts: Buffer<u32>,
}

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LastTokens;

/// Threads of a CTA.
const THREADS: u32 = 128;

impl LastTokens {
    /// `tokens[i]` = `given[i]`, or the last token of the slot of its sequence.
    #[kernel]
    fn resolve(
        &self,
        given: &Global<i32>,
        sequences: &Global<u32>,
        slots: &Global<u32>,
        last: &Global<u32>,
        tokens: &mut Global<i32>,
        count: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            let mut token = given[at];
            if token == LAST {
                token = last[slots[sequences[at]]].bit_cast::<i32>();
            }
            tokens[at] = token;
        }
    }

    /// `last[slots[row]]` = `sampled[row]`, at the position `ends[row]`.
    #[kernel]
    fn remember(
        &self,
        sampled: &Global<u32>,
        slots: &Global<u32>,
        ends: &Global<u32>,
        last: &mut Global<u32>,
        positions: &mut Global<u32>,
        count: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            last[slots[at]] = sampled[at];
            positions[slots[at]] = ends[at];
        }
    }

    /// `next[i]` = the token after `tokens[i]` in its sequence; after the last one, that of its slot.
    #[kernel]
    fn follow(
        &self,
        tokens: &Global<i32>,
        sequences: &Global<u32>,
        starts: &Global<u32>,
        slots: &Global<u32>,
        last: &Global<u32>,
        next: &mut Global<i32>,
        count: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            let sequence = sequences[at];
            let mut token = last[slots[sequence]].bit_cast::<i32>();
            if at + 1 < starts[sequence + 1] {
                token = tokens[at + 1];
            }
            next[at] = token;
        }
    }
}

/// The tokens of a step.
pub(crate) fn resolve(
    (operations, stream): (&Operations, &Stream),
    given: &Buffer<i32>,
    (sequences, slots): (&Buffer<u32>, &Buffer<u32>),
    last: &Buffer<u32>,
    tokens: &mut Buffer<i32>,
) -> Result<()> {
    let count = given.len() as u32;
    let kernel = operations.kernel(LastTokens, LastTokens::resolve)?;
    kernel.launch(stream, count.div_ceil(THREADS), (given, sequences, slots, last, tokens, count))?;
    Ok(())
}

/// Keeps the tokens that rows of logits sampled in the slots of `slots`, with their positions `ends`.
pub(crate) fn remember(
    (operations, stream): (&Operations, &Stream),
    sampled: &Buffer<u32>,
    (slots, ends): (&Buffer<u32>, &Buffer<u32>),
    SlotTokens { last, positions, .. }: &mut SlotTokens,
) -> Result<()> {
    let count = sampled.len() as u32;
    let kernel = operations.kernel(LastTokens, LastTokens::remember)?;
    kernel.launch(stream, count.div_ceil(THREADS), (sampled, slots, ends, last, positions, count))?;
    Ok(())
}

/// The token after each one of packed sequences.
pub(crate) fn follow(
    (operations, stream): (&Operations, &Stream),
    tokens: &Buffer<i32>,
    (sequences, starts, slots): (&Buffer<u32>, &Buffer<u32>, &Buffer<u32>),
    last: &Buffer<u32>,
    next: &mut Buffer<i32>,
) -> Result<()> {
    let count = tokens.len() as u32;
    let kernel = operations.kernel(LastTokens, LastTokens::follow)?;
    kernel.launch(stream, count.div_ceil(THREADS), (tokens, sequences, starts, slots, last, next, count))?;
    Ok(())
}
