//! A row's keys in the memory of its CTAs, and the search for a key by what is above it.
//!
//! ```text
//! columns of a row   | of CTA 0 | of CTA 1 | ..
//! keys of a CTA      in the order of columns, 0 past the end of the row
//! ```

use warpwright::lang::space::Space;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::cluster::Cluster;
use super::histogram::{DIGIT_BITS, DIGITS, Histogram};
use super::mass::key_of;
use crate::overlap;
use crate::rows::{Chunk, RowElement};

/// The keys of a CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Keys<M: KeyMemory> {
    pub(super) cluster: Cluster,
    /// Threads of a CTA, and elements of a vector.
    pub(super) threads: u32,
    pub(super) lanes: u32,
    pub(super) histogram: Histogram,
    pub(super) memory: M,
}

/// Where the keys of a CTA are.
pub(super) trait KeyMemory: DeviceValue + Copy {
    /// Reads of a thread that are in flight.
    const IN_FLIGHT: u32;

    /// Keys of a CTA.
    fn count(&self) -> u32;

    /// Consecutive keys that a thread reads at once.
    fn width(&self, keys: &Keys<Self>) -> u32;

    /// The keys from `index` on, which is a multiple of the width; zeros past the last.
    fn read(&self, keys: &Keys<Self>, index: Reg<u32>) -> Vec<Reg<u32>>;

    /// Folds `work` over this thread's keys and their indices.
    fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        keys: &Keys<Self>,
        state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V;
}

/// Keys in memory of their own: `count` of each CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct StoredKeys<S: Space> {
    pub(super) count: u32,
    pub(super) keys: Pointer<u32, S>,
}

/// The keys of a row of one CTA, made of its logits each time.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct KeysOfLogits<T: RowElement> {
    pub(super) logits: Global<T>,
    pub(super) vocabulary: u32,
    /// Whether the launch overlaps its predecessor.
    pub(super) overlaps: bool,
}

/// Stored keys that a thread reads at once.
const AT_ONCE: u32 = 4;
/// Vectors of logits that a thread reads at once.
const VECTORS_AT_ONCE: u32 = 4;

#[device]
impl<S: Space> KeyMemory for StoredKeys<S> {
    const IN_FLIGHT: u32 = 4;

    fn count(&self) -> u32 {
        self.count
    }

    fn width(&self, _: &Keys<Self>) -> u32 {
        AT_ONCE
    }

    fn read(&self, _: &Keys<Self>, index: Reg<u32>) -> Vec<Reg<u32>> {
        let inside = index.lt(self.count);
        let read = self.keys.at(index.min(self.count - AT_ONCE)).load_vector::<4>();
        read.map(|key| inside.select(key, 0u32)).to_vec()
    }

    fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        keys: &Keys<Self>,
        mut state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V {
        for index in (thread_idx().x * AT_ONCE..self.count).step_by(keys.threads * AT_ONCE) {
            let read = self.keys.at(index).load_vector::<4>();
            for lane in 0..AT_ONCE {
                state = work(state, read[lane as usize], index + lane);
            }
        }
        state
    }
}

#[device]
impl<T: RowElement> KeyMemory for KeysOfLogits<T> {
    const IN_FLIGHT: u32 = 8;

    fn count(&self) -> u32 {
        self.vocabulary
    }

    fn width(&self, keys: &Keys<Self>) -> u32 {
        keys.lanes
    }

    fn read(&self, keys: &Keys<Self>, index: Reg<u32>) -> Vec<Reg<u32>> {
        let inside = index.lt(self.vocabulary);
        let logits = self.load(index, keys.lanes).values();
        logits.into_iter().map(|logit| inside.select(key_of(logit), 0u32)).collect()
    }

    fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        keys: &Keys<Self>,
        mut state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V {
        let (lanes, stride) = (keys.lanes, keys.threads * keys.lanes);
        let step = stride * VECTORS_AT_ONCE;
        let load = |first: Reg<u32>| -> Vec<Chunk<T>> {
            (0..VECTORS_AT_ONCE).map(|vector| self.load(first + vector * stride, lanes)).collect()
        };
        let mut ahead = load(thread_idx().x * lanes);
        for first in (thread_idx().x * lanes..self.vocabulary).step_by(step) {
            let here: Vec<Chunk<T>> = ahead.iter().map(|chunk| chunk.duplicate()).collect();
            ahead = load(first + step);
            for (vector, chunk) in (0..).zip(here) {
                let column = first + vector * stride;
                let inside = column.lt(self.vocabulary);
                for (lane, logit) in chunk.values().into_iter().enumerate() {
                    state = work(state, inside.select(key_of(logit), 0u32), column + lane as u32);
                }
            }
        }
        state
    }
}

