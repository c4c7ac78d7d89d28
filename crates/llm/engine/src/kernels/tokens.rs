//! Tokens that the device sampled: read by the next step without the host.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result};

/// A token of a step that the device has to look up: the one that its slot sampled last.
pub(crate) const LAST: i32 = -1;

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

    /// `last[slots[row]]` = `sampled[row]`.
    #[kernel]
    fn remember(&self, sampled: &Global<u32>, slots: &Global<u32>, last: &mut Global<u32>, count: u32) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < count {
            last[slots[at]] = sampled[at];
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

/// Keeps the tokens that rows of logits sampled in the slots of `slots`.
pub(crate) fn remember(
    (operations, stream): (&Operations, &Stream),
    sampled: &Buffer<u32>,
    slots: &Buffer<u32>,
    last: &mut Buffer<u32>,
) -> Result<()> {
    let count = sampled.len() as u32;
    let kernel = operations.kernel(LastTokens, LastTokens::remember)?;
    kernel.launch(stream, count.div_ceil(THREADS), (sampled, slots, last, count))?;
    Ok(())
}
