//! The sums of a row's segments: 256 consecutive tokens each, the same on all devices.
//!
//! ```text
//! keys of a CTA  | segment 0 | segment 1 | ..
//! first read     a warp adds up a segment: its masses, or its masses relative to its own highest key
//! point          the sums before each segment give the one that has the point
//! second read    the first warp of that CTA reads that segment
//! ```
//!
//! Masses relative to a segment's highest key need no highest key of the row, so that a row that is
//! streamed is read once. The highest keys make weights of their sums.

use warpwright::prelude::*;

use super::mass::{Masses, NEGATIVE_INFINITY, RelativeMasses, logit_of};
use super::search::{KeyMemory, Keys};
use crate::sampling::reference::SEGMENT;

/// The sums of a CTA's segments.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Segments {
    pub(super) count: u32,
    /// A word of each.
    pub(super) words: Global<u64>,
}

/// A highest key, and the sum of the masses relative to it.
#[device]
pub(super) fn relative_word(highest: Reg<u32>, sum: Reg<u32>) -> Reg<u64> {
    (highest.convert::<u64>() << 32u32) | sum.convert::<u64>()
}

/// The sum of a segment's masses, nearly, of the word of its relative masses.
#[device]
pub(super) fn weight(word: Reg<u64>, masses: &Masses) -> Reg<u64> {
    let of_highest = masses.of((word >> 32u32).convert::<u32>());
    (word << 33u32).mul_hi(of_highest << 9u32)
}

#[device]
impl Segments {
    /// Stores the sums of the amounts.
    pub(super) fn sum<M: KeyMemory>(&self, keys: &Keys<M>, amount: impl Fn(Reg<u32>) -> Reg<u64>) {
        self.fill(keys, |own| {
            let sum = own.iter().fold(constant(0u64), |sum, key| sum + amount(*key));
            warp::reduce_sum(sum)
        });
    }

    /// Stores the highest keys and the sums of the relative masses.
    pub(super) fn sum_relative<M: KeyMemory>(&self, keys: &Keys<M>, masses: &RelativeMasses) {
        self.fill(keys, |own| {
            let highest = own.iter().copied().reduce(|a, b| a.max(b)).expect("a segment has keys");
            let highest = warp::reduce_max(highest.max(NEGATIVE_INFINITY));
            let logits: Vec<_> = own.iter().map(|key| logit_of((*key).max(NEGATIVE_INFINITY))).collect();
            relative_word(highest, warp::reduce_sum(masses.sum(&logits, logit_of(highest))))
        });
    }

    /// Stores a word of each segment, which a warp makes of its keys.
    fn fill<M: KeyMemory>(&self, keys: &Keys<M>, word: impl Fn(&[Reg<u32>]) -> Reg<u64>) {
        let (warp, warps) = (warp::broadcast(thread_idx().x / 32, 0), keys.threads / 32);
        let together = (M::IN_FLIGHT * 32 * keys.memory.width(keys) / SEGMENT).max(1);
        for first in (warp..self.count).step_by(together * warps) {
            let segments = (0..together).map(|number| first + number * warps);
            let read: Vec<_> = segments.map(|segment| (segment, self.read(keys, segment))).collect();
            for (segment, own) in read {
                let word = word(&own);
                if segment < self.count && lane_id() == 0 {
                    self.words.at(segment).store(word);
                }
            }
        }
        sync_threads();
    }

    /// The sum of the weights of the row's segments.
    pub(super) fn total<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        weight: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> Reg<u64> {
        let own = self.own(keys.threads, weight).into_iter().reduce(|a, b| a + b).expect("a thread has some");
        let [total] = keys.cluster.sums([own]);
        total
    }

