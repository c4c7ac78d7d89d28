//! The draw of a token from a row that nothing keeps, in the order of tokens: two reads, of which the
//! second is of one segment.
//!
//! ```text
//! row            | segment of thread 0 | of thread 1 | ..      consecutive columns
//! first read     a warp reads the segments of its lanes, one after another, and gives each lane its sum
//! second         the first warp reads the segment in which the sums pass the point
//! ```

use warpwright::prelude::*;

use super::mass::key_of;
use super::search::{Keys, KeysOfLogits};
use crate::rows::RowElement;

/// Vectors that a lane reads at once.
const AT_ONCE: u32 = 4;

/// The segments of a row.
pub(super) struct Segments {
    /// Reads of a warp for a segment: vectors of a lane.
    steps: u32,
}

#[device]
impl Segments {
    pub(super) fn new<T: RowElement>(keys: &Keys<KeysOfLogits<T>>) -> Self {
        let vectors = keys.memory.vocabulary / keys.lanes;
        Self { steps: vectors.div_ceil(keys.threads).div_ceil(32) }
    }

    /// The first column up to which the amounts add up to more than `point` of their sum.
    pub(super) fn draw<T: RowElement>(
        &self,
        keys: &Keys<KeysOfLogits<T>>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        // The segment, and what the amounts before it leave of the point; then the column.
        let found = shared_array::<u64>(2);
        let column = shared_array::<u32>(1);
        let own = self.sum(keys, &amount);
        let before = block::exclusive_sum(own);
        let end = before + own;
        let point = point(block::broadcast(end, keys.threads - 1));
        if before <= point && point < end {
            found.at(0).store(thread_idx().x.convert::<u64>());
            found.at(1).store(point - before);
        }
        sync_threads();
        if thread_idx().x < 32 {
            let segment = found.at(0).load().convert::<u32>();
            self.find(keys, segment, found.at(1).load(), &amount, column);
        }
        sync_threads();
        column.load()
    }

    /// The sum of the amounts of this thread's segment.
    fn sum<T: RowElement>(
        &self,
        keys: &Keys<KeysOfLogits<T>>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u64> {
        let lane = lane_id();
        let mut own = constant(0u64);
        for of_lane in constant(0u32)..32u32 {
            let segment = thread_idx().x - lane + of_lane;
            let mut sum = constant(0u64);
            for step in (constant(0u32)..self.steps).step_by(AT_ONCE) {
                let columns: Vec<_> =
                    (0..AT_ONCE.min(self.steps)).map(|at| self.column(keys, segment, step + at)).collect();
                let chunks: Vec<_> =
                    columns.iter().map(|column| keys.memory.load(*column, keys.lanes)).collect();
                for (at, (column, chunk)) in (0..).zip(columns.into_iter().zip(chunks)) {
                    if step + at < self.steps && column < keys.memory.vocabulary {
                        for logit in chunk.values() {
                            sum = sum + amount(key_of(logit));
                        }
                    }
                }
            }
            let sum = warp::reduce_sum(sum);
            own = lane.eq(of_lane).select(sum, own);
        }
        own
    }

    /// Stores the column of a segment up to which the amounts add up to more than `point`. A warp
    /// makes the call.
    fn find<T: RowElement>(
        &self,
        keys: &Keys<KeysOfLogits<T>>,
        segment: Reg<u32>,
        point: Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
        to: Shared<u32>,
    ) {
        let mut left = point;
        for step in constant(0u32)..self.steps {
            let column = self.column(keys, segment, step);
            let inside = column.lt(keys.memory.vocabulary);
            let logits = keys.memory.load(column, keys.lanes).values();
            let amounts: Vec<_> =
                logits.into_iter().map(|logit| inside.select(amount(key_of(logit)), 0u64)).collect();
            let own = amounts.iter().fold(constant(0u64), |sum, amount| sum + *amount);
            let mut before = warp::exclusive_sum(own);
            let all = warp::broadcast(before + own, 31);
            for (at, amount) in amounts.into_iter().enumerate() {
                if before <= left && left < before + amount {
                    to.store(column + at as u32);
                }
                before = before + amount;
            }
            // Past the column: no sum is greater.
            left = left.lt(all).select(u64::MAX, left - all);
        }
    }

    /// The column of this lane's vector in a step.
    fn column<T: RowElement>(
        &self,
        keys: &Keys<KeysOfLogits<T>>,
        segment: Reg<u32>,
        step: Reg<u32>,
    ) -> Reg<u32> {
        ((segment * self.steps + step) * 32 + lane_id()) * keys.lanes
    }
}
