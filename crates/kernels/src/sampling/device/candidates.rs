//! Few candidates: those whose keys are at least a bound that enough keys reach, sorted by one CTA.

use warpwright::prelude::*;

use super::mass::Masses;
use super::search::{KeyMemory, Keys, add_where};
use super::segments::Segments;
use crate::sampling::problem::NO_TOKEN;
use crate::sampling::reference::SEGMENT;

/// Candidates that a thread sorts.
const PER_THREAD: u32 = 2;

/// The candidates, in the memory of the first CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Candidates {
    threads: u32,
    /// The key of each in the upper half, the complement of its column in the lower.
    list: Shared<u64>,
    count: Shared<u32>,
    /// What one thread finds for all.
    found: Shared<u64>,
}

#[device]
impl Candidates {
    pub(super) fn new(threads: u32) -> Self {
        let candidates = Self {
            threads,
            list: shared_array::<u64>(threads * PER_THREAD),
            count: shared_array::<u32>(1),
            found: shared_array::<u64>(2),
        };
        candidates.clear();
        candidates
    }

    /// Most candidates.
    pub(super) fn capacity(&self) -> u32 {
        self.threads * PER_THREAD
    }

    /// Drops all. A synchronization follows.
    pub(super) fn clear(&self) {
        if thread_idx().x == 0 {
            self.count.store(0u32);
        }
    }

    /// How many there are in this CTA, of which the capacity is kept.
    pub(super) fn count(&self) -> Reg<u32> {
        self.count.load()
    }

    /// The lowest column of the highest candidate of a row of one CTA. All threads make the call.
    pub(super) fn highest_column(&self) -> Reg<u32> {
        let count = self.count();
        let mut highest = constant(0u64);
        for index in (thread_idx().x..count.min(self.capacity())).step_by(self.threads) {
            highest = highest.max(self.list.at(index).load());
        }
        !block::reduce_max(highest).convert::<u32>()
    }

    /// A key that `wanted` keys of the CTA reach at least: the `wanted`-th highest of its threads'
    /// highest keys, without the low bits. It is between the bounds `least` and `most`.
    pub(super) fn bound(
        &self,
        highest: Reg<u32>,
        wanted: Reg<u32>,
        (least, most): (Reg<u32>, Reg<u32>),
    ) -> Reg<u32> {
        /// Bits that are left 0: 2^12 neighbors of a number are few candidates more.
        const SKIPPED: u32 = 12;
        // The first bits that differ are known from there on.
        let mut bit = constant(1u32 << 31) >> (least ^ most).leading_zeros();
        let mut bound = most & !(bit + (bit - 1));
        while bit >= 1u32 << SKIPPED {
            if sync_threads_count(highest.ge(bound + bit)) >= wanted {
                bound = bound + bit;
            }
            bit = bit >> 1u32;
        }
        bound.max(least)
    }

    /// The highest key of the CTA, and one that `wanted` keys reach at least: the `wanted`-th highest of
    /// its warps' highest keys, or 0 where there are fewer warps.
    pub(super) fn bound_by_warps(&self, highest: Reg<u32>, wanted: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let warps = self.threads / 32;
        let of_warps = shared_array::<u32>(warps);
        let of_warp = warp::reduce_max(highest);
        if lane_id() == 0 {
            of_warps.at(thread_idx().x / 32).store(of_warp);
        }
        sync_threads();
        // A lane counts the warps that reach the key of one warp.
        let key = of_warps.at(lane_id().min(warps - 1)).load();
        let mut reaching = constant(0u32);
        for warp in 0..warps {
            reaching = reaching + of_warps.at(warp).load().ge(key).to_u32();
        }
        (warp::reduce_max(key), warp::reduce_max(reaching.ge(wanted).select(key, 0u32)))
    }

    /// Drops the candidates below `bound`. All threads make the call, after a synchronization; another one
    /// follows. More candidates than the capacity stay too many.
    pub(super) fn keep_from(&self, bound: Reg<u32>) {
        let count = self.count();
        if count <= self.capacity() {
            let mut words = vec![];
            for number in 0..PER_THREAD {
                let index = thread_idx().x + number * self.threads;
                let mut word = constant(0u64);
                if index < count {
                    word = self.list.at(index).load();
                }
                words.push(word);
            }
            sync_threads();
            self.clear();
            sync_threads();
            for word in words {
                if (word >> 32u32).convert::<u32>() >= bound.max(1u32) {
                    self.push(word);
                }
            }
        }
    }