    /// The first column of the row up to which the amounts add up to more than a point. `point` of the sum of
    /// all weights gives a segment, and `left` of the rest of the point and the segment's sum of amounts gives
    /// the point in it.
    pub(super) fn draw<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        weight: impl Fn(Reg<u64>) -> Reg<u64>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        left: impl Fn(Reg<u64>, Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        // The segment, and what the weights before it leave of the point; then the column.
        let found = shared_array::<u64>(2);
        let column = shared_array::<u32>(1);
        let weights = self.own(keys.threads, weight);
        let own = weights.iter().fold(constant(0u64), |sum, weight| sum + *weight);
        let mut before = block::exclusive_sum(own);
        let of_cta = block::broadcast(before + own, keys.threads - 1);
        let (before_cta, total) = keys.cluster.exclusive_sum(of_cta);
        let rest = point(total) - before_cta;
        let mut here = constant(0u32);
        // A difference below 0 is a large number.
        if rest < of_cta {
            let first = self.first(keys.threads);
            for (number, weight) in (0u32..).zip(weights) {
                if before <= rest && rest < before + weight {
                    found.at(0).store((first + number).convert::<u64>());
                    found.at(1).store(rest - before);
                }
                before = before + weight;
            }
            sync_threads();
            if thread_idx().x < 32 {
                let (segment, rest) = (found.at(0).load().convert::<u32>(), found.at(1).load());
                self.find(keys, segment, |sum| left(rest, sum), &amount, column);
            }
            sync_threads();
            here = column.load();
        }
        let [column] = keys.cluster.exchange([here.convert::<u64>()], |a, b| a.max(b));
        column.convert::<u32>()
    }

    /// The first segment of a thread.
    fn first(&self, threads: u32) -> Reg<u32> {
        thread_idx().x * self.count.div_ceil(threads)
    }

    /// The weights of this thread's segments, which are consecutive.
    fn own(&self, threads: u32, weight: impl Fn(Reg<u64>) -> Reg<u64>) -> Vec<Reg<u64>> {
        let mut weights = vec![];
        for number in 0..self.count.div_ceil(threads) {
            let segment = self.first(threads) + number;
            let mut own = constant(0u64);
            if segment < self.count {
                own = weight(self.words.at(segment).load());
            }
            weights.push(own);
        }
        weights
    }

    /// Stores the column of a segment up to which the amounts add up to more than `point` of their sum. A
    /// warp makes the call.
    fn find<M: KeyMemory>(
        &self,
        keys: &Keys<M>,
        segment: Reg<u32>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
        to: Shared<u32>,
    ) {
        let amounts: Vec<_> = self.read(keys, segment).into_iter().map(&amount).collect();
        let own = amounts.iter().fold(constant(0u64), |sum, amount| sum + *amount);
        let mut left = point(warp::reduce_sum(own));
        let width = keys.memory.width(keys);
        for (step, of_step) in (0u32..).zip(amounts.chunks(width as usize)) {
            let index = self.index(keys, segment, step);
            let own = of_step.iter().fold(constant(0u64), |sum, amount| sum + *amount);
            let mut before = warp::exclusive_sum(own);
            let all = warp::broadcast(before + own, 31);
            for (at, amount) in (0u32..).zip(of_step) {
                if before <= left && left < before + *amount {
                    to.store(keys.column(index + at));
                }
                before = before + *amount;
            }
            // Past the column: no sum is greater.
            left = left.lt(all).select(u64::MAX, left - all);
        }
    }

    /// This lane's keys of a segment: those of each read of the warp side by side.
    fn read<M: KeyMemory>(&self, keys: &Keys<M>, segment: Reg<u32>) -> Vec<Reg<u32>> {
        let reads = SEGMENT / (32 * keys.memory.width(keys));
        (0..reads).flat_map(|step| keys.memory.read(keys, self.index(keys, segment, step))).collect()
    }

    /// The index of this lane's first key of a read.
    fn index<M: KeyMemory>(&self, keys: &Keys<M>, segment: Reg<u32>, step: impl Value<u32>) -> Reg<u32> {
        segment * SEGMENT + (step.reg() * 32 + lane_id()) * keys.memory.width(keys)
    }
}
