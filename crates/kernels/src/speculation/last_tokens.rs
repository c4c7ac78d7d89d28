//! The kernels of tokens that the device sampled: a thread for each token or sequence.

use warpwright::prelude::*;

use super::problem::{LAST, THREADS};

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LastTokens;

impl LastTokens {
    /// `tokens[i]` = `given[i]`, or the last token of the slot of its sequence.
    #[kernel]
    pub(super) fn resolve(
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

    /// `last[slots[row]]` = `sampled[row]`, at the position `ends[row]`. Of neighboring rows with one slot, as those
    /// of padding, the last one is kept.
    #[kernel]
    pub(super) fn remember(
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
            let slot = slots[at];
            let mut next = slot + 1;
            if at + 1 < count {
                next = slots[at + 1];
            }
            if next != slot {
                last[slot] = sampled[at];
                positions[slot] = ends[at];
            }
        }
    }

    /// `next[i]` = the token after `tokens[i]` in its sequence; after the last one, that of its slot.
    #[kernel]
    pub(super) fn follow(
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
