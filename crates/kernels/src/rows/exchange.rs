//! Where the CTAs of a whole grid exchange what they know of rows: global memory.
//!
//! ```text
//! word 0       above: how many tags earlier launches used      below: CTAs that are done
//! from 16 on   a place for each of the last rows, and in it for each CTA its values: above a tag, below an f32
//! ```
//!
//! # Why it never deadlocks
//! All CTAs are there at once, since the launch is cooperative, and each publishes what it knows of a row before it waits for another's word on
//! that row or an earlier one.
//!
//! # Why a word is never taken for another
//! A tag says which row a word is of: how often the places have been gone through, in this launch and all before it. A place is written anew
//! [`PLACES`] rounds later. By then every team has read what was there: it publishes its row of round k when it has finished that of round
//! k - lag - 1, nobody finishes round k without it, and twice as many rounds are no more than there are places.
//!
//! # Why it is right under the PTX memory model
//! A value and its tag are one 64-bit relaxed store, and nothing else need be ordered with it.

use warpwright::lang::control::nanosleep;
use warpwright::prelude::*;

use super::plan::{Plan, Turnover};
use super::team::{Merge, Part, neutral};

/// Rounds of the teams' rows that have a place each: twice as many as the longest lag has, and two.
const PLACES: u32 = 34;

/// The word where the places begin: the counter has 128 bytes of its own.
const FIRST: u32 = 16;

/// Values of a row at most.
const MOST_VALUES: u32 = 2;

/// Nanoseconds from a look that was too early to the next.
const PAUSE: u32 = 32;

/// Words that a launch of a plan needs. They are zero before the first.
pub(super) fn words(plan: Plan) -> usize {
    match plan.turnover {
        Turnover::Spread => (FIRST + places(plan) * plan.ctas * MOST_VALUES) as usize,
        _ => 1,
    }
}

/// Rows that have a place each.
fn places(plan: Plan) -> u32 {
    PLACES * plan.rows
}

/// How a word is read and written: nothing else is ordered with it.
fn relaxed() -> Access {
    Access::new().ordered(AccessOrdering::Relaxed(Scope::Device))
}

/// The words of a launch.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Exchange {
    plan: Plan,
    words: Global<u64>,
    /// The tags that launches before this one used.
    used: Reg<u32>,
}

#[device]
impl Exchange {
    /// In `words`; nothing is read yet.
    pub(super) fn new(plan: Plan, words: Global<u64>) -> Self {
        Self { plan, words, used: constant(0u32) }
    }

    /// The same, once the launches before this one have ended.
    pub(super) fn begin(self) -> Self {
        // A CTA that is done may count itself while a warp without rows begins.
        let used = (self.words.load_with(relaxed()) >> 32u32).convert::<u32>();
        Self { used, ..self }
    }

    /// Ends: the last CTA of all counts the tags that the launch used.
    pub(super) fn end(&self, rows: Reg<u32>) {
        sync_threads();
        if thread_idx().x == 0 {
            let before = self.words.atomic_add(1u64);
            if before.convert::<u32>() == self.plan.ctas - 1 {
                let used = self.used + (rows - 1u32) / places(self.plan) + 1u32;
                self.words.store_with(used.convert::<u64>() << 32u32, relaxed());
            }
        }
    }

    /// The tag of a row, and where its place is.
    fn place<const K: usize>(&self, row: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let places = places(self.plan);
        (self.used + row / places + 1u32, row % places * (self.plan.ctas * K as u32) + FIRST)
    }

    /// Publishes the CTA's values of a row; by the lanes of a warp.
    pub(super) fn send<const K: usize>(&self, values: [Reg<f32>; K], row: Reg<u32>) {
        let (tag, place) = self.place::<K>(row);
        let lane = lane_id();
        let mut value = values[0];
        for (other, &of_other) in values.iter().enumerate().skip(1) {
            value = lane.eq(other as u32).select(of_other, value);
        }
        if lane < K as u32 {
            let word = (tag.convert::<u64>() << 32u32) | value.bit_cast::<u32>().convert::<u64>();
            self.words.at(place + block_idx().x * K as u32 + lane).store_with(word, relaxed());
        }
    }

    /// Waits for all CTAs' values of a row, and merges them; by a warp, each of whose lanes takes the values of every 32nd CTA.
    pub(super) fn receive<M: Merge<K>, const K: usize>(&self, merge: &M, row: Reg<u32>) -> [Reg<f32>; K] {
        let (tag, place) = self.place::<K>(row);
        let mut of_row = neutral(merge);
        let mut looks = constant(1u32).duplicate();
        while looks != 0 {
            let mut values = Vec::new();
            let mut all_there = constant(true);
            for first in (0..self.plan.ctas).step_by(32) {
                let at = self.words.at(place + (lane_id() + first) * K as u32);
                let words = at.load_vector_with::<K>(relaxed());
                for word in words {
                    all_there = all_there & (word >> 32u32).convert::<u32>().eq(tag);
                }
                values.push(words.map(|word| word.convert::<u32>().bit_cast::<f32>()));
            }
            if ballot(all_there, ALL_LANES) == u32::MAX {
                of_row = merge.over_lanes(&values, 32, Part::Cta);
                looks = constant(0u32);
            } else {
                nanosleep(PAUSE);
            }
        }
        of_row
    }
}
