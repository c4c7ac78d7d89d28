//! Top-p of a row that nothing keeps, of more tokens than candidates: two more reads of the row.
//!
//! ```text
//! first read    the masses, about, by 4096 bins of the logarithm of the probability: the bin of the last
//!               token that top-p keeps, probably
//! second read   the keys of that bin are candidates; exact sums of the bins before it, by segments
//! draw          the last key is among the candidates; their masses are added to those of segments
//! ```
//!
//! If the exact sums show that the last token is in a neighboring bin, that one is read.

use warpwright::prelude::*;

use super::candidates::Candidates;
use super::mass::Masses;
use super::search::{KeyMemory, Keys};
use super::segments::Segments;

/// The bins.
pub(super) const BINS: u32 = 1 << 12;
/// Bins for a factor of two: the last bin is below 2^-42 of the highest probability.
const PER_OCTAVE: f32 = 96.0;
/// 2^23: its neighbors are integers.
const INTEGERS: f32 = (1u32 << 23) as f32;

#[device]
impl Masses {
    /// The bin of a key: a higher key has no higher one.
    fn bin(&self, key: Reg<u32>) -> Reg<u32> {
        let bin = (self.exponent(key) * -PER_OCTAVE).min((BINS - 1) as f32);
        (bin + INTEGERS).to_bits() - INTEGERS.to_bits()
    }
}

#[device]
impl<M: KeyMemory> Keys<M> {
    /// The lowest key that top-p keeps, and the sums of the segments' masses from it on; 0 where its bin has
    /// too many keys. `target` makes what top-p keeps of `total`, the sum of all masses. The row has one CTA.
    pub(super) fn nucleus(
        &mut self,
        (candidates, segments, bins): (&Candidates, &Segments, Shared<u32>),
        masses: &Masses,
        (total, target): (Reg<u64>, impl Fn(Reg<u64>) -> Reg<u64>),
    ) -> Reg<u32> {
        let mut bin = self.probable_bin(bins, masses, total, &target);
        let target = target(total);
        let mut last = constant(0u32);
        let mut is_searched = constant(true);
        while is_searched {
            candidates.clear();
            sync_threads();
            let here = *self;
            segments.sum_columns(self, |key, column| {
                let mut amount = constant(0u64);
                if key > 0 {
                    let of_key = masses.bin(key);
                    candidates.send(&here, of_key.eq(bin), key, column);
                    if of_key < bin {
                        amount = masses.of(key);
                    }
                }
                amount
            });
            let above = segments.total(self, |sum| sum);
            let count = candidates.count();
            is_searched = constant(false);
            if count <= candidates.capacity() {
                let of_bin = candidates.sum(count, |key| masses.of(key));
                if above >= target {
                    bin = bin - 1;
                    is_searched = constant(true);
                } else if above + of_bin < target {
                    // The last bin has the keys without mass.
                    bin = bin + 1;
                    is_searched = bin.lt(BINS);
                } else {
                    last = candidates.threshold(count, target - above, |key| masses.of(key));
                    candidates.add_to(segments, count, last, |key| masses.of(key));
                }
            }
            sync_threads();
        }
        last
    }

    /// The bin of the last key that top-p keeps, by approximate masses: 2^31 is the sum of all.
    fn probable_bin(
        &self,
        bins: Shared<u32>,
        masses: &Masses,
        total: Reg<u64>,
        target: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> Reg<u32> {
        let found = shared_array::<u32>(1);
        for bin in (thread_idx().x..BINS).step_by(self.threads) {
            bins.at(bin).store(0u32);
        }
        if thread_idx().x == 0 {
            found.store(BINS - 1);
        }
        sync_threads();
        let offset = constant(31.0f32 + 40.0) - total.convert::<f32>().log2();
        self.fold((), |(), key, _| {
            let mass = (masses.exponent(key) + offset).ex2_approx().convert::<u32>();
            if mass > 0 && key > 0 {
                bins.at(masses.bin(key)).reduce_add(mass);
            }
        });
        sync_threads();
        // A thread has some bins, and the first thread those of the highest keys.
        let each = BINS.div_ceil(self.threads);
        let mut sums = vec![];
        for number in 0..each {
            let bin = thread_idx().x * each + number;
            let mut sum = constant(0u64);
            if bin < BINS {
                sum = bins.at(bin).load().convert::<u64>();
            }
            sums.push((bin, sum));
        }
        let own = sums.iter().fold(constant(0u64), |all, (_, sum)| all + *sum);
        let mut before = block::exclusive_sum(own);
        let target = target(block::broadcast(before + own, self.threads - 1));
        for (bin, sum) in sums {
            if before < target && before + sum >= target {
                found.store(bin);
            }
            before = before + sum;
        }
        sync_threads();
        found.load()
    }
}