    /// Adds a candidate of this CTA.
    fn push(&self, word: Reg<u64>) {
        let at = self.count.atomic_add(1u32);
        if at < self.capacity() {
            self.list.at(at).store(word);
        }
    }

    /// Sends the keys that are candidates to the first CTA. Their number may exceed the capacity.
    pub(super) fn collect<M: KeyMemory>(
        &self,
        keys: &Keys<M>,
        is_one: impl Fn(Reg<u32>) -> Reg<bool>,
    ) -> Reg<u32> {
        keys.fold((), |(), key, index| self.send(keys, is_one(key), key, index));
        keys.cluster.sync();
        let mut count = self.count.load();
        if keys.cluster.ctas > 1 {
            count = self.count.map_to_block(0u32).load();
        }
        count
    }

    /// Adds the keys of this thread that are candidates, each with its column, to those of this CTA.
    pub(super) fn add(&self, keys: &[(Reg<bool>, Reg<u32>, Reg<u32>)]) {
        let found = keys.iter().fold(constant(0u32), |found, (is_one, ..)| found + is_one.to_u32());
        if found > 0 {
            let mut at = self.count.atomic_add(found);
            for (is_one, key, column) in keys {
                if *is_one & at.lt(self.capacity()) {
                    self.list.at(at).store(candidate(*key, *column));
                }
                at = at + is_one.to_u32();
            }
        }
    }

    /// Sends a key to the first CTA, if it is a candidate.
    pub(super) fn send<M: KeyMemory>(
        &self,
        keys: &Keys<M>,
        is_one: Reg<bool>,
        key: Reg<u32>,
        index: Reg<u32>,
    ) {
        if is_one {
            let word = candidate(key, keys.column(index));
            if keys.cluster.ctas > 1 {
                let at = self.count.map_to_block(0u32).atomic_add(1u32);
                if at < self.capacity() {
                    self.list.map_to_block(0u32).at(at).store(word);
                }
            } else {
                self.push(word);
            }
        }
    }

    /// Sorts the candidates, highest first: a thread counts those above its own.
    fn sort(&self, count: Reg<u32>) {
        /// Candidates that are compared at once.
        const AT_ONCE: u32 = 8;
        let thread = thread_idx().x;
        for at in (count + thread..self.threads * PER_THREAD).step_by(self.threads) {
            self.list.at(at).store(0u64);
        }
        sync_threads();
        let mut ranked = vec![];
        for number in 0..PER_THREAD {
            let index = thread + number * self.threads;
            let (mut own, mut rank) = (constant(0u64), constant(0u32));
            if index < count {
                own = self.list.at(index).load();
                for first in (constant(0u32)..count).step_by(AT_ONCE) {
                    for pair in (0..AT_ONCE).step_by(2) {
                        for other in self.list.at(first + pair).load_vector::<2>() {
                            rank = rank + other.gt(own).to_u32();
                        }
                    }
                }
            }
            ranked.push((index, own, rank));
        }
        sync_threads();
        for (index, own, rank) in ranked {
            if index < count {
                self.list.at(rank).store(own);
            }
        }
        sync_threads();
    }

