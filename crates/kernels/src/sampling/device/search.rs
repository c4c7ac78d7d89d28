//! A row's keys in the memory of its CTAs, and the search for a key by what is above it.
//!
//! ```text
//! vectors of a row   | 32 of CTA 0 | 32 of CTA 1 | .. | 32 of CTA 0 | .. a warp loads 32
//! keys of a CTA      | 32 vectors  | the next 32 | ..                0 past the end of the row
//! ```

use warpwright::lang::space::Space;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::histogram::{DIGIT_BITS, DIGITS, Histogram};
use super::mass::key_of;
use super::segments::Segments;
use super::team::Team;
use crate::rows::{Chunk, RowElement};
use crate::vector;

/// The keys of a CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Keys<M: KeyMemory> {
    pub(super) team: Team,
    /// Threads of a CTA, and elements of a vector.
    pub(super) threads: u32,
    pub(super) lanes: u32,
    pub(super) histogram: Histogram,
    pub(super) memory: M,
}

/// Where the keys of a CTA are.
pub(super) trait KeyMemory: DeviceValue + Copy {
    /// Folds `work` over this thread's keys and their indices.
    fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        keys: &Keys<Self>,
        state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V;

    /// The first column up to which the amounts add up to more than `point` of their sum.
    fn draw_in_token_order(
        keys: &mut Keys<Self>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32>;
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
}

/// Stored keys that a thread reads at once.
const AT_ONCE: u32 = 4;
/// Vectors of logits that a thread reads at once.
const VECTORS_AT_ONCE: u32 = 4;

#[device]
impl<S: Space> KeyMemory for StoredKeys<S> {
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

    fn draw_in_token_order(
        keys: &mut Keys<Self>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        let total = keys.sum_from(constant(1u32), &amount);
        let (found, _) = keys.search(point(total) + 1u64, |keys, _, index| !keys.column(index), amount);
        !found
    }
}

#[device]
impl<T: RowElement> KeyMemory for KeysOfLogits<T> {
    fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        keys: &Keys<Self>,
        mut state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V {
        let (lanes, stride) = (keys.lanes, keys.threads * keys.lanes);
        for first in (thread_idx().x * lanes..self.vocabulary).step_by(stride * VECTORS_AT_ONCE) {
            let columns: Vec<_> = (0..VECTORS_AT_ONCE).map(|vector| first + vector * stride).collect();
            let chunks: Vec<_> = columns.iter().map(|column| self.load(*column, lanes)).collect();
            for (column, chunk) in columns.into_iter().zip(chunks) {
                let inside = column.lt(self.vocabulary);
                for (lane, logit) in chunk.values().into_iter().enumerate() {
                    state = work(state, inside.select(key_of(logit), 0u32), column + lane as u32);
                }
            }
        }
        state
    }

    fn draw_in_token_order(
        keys: &mut Keys<Self>,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        Segments::new(keys).draw(keys, point, amount)
    }
}

impl<T: RowElement> KeysOfLogits<T> {
    /// The vector at `column`, and the last one past the end of the row.
    #[track_caller]
    pub(super) fn load(&self, column: Reg<u32>, lanes: u32) -> Chunk<T> {
        Chunk::load(self.logits.at(column.min(self.vocabulary - lanes)), lanes, vector::read_once())
    }
}

#[device]
impl<M: KeyMemory> Keys<M> {
    /// The column of a key.
    pub(super) fn column(&self, index: Reg<u32>) -> Reg<u32> {
        let vector = index / self.lanes;
        let of_row = ((vector / 32) * self.team.ctas + self.team.rank) * 32 + vector % 32;
        of_row * self.lanes + index % self.lanes
    }

    /// Whether a column is of this CTA, and the index of its key.
    pub(super) fn index(&self, column: Reg<u32>) -> (Reg<bool>, Reg<u32>) {
        let vector = column / self.lanes;
        let group = vector / 32;
        let index = ((group / self.team.ctas) * 32 + vector % 32) * self.lanes + column % self.lanes;
        ((group % self.team.ctas).eq(self.team.rank), index)
    }

    /// Folds `work` over this thread's keys and their indices.
    pub(super) fn fold<V: DeviceValue + Yields<V> + Copy>(
        &self,
        state: V,
        work: impl Fn(V, Reg<u32>, Reg<u32>) -> V,
    ) -> V {
        self.memory.fold(self, state, work)
    }

    /// The first column up to which the amounts add up to more than `point` of their sum.
    pub(super) fn draw_in_token_order(
        &mut self,
        point: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        M::draw_in_token_order(self, point, amount)
    }

    /// The sum of `amount` over the row's keys from `least` on.
    pub(super) fn sum_from(&mut self, least: Reg<u32>, amount: impl Fn(Reg<u32>) -> Reg<u64>) -> Reg<u64> {
        let sum = self.fold(constant(0u64), |sum, key, _| add_where(key.ge(least), sum, || amount(key)));
        let [sum] = self.team.sums([sum]);
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
            let here = *self;
            let histogram = here.histogram;
            histogram.clear();
            here.team.sync();
            here.fold((), |(), key, index| {
                let digit = (order(&here, key, index) - found) >> shift;
                // Digit 0 needs no sum: it is where the others do not reach the target.
                if (digit - 1) < DIGITS - 1 {
                    histogram.add(digit, amount(key));
                }
            });
            let (digit, above_digit) = histogram.find(&mut self.team, target, above);
            found = found + (digit << shift);
            above = above_digit;
        }
        (found, above)
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