impl<T: RowElement> KeysOfLogits<T> {
    /// The vector at `column`, and the last one past the end of the row.
    #[track_caller]
    pub(super) fn load(&self, column: Reg<u32>, lanes: u32) -> Chunk<T> {
        Chunk::load(self.inside(column, lanes), lanes, overlap::read_once(self.overlaps))
    }

    /// Where that vector is.
    #[track_caller]
    pub(super) fn inside(&self, column: Reg<u32>, lanes: u32) -> Global<T> {
        self.logits.at(column.min(self.vocabulary - lanes))
    }
}

#[device]
impl<M: KeyMemory> Keys<M> {
    /// The column of a key.
    pub(super) fn column(&self, index: Reg<u32>) -> Reg<u32> {
        self.cluster.rank * self.memory.count() + index
    }

    /// Whether a column is of this CTA, and the index of its key.
    pub(super) fn index(&self, column: Reg<u32>) -> (Reg<bool>, Reg<u32>) {
        let index = column - self.column(constant(0u32));
        (index.lt(self.memory.count()), index)
    }

    /// Folds `work` over this thread's keys and their indices.
    pub(super) fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V {
        self.memory.fold(self, state, work)
    }

    /// The sum of `amount` over the row's keys from `least` on.
    pub(super) fn sum_from(&mut self, least: Reg<u32>, amount: impl Fn(Reg<u32>) -> Reg<u64>) -> Reg<u64> {
        let sum = self.fold(constant(0u64), |sum, key, _| add_where(key.ge(least), sum, || amount(key)));
        let [sum] = self.cluster.sums([sum]);
        sum
    }

    /// The highest number x such that the amounts of all keys whose `order` is at least x add up to
    /// `target`, and the sum of those above x: a digit at each step, from the highest on. Amounts
    /// are computed between the bounds of x only.
    pub(super) fn search(
        &mut self,
        target: Reg<u64>,
        order: impl Fn(&Self, Reg<u32>, Reg<u32>) -> Reg<u32>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> (Reg<u32>, Reg<u64>) {
        let (mut found, mut above) = (constant(0u32), constant(0u64));
        let mut shift = constant(u32::BITS);
        while shift != 0 {
            shift = shift - DIGIT_BITS;
            (found, above, _) = self.search_digit(shift, (found, above), |_| target, &order, &amount);
        }
        (found, above)
    }

    /// One step of [`search`](Self::search): the digit from the bit `shift` on. The target is that of
    /// the sum of the amounts that this step adds up, and is returned.
    pub(super) fn search_digit(
        &mut self,
        shift: Reg<u32>,
        (found, above): (Reg<u32>, Reg<u64>),
        target: impl Fn(Reg<u64>) -> Reg<u64>,
        order: impl Fn(&Self, Reg<u32>, Reg<u32>) -> Reg<u32>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> (Reg<u32>, Reg<u64>, Reg<u64>) {
        let here = *self;
        let histogram = here.histogram;
        histogram.clear();
        here.cluster.sync();
        here.fold((), |(), key, index| {
            let digit = (order(&here, key, index) - found) >> shift;
            // Digit 0 needs no sum: it is where the others do not reach the target.
            if (digit - 1) < DIGITS - 1 {
                histogram.add(digit, amount(key));
            }
        });
        let (digit, above, target) = histogram.find(&mut self.cluster, above, target);
        (found + (digit << shift), above, target)
    }
}

/// `sum`, plus `amount` where the condition holds.
#[device]
pub(super) fn add_where(condition: Reg<bool>, sum: Reg<u64>, amount: impl Fn() -> Reg<u64>) -> Reg<u64> {
    let mut sum = sum;
    if condition {
        sum = sum + amount();
    }
    sum
}