    /// The column at `point(total)` of the candidates that top-k and top-p keep. All threads of the
    /// first CTA make the call.
    pub(super) fn choose(
        &self,
        (count, top_k): (Reg<u32>, Reg<u32>),
        masses: &Masses,
        target: impl Fn(Reg<u64>) -> Reg<u64>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> Reg<u32> {
        self.sort(count);
        let mut least = constant(1u32);
        if top_k > 0 && top_k <= count {
            least = (self.list.at(top_k - 1).load() >> 32u32).convert::<u32>();
        }
        let words = self.own();
        let keys = words.map(|word| (word >> 32u32).convert::<u32>());
        let of_key = |key: Reg<u32>| add_where(key.ge(least), constant(0u64), || masses.of(key));
        let own = keys.map(of_key);
        let (before, ends) = running_sums(own);
        let total = block::broadcast(ends[1], self.threads - 1);

        // The last key that top-p keeps, and what it keeps.
        let target = target(total);
        self.tell((before, ends), target, keys.map(|key| key.convert::<u64>()), 0);
        let last = self.found.load().convert::<u32>();
        let kept = |at: usize| keys[at].ge(last).select(own[at], 0u64);
        let total = block::reduce_sum(kept(0) + kept(1));
        self.tell((before, ends), point(total) + 1u64, words, 1);
        !self.found.at(1).load().convert::<u32>()
    }

    /// The column at `point(total)` of the candidates that top-p and min-p keep, in the order of columns.
    /// `target` makes of the sum of the candidates' masses what is kept of them, and whether they are
    /// enough: if not, there is no column. All threads of the first CTA make the call.
    pub(super) fn choose_by_column(
        &self,
        count: Reg<u32>,
        masses: &Masses,
        target: impl Fn(Reg<u64>) -> (Reg<u64>, Reg<bool>),
        point: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> Reg<u32> {
        let mut column = constant(NO_TOKEN);
        self.sort(count);
        let words = self.own();
        let keys = words.map(|word| (word >> 32u32).convert::<u32>());
        let mass = |key: Reg<u32>| add_where(key.gt(0), constant(0u64), || masses.of(key));
        let (before, ends) = running_sums(keys.map(mass));
        let (target, are_enough) = target(block::broadcast(ends[1], self.threads - 1));
        if are_enough {
            self.tell((before, ends), target, keys.map(|key| key.convert::<u64>()), 0);
            let last = self.found.load().convert::<u32>();
            let by_column = |word: Reg<u64>| (word << 32u32) | (word >> 32u32);
            let kept = [0, 1].map(|at| keys[at].ge(last).select(by_column(words[at]), 0u64));
            self.list.at(thread_idx().x * PER_THREAD).store_vector(kept);
            let counts = kept.map(|word| sync_threads_count(word.gt(0u64)));
            self.sort(counts[0] + counts[1]);
            let words = self.own();
            let (before, ends) = running_sums(words.map(|word| mass(word.convert::<u32>())));
            let total = block::broadcast(ends[1], self.threads - 1);
            self.tell((before, ends), point(total) + 1u64, words.map(|word| word >> 32u32), 1);
            column = !self.found.at(1).load().convert::<u32>();
        }
        column
    }

    /// The highest key such that the amounts of the candidates from it on add up to `target`. All threads
    /// of the first CTA make the call.
    pub(super) fn threshold(
        &self,
        count: Reg<u32>,
        target: Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        self.sort(count);
        let keys = self.own().map(|word| (word >> 32u32).convert::<u32>());
        let own = keys.map(|key| add_where(key.gt(0), constant(0u64), || amount(key)));
        self.tell(running_sums(own), target, keys.map(|key| key.convert::<u64>()), 0);
        self.found.load().convert::<u32>()
    }

    /// The sum of the amounts of the candidates. All threads make the call.
    pub(super) fn sum(&self, count: Reg<u32>, amount: impl Fn(Reg<u32>) -> Reg<u64>) -> Reg<u64> {
        let mut sum = constant(0u64);
        for index in (thread_idx().x..count).step_by(self.threads) {
            sum = sum + amount((self.list.at(index).load() >> 32u32).convert::<u32>());
        }
        block::reduce_sum(sum)
    }

    /// Adds the amounts of the candidates from the key `last` on to the sums of their segments, in a row of one
    /// CTA. A synchronization follows.
    pub(super) fn add_to(
        &self,
        segments: &Segments,
        count: Reg<u32>,
        last: Reg<u32>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) {
        for index in (thread_idx().x..count).step_by(self.threads) {
            let word = self.list.at(index).load();
            let (key, column) = ((word >> 32u32).convert::<u32>(), !word.convert::<u32>());
            if key >= last {
                segments.words.at(column / SEGMENT).reduce_add(amount(key));
            }
        }
    }

    /// This thread's candidates, 0 past the last.
    fn own(&self) -> [Reg<u64>; 2] {
        self.list.at(thread_idx().x * PER_THREAD).load_vector::<2>()
    }

    /// Stores the value of the first candidate up to which the masses add up to `target`.
    fn tell(
        &self,
        (before, ends): (Reg<u64>, [Reg<u64>; 2]),
        target: Reg<u64>,
        values: [Reg<u64>; 2],
        to: u32,
    ) {
        if before < target && ends[1] >= target {
            self.found.at(to).store(ends[0].ge(target).select(values[0], values[1]));
        }
        sync_threads();
    }
}

/// The word of a candidate.
#[device]
fn candidate(key: Reg<u32>, column: Reg<u32>) -> Reg<u64> {
    (key.convert::<u64>() << 32u32) | (!column).convert::<u64>()
}

/// The sum before this thread's amounts, and those that end with each, in the order of the threads.
#[device]
fn running_sums(own: [Reg<u64>; 2]) -> (Reg<u64>, [Reg<u64>; 2]) {
    let before = block::exclusive_sum(own[0] + own[1]);
    (before, [before + own[0], before + own[0] + own[1]])
}
