//! The reduction over the CTAs of a whole grid, through a workspace in global memory.
//!
//! ```text
//! word 0       high half: tags used by earlier launches        low half: CTAs that have finished
//! from 16 on   a slot for each of the last rows: for each CTA its values, tag in the high half, f32 in the low half
//! ```
//!
//! # No deadlock
//! All CTAs are resident, since the launch is cooperative. Each CTA publishes its values of a row
//! before it waits for the values of that row or an earlier one.
//!
//! # No stale values
//! The tag of a word identifies its row: it counts how often the slots have been reused, in this
//! launch and all earlier ones. A slot is written again [`SLOTS`] rounds later. By then every group
//! has read it: a group publishes its row of round k after it has finished that of round k - lag -
//! 1, nobody finishes round k without it, and twice that many rounds fit the slots.
//!
//! # Memory model
//! A value and its tag are one 64-bit relaxed store. No other access depends on its order.

use warpwright::lang::control::nanosleep;
use warpwright::prelude::*;

use super::super::plan::{Plan, RowScheduler};
use super::merge::{Merge, Source, neutral};

/// Rounds whose rows have a slot: twice the longest lag, and two.
const SLOTS: u32 = 34;

/// The word where the slots begin: the counter has 128 bytes of its own.
const FIRST: u32 = 16;

/// Values of a row at most.
const MAX_VALUES: u32 = 2;

/// Nanoseconds between two polls.
const PAUSE: u32 = 32;

/// Words of the workspace of a launch. They are zero before the first launch.
pub fn workspace_words(plan: Plan) -> usize {
    match plan.scheduler {
        RowScheduler::Grid => (FIRST + slots(plan) * plan.ctas * MAX_VALUES) as usize,
        _ => 1,
    }
}

/// Rows that have a slot.
fn slots(plan: Plan) -> u32 {
    SLOTS * plan.rows
}

fn relaxed() -> Access {
    Access::new().ordered(AccessOrdering::Relaxed(Scope::Device))
}

/// The workspace of a launch.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct GridReduction {
    plan: Plan,
    words: Global<u64>,
    /// Tags used by earlier launches.
    used: Reg<u32>,
}

#[device]
impl GridReduction {
    /// Reads nothing: the predecessor may still be running.
    pub(super) fn new(plan: Plan, words: Global<u64>) -> Self {
        Self { plan, words, used: constant(0u32) }
    }

    /// Reads the tags once the predecessor has ended.
    pub(super) fn begin(self) -> Self {
        // A CTA that has finished may count itself while a warp without rows begins.
        let used = (self.words.load_with(relaxed()) >> 32u32).convert::<u32>();
        Self { used, ..self }
    }

    /// Ends the launch: the last CTA of all adds the tags that the launch used.
    pub(super) fn end(&self, rows: Reg<u32>) {
        sync_threads();
        if thread_idx().x == 0 {
            let before = self.words.atomic_add(1u64);
            if before.convert::<u32>() == self.plan.ctas - 1 {
                let used = self.used + (rows - 1u32) / slots(self.plan) + 1u32;
                self.words.store_with(used.convert::<u64>() << 32u32, relaxed());
            }
        }
    }

    /// The tag of a row and the first word of its slot.
    fn slot<const K: usize>(&self, row: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let slots = slots(self.plan);
        (self.used + row / slots + 1u32, row % slots * (self.plan.ctas * K as u32) + FIRST)
    }

    /// Publishes the CTA's values of a row. Called by a whole warp.
    pub(super) fn send<const K: usize>(&self, values: [Reg<f32>; K], row: Reg<u32>) {
        let (tag, slot) = self.slot::<K>(row);
        let lane = lane_id();
        let mut value = values[0];
        for (other, &of_other) in values.iter().enumerate().skip(1) {
            value = lane.eq(other as u32).select(of_other, value);
        }
        if lane < K as u32 {
            let word = (tag.convert::<u64>() << 32u32) | value.bit_cast::<u32>().convert::<u64>();
            self.words.at(slot + block_idx().x * K as u32 + lane).store_with(word, relaxed());
        }
    }

    /// Waits for the values of all CTAs of a row and merges them. Called by a whole warp, each lane
    /// of which reads the values of every 32nd CTA.
    pub(super) fn receive<M: Merge<K>, const K: usize>(&self, merge: &M, row: Reg<u32>) -> [Reg<f32>; K] {
        let (tag, slot) = self.slot::<K>(row);
        let mut of_row = neutral(merge);
        let mut polls = constant(1u32).duplicate();
        while polls != 0 {
            let mut values = Vec::new();
            let mut all_arrived = constant(true);
            for first in (0..self.plan.ctas).step_by(32) {
                let at = self.words.at(slot + (lane_id() + first) * K as u32);
                let words = at.load_vector_with::<K>(relaxed());
                for word in words {
                    all_arrived = all_arrived & (word >> 32u32).convert::<u32>().eq(tag);
                }
                values.push(words.map(|word| word.convert::<u32>().bit_cast::<f32>()));
            }
            if ballot(all_arrived, ALL_LANES) == u32::MAX {
                of_row = merge.over_lanes(&values, 32, Source::Cta);
                polls = constant(0u32);
            } else {
                nanosleep(PAUSE);
            }
        }
        of_row
    }
}
