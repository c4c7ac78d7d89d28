//! The amounts of keys by a digit, summed in shared memory.
//!
//! Shared memory adds 32 bits atomically: the lower halves, and then the upper halves with the carry.
//! CTAs of a cluster have a histogram each, and add it to that of the first.

use warpwright::prelude::*;

use super::cluster::Cluster;

/// Bits of a digit, and the number of digits.
pub(super) const DIGIT_BITS: u32 = 8;
pub(super) const DIGITS: u32 = 1 << DIGIT_BITS;

/// The sums of a CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Histogram {
    /// Threads of the CTA.
    threads: u32,
    /// The lower and the upper halves.
    sums: Shared<u32>,
    /// A digit, and the sum of those above.
    found: Shared<u64>,
}

#[device]
impl Histogram {
    pub(super) fn new(threads: u32) -> Self {
        Self { threads, sums: shared_array::<u32>(2 * DIGITS), found: shared_array::<u64>(2) }
    }

    /// Makes the sums 0. A synchronization follows.
    pub(super) fn clear(&self) {
        for at in (thread_idx().x..2 * DIGITS).step_by(self.threads) {
            self.sums.at(at).store(0u32);
        }
    }

    /// Adds an amount to the sum of a digit.
    pub(super) fn add(&self, digit: Reg<u32>, amount: Reg<u64>) {
        let low = amount.convert::<u32>();
        let old = self.sums.at(digit).atomic_add(low);
        let high = (amount >> 32u32).convert::<u32>() + (old + low).lt(old).to_u32();
        if high != 0 {
            self.sums.at(DIGITS + digit).reduce_add(high);
        }
    }

    /// Adds the sums to those of the first CTA.
    fn send(&self) {
        for digit in (thread_idx().x..DIGITS).step_by(self.threads) {
            let amount = self.sum(digit);
            if amount != 0 {
                let low = amount.convert::<u32>();
                let old = self.sums.at(digit).map_to_block(0u32).atomic_add(low);
                let high = (amount >> 32u32).convert::<u32>() + (old + low).lt(old).to_u32();
                self.sums.at(DIGITS + digit).map_to_block(0u32).reduce_add(high);
            }
        }
    }

    /// The sum of a digit.
    fn sum(&self, digit: Reg<u32>) -> Reg<u64> {
        let half = |at: Reg<u32>| self.sums.at(at).load().convert::<u64>();
        (half(DIGITS + digit) << 32u32) | half(digit)
    }

    /// The highest digit such that its sum, those of higher digits and `above` add up to the target, which
    /// is that of all of them, else 0; the sum above it; and the target. All threads of the CTAs have the
    /// same.
    pub(super) fn find(
        &self,
        cluster: &mut Cluster,
        above: Reg<u64>,
        target: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> (Reg<u32>, Reg<u64>, Reg<u64>) {
        sync_threads();
        if cluster.ctas > 1 {
            if cluster.rank != 0 {
                self.send();
            }
            cluster.sync();
        }
        // A thread has some digits, and the first thread the highest.
        let each = DIGITS.div_ceil(self.threads);
        let mut sums = vec![];
        for index in 0..each {
            let from_top = thread_idx().x * each + index;
            let mut sum = constant(0u64);
            if from_top < DIGITS {
                sum = self.sum(DIGITS - 1 - from_top);
            }
            sums.push((DIGITS - 1 - from_top, sum));
        }
        let own = sums.iter().fold(constant(0u64), |all, (_, sum)| all + *sum);
        let mut before = above + block::exclusive_sum(own);
        let target = target(block::broadcast(before + own, self.threads - 1));
        if thread_idx().x == self.threads - 1 && before + own < target {
            self.found.store_vector([constant(0u64), before + own]);
        }
        for (digit, sum) in sums {
            if before < target && before + sum >= target {
                self.found.store_vector([digit.convert::<u64>(), before]);
            }
            before = before + sum;
        }
        sync_threads();
        let found = self.found.load_vector::<2>();
        let of_first = [found[0], found[1], target].map(|word| cluster.rank.eq(0).select(word, 0u64));
        let [digit, above, target] = cluster.exchange(of_first, |a, b| a.max(b));
        (digit.convert::<u32>(), above, target)
    }
}
