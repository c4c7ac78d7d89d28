//! The draw of a token in the order of tokens: two reads, of which the second is of one segment.
//!
//! ```text
//! keys of a CTA  | segment 0 of warp 0 | segment 1 of warp 1 | .. | segment n of warp 0 | ..
//! first read     a warp adds up its segments; the sums before each give the one that has the point
//! second         the first warp of that CTA reads that segment
//! ```

use warpwright::prelude::*;

use super::search::{KeyMemory, Keys};

/// The segments of a CTA's keys: at most as many as threads.
pub(super) struct Segments {
    count: u32,
    /// Reads of a lane for a segment.
    steps: u32,
}

#[device]
impl Segments {
    pub(super) fn new<M: KeyMemory>(keys: &Keys<M>) -> Self {
        let reads = keys.memory.count().div_ceil(32 * keys.memory.width(keys));
        let steps = reads.div_ceil(keys.threads);
        Self { count: reads.div_ceil(steps), steps }
    }

    /// The first column up to which the amounts add up to more than `point` of their sum. Key 0 has no
    /// amount.
    pub(super) fn draw<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        // The segment, and what the amounts before it leave of the point; then the column.
        let found = shared_array::<u64>(2);
        let column = shared_array::<u32>(1);
        let own = self.sum(keys, &amount);
        let before = block::exclusive_sum(own);
        let of_cta = block::broadcast(before + own, keys.threads - 1);
        let (before_cta, total) = keys.team.exclusive_sum(of_cta);
        let left = point(total) - before_cta;
        let mut here = constant(0u32);
        // A difference below 0 is a large number.
        if left < of_cta {
            if before <= left && left < before + own {
                found.at(0).store(thread_idx().x.convert::<u64>());
                found.at(1).store(left - before);
            }
            sync_threads();
            if thread_idx().x < 32 {
                let segment = found.at(0).load().convert::<u32>();
                self.find(keys, segment, found.at(1).load(), &amount, column);
            }
            sync_threads();
            here = column.load();
        }
        let [column] = keys.team.exchange([here.convert::<u64>()], |a, b| a.max(b));
        column.convert::<u32>()
    }

    /// The sum of the amounts of the segment whose number is this thread's.
    fn sum<M: KeyMemory>(&self, keys: &Keys<M>, amount: impl Fn(Reg<u32>) -> Reg<u64>) -> Reg<u64> {
        let sums = shared_array::<u64>(keys.threads);
        let (warp, warps) = (warp::broadcast(thread_idx().x / 32, 0), keys.threads / 32);
        // Segments that are short are read together.
        let (together, at_once) = ((M::IN_FLIGHT / self.steps).max(1), M::IN_FLIGHT.min(self.steps));
        for first in (warp..self.count).step_by(together * warps) {
            let mut of_segments = vec![constant(0u64); together as usize];
            for step in (constant(0u32)..self.steps).step_by(at_once) {
                let mut read = vec![];
                for segment in 0..together {
                    for at in 0..at_once {
                        let index = self.index(keys, first + segment * warps, step + at);
                        read.push((segment as usize, at, index, keys.memory.read(keys, index)));
                    }
                }
                for (segment, at, index, of_lane) in read {
                    let mut sum = of_segments[segment];
                    if step + at < self.steps && index < keys.memory.count() {
                        for key in of_lane {
                            sum = sum + amount(key);
                        }
                    }
                    of_segments[segment] = sum;
                }
            }
            for (number, sum) in (0u32..).zip(of_segments) {
                let (segment, sum) = (first + number * warps, warp::reduce_sum(sum));
                if segment < self.count && lane_id() == 0 {
                    sums.at(segment).store(sum);
                }
            }
        }
        sync_threads();
        let thread = thread_idx().x;
        thread.lt(self.count).select(sums.at(thread.min(self.count - 1)).load(), 0u64)
    }

    /// Stores the column of a segment up to which the amounts add up to more than `point`. A warp
    /// makes the call.
    fn find<M: KeyMemory>(
        &self,
        keys: &Keys<M>,
        segment: Reg<u32>,
        point: Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
        to: Shared<u32>,
    ) {
        let mut left = point;
        for step in constant(0u32)..self.steps {
            let index = self.index(keys, segment, step);
            let amounts: Vec<_> = keys.memory.read(keys, index).into_iter().map(&amount).collect();
            let own = amounts.iter().fold(constant(0u64), |sum, amount| sum + *amount);
            let mut before = warp::exclusive_sum(own);
            let all = warp::broadcast(before + own, 31);
            for (at, amount) in amounts.into_iter().enumerate() {
                if before <= left && left < before + amount {
                    to.store(keys.column(index + at as u32));
                }
                before = before + amount;
            }
            // Past the column: no sum is greater.
            left = left.lt(all).select(u64::MAX, left - all);
        }
    }

    /// The index of this lane's first key of a step.
    fn index<M: KeyMemory>(&self, keys: &Keys<M>, segment: Reg<u32>, step: Reg<u32>) -> Reg<u32> {
        ((segment * self.steps + step) * 32 + lane_id()) * keys.memory.width(keys)
    }
}
