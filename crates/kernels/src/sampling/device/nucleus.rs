//! Top-p of a row that is streamed, of more tokens than candidates: two more reads of the row.
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
use super::kernel::Sample;
use super::mass::{Masses, key_of};
use super::search::{Keys, KeysOfLogits};
use super::segments::Segments;
use super::stream::Tiles;
use crate::rows::RowElement;

/// The bins.
const BINS: u32 = 1 << 12;
/// Bins for a factor of two: the last bin is below 2^-42 of the highest probability.
const PER_OCTAVE: f32 = 96.0;
/// 2^23: its neighbors are integers.
const INTEGERS: f32 = (1u32 << 23) as f32;
/// Reads of bins, at most.
const MAX_READS: u32 = 4;

/// A row whose masses have a sum.
pub(super) struct Nucleus<'l, T: RowElement> {
    pub(super) keys: Keys<KeysOfLogits<T>>,
    pub(super) tiles: &'l Tiles<T>,
    pub(super) candidates: &'l Candidates,
    pub(super) segments: &'l Segments,
    pub(super) masses: &'l Masses,
    /// The sum of all masses.
    pub(super) total: Reg<u64>,
}

#[device]
impl Sample {
    /// The lowest key that top-p keeps, and the sums of the segments' masses from it on; 0 where its bin has
    /// too many keys. `target` makes what top-p keeps of a sum.
    pub(super) fn nucleus<T: RowElement>(
        &self,
        nucleus: &Nucleus<'_, T>,
        target: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> Reg<u32> {
        let Nucleus { candidates, segments, masses, .. } = nucleus;
        let mut keys = nucleus.keys;
        let mut bin = self.probable_bin(nucleus, &target);
        let target = target(nucleus.total);
        let mut last = constant(0u32);
        let mut reads = constant(0u32);
        while reads < MAX_READS {
            reads = reads + 1;
            candidates.clear();
            sync_threads();
            self.sum_above(nucleus, bin);
            let above = segments.total(&mut keys, |sum| sum);
            let count = candidates.count();
            if count <= candidates.capacity() {
                let of_bin = candidates.sum(count, |key| masses.of(key));
                if above >= target {
                    bin = bin - 1;
                } else if above + of_bin < target {
                    bin = (bin + 1).min(BINS - 1);
                } else {
                    last = candidates.threshold(count, target - above, |key| masses.of(key));
                    candidates.add_to(segments, count, last, |key| masses.of(key));
                    reads = constant(MAX_READS);
                }
            } else {
                reads = constant(MAX_READS);
            }
            sync_threads();
        }
        last
    }

    /// The bin of the last key that top-p keeps, by approximate masses: 2^31 is the sum of all.
    fn probable_bin<T: RowElement>(
        &self,
        nucleus: &Nucleus<'_, T>,
        target: impl Fn(Reg<u64>) -> Reg<u64>,
    ) -> Reg<u32> {
        let bins = shared_array::<u32>(BINS);
        let found = shared_array::<u32>(1);
        for bin in (thread_idx().x..BINS).step_by(self.threads) {
            bins.at(bin).store(0u32);
        }
        if thread_idx().x == 0 {
            found.store(BINS - 1);
        }
        sync_threads();
        let Masses { maximum, scale, .. } = *nucleus.masses;
        let offset = constant(31.0f32 + 40.0) - nucleus.total.convert::<f32>().log2();
        self.read_again(nucleus.tiles, |_, logits| {
            for (is_inside, _, logit) in logits {
                let exponent = (*logit - maximum) * scale;
                // Rounded: a mass that is cut would make the bin wrong more often.
                let mass = (fast::exp2(exponent + offset) + 0.5f32).convert::<u32>();
                let bin = (exponent * -PER_OCTAVE).min((BINS - 1) as f32) + INTEGERS;
                if *is_inside & mass.gt(0) {
                    bins.at(bin.to_bits() - INTEGERS.to_bits()).reduce_add(mass);
                }
            }
        });
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

    /// Collects the candidates of a bin, and adds up the masses of those above it by segments.
    fn sum_above<T: RowElement>(&self, nucleus: &Nucleus<'_, T>, bin: Reg<u32>) {
        let Nucleus { candidates, segments, masses, .. } = nucleus;
        // The highest logit of a bin; that of the first one has none above.
        let edge =
            |bin: Reg<u32>| masses.maximum - (bin.convert::<f32>() - 0.5) / (masses.scale * PER_OCTAVE);
        let above = bin.eq(0).select(f32::NAN, edge(bin));
        let least = bin.eq(BINS - 1).select(f32::NEG_INFINITY, edge(bin + 1));
        self.read_again(nucleus.tiles, |segment, logits| {
            let mut sum = constant(0u64);
            let mut found = vec![];
            for (is_inside, column, logit) in logits {
                let is_above = *is_inside & logit.ge(above);
                sum = sum + is_above.select(masses.of_logit(*logit), 0u64);
                found.push((*is_inside & logit.ge(least) & !is_above, key_of(*logit), *column));
            }
            candidates.add(&found);
            let sum = warp::reduce_sum(sum);
            if lane_id() == 0 {
                segments.words.at(segment).store(sum);
            }
        });
    }
}
