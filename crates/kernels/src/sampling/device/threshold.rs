//! The lowest key that top-p keeps, of any number of keys.
//!
//! ```text
//! order    65535 - 1536 times the binary logarithm of the probability relative to the highest
//! digits   the two of the order, each by its sums of masses; the first ones add up to the target's total
//! keys     those of that order are few: one CTA sorts them
//! ```
//!
//! Logits are spread over the digits of this order, so that few threads add to a sum at once. The first
//! digits of keys are their exponents: of a few of them, a row of 248,320 normal logits has half. More
//! keys of one order than candidates, for example equal ones, are searched by all their digits.

use warpwright::prelude::*;

use super::candidates::Candidates;
use super::histogram::DIGIT_BITS;
use super::mass::Masses;
use super::search::{KeyMemory, Keys};

/// The highest order. A key of order 0 to 255 has no mass: it is under 2^-42 of the highest.
const HIGHEST: u32 = (1 << 16) - 1;
/// Orders for a factor of two.
const PER_EXPONENT: f32 = 1536.0;

#[device]
impl Masses {
    /// The order of a key: a higher key has no lower one.
    fn order(&self, key: Reg<u32>) -> Reg<u32> {
        let distance = (self.exponent(key) * -PER_EXPONENT).min(HIGHEST as f32);
        constant(HIGHEST) - distance.convert::<u32>()
    }
}

#[device]
impl<M: KeyMemory> Keys<M> {
    /// The highest key such that the amounts of all keys from it on add up to the target, which is that
    /// of the sum of all amounts. Keys without mass have no amount.
    pub(super) fn threshold(
        &mut self,
        candidates: &Candidates,
        masses: &Masses,
        target: impl Fn(Reg<u64>) -> Reg<u64>,
        amount: impl Fn(Reg<u32>) -> Reg<u64>,
    ) -> Reg<u32> {
        let order = |_: &Self, key: Reg<u32>, _: Reg<u32>| key.gt(0).select(masses.order(key), 0u32);
        let none = (constant(0u32), constant(0u64));
        let (found, above, target) = self.search_digit(constant(DIGIT_BITS), none, target, order, &amount);
        candidates.clear();
        let (found, above, target) =
            self.search_digit(constant(0u32), (found, above), |_| target, order, &amount);
        let count = candidates.collect(self, |key| key.gt(0) & masses.order(key).eq(found));
        let mut threshold = constant(0u32);
        if count <= candidates.capacity() {
            let mut of_first = constant(0u32);
            if self.cluster.rank == 0 {
                of_first = candidates.threshold(count, target - above, &amount);
            }
            let [found] = self.cluster.exchange([of_first.convert::<u64>()], |a, b| a.max(b));
            threshold = found.convert::<u32>();
        } else {
            (threshold, _) = self.search(target, |_, key, _| key, &amount);
        }
        threshold
    }
}
