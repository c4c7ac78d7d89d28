//! The softmax of a thread's rows, for weights in e4m3.
//!
//! ```text
//! a block of scores:  w = 2^(s · scale - m + 8)      e4m3 holds 2^-9 to 448: weights up to 2^8 use all its exponents
//! O' = O · 2^(m - m') · u / u' + w·V                 O counts in units of the scale u of V's block
//! ```
//!
//! The maximum is exact, unlike that of the [16-bit kernel](super::super::softmax): O is multiplied
//! by a factor anyway when a block's product is added to it, and larger weights do not fit e4m3.

use warpwright::prelude::*;

use crate::attention::forward::softmax::{elements_of, largest};

/// The exponent of the largest weight: 2^8 is the largest power of two that e4m3 holds.
const LARGEST_EXPONENT: f32 = 8.0;

/// What a block's scores and values are multiplied by.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct BlockScales {
    /// Makes scores exponents of two.
    pub(super) exponent: Reg<f32>,
    pub(super) value: Reg<f32>,
}

/// The softmax of the two rows of which a thread has accumulators.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Fp8Softmax {
    /// The largest score of each row so far, as an exponent of two.
    maximum: [Reg<f32>; 2],
    /// The sum of this thread's weights of each row so far.
    sum: [Reg<f32>; 2],
    /// What O is multiplied by before the latest block's product is added.
    pub(super) factors: [Reg<f32>; 2],
    /// The scale of the latest block of V.
    unit: Reg<f32>,
}

#[device]
impl Fp8Softmax {
    /// No scores yet, or a sink: a score of a key without a value.
    pub(super) fn new(sink: Option<Reg<f32>>) -> Self {
        let (maximum, sum) = match sink {
            Some(sink) => {
                // One lane of each quad counts it.
                let weight = LARGEST_EXPONENT.exp2();
                let sum = (thread_idx().x % 4).eq(0u32).select(weight, 0.0f32);
                (sink * std::f32::consts::LOG2_E, sum)
            }
            None => (constant(f32::NEG_INFINITY), constant(0.0f32)),
        };
        let one = constant(1.0f32);
        Self { maximum: [maximum; 2], sum: [sum; 2], factors: [one; 2], unit: one }
    }

    /// Replaces the scores of a block by their weights.
    pub(super) fn update(&mut self, scores: &mut Fragment<f32>, scales: BlockScales) {
        // O is zero before the first block, whatever the factor.
        let units = self.unit * fast::recip(scales.value);
        for row in 0..2 {
            let mut highest = largest(elements_of(row, scores.len()).map(|i| scores.get(i)).collect());
            highest = highest.max(highest.shuffle_xor(1));
            highest = highest.max(highest.shuffle_xor(2));
            highest = (highest * scales.exponent).max(self.maximum[row]);
            // A row without a key has no maximum: its weights are 0.
            let base = highest.eq(f32::NEG_INFINITY).select(0.0f32, highest);
            let factor = fast::exp2(self.maximum[row] - base);
            let shifted = base - LARGEST_EXPONENT;
            let mut sums = [self.sum[row] * factor, constant(0.0f32)];
            for (count, i) in elements_of(row, scores.len()).enumerate() {
                let weight = fast::exp2(scores.get(i) * scales.exponent - shifted);
                scores.set(i, weight);
                sums[count % 2] += weight;
            }
            self.maximum[row] = highest;
            self.sum[row] = sums[0] + sums[1];
            self.factors[row] = factor * units;
        }
        self.unit = scales.value;
    }

    /// Divides O by the sums of the weights. Returns the natural logarithms of the sums of
    /// exponentials, minus infinity for rows without a key.
    pub(super) fn normalize(&self, parts: &mut [Fragment<f32>]) -> [Reg<f32>; 2] {
        let mut logarithms = [constant(0.0f32); 2];
        for row in 0..2 {
            let mut sum = self.sum[row];
            sum += sum.shuffle_xor(1);
            sum += sum.shuffle_xor(2);
            let inverse = sum.eq(0.0f32).select(0.0f32, fast::recip(sum) * self.unit);
            for out in parts.iter_mut() {
                for i in elements_of(row, out.len()) {
                    out.set(i, out.get(i) * inverse);
                }
            }
            let exponent = self.maximum[row] + fast::log2(sum) - LARGEST_EXPONENT;
            let logarithm = exponent * std::f32::consts::LN_2;
            logarithms[row] = sum.eq(0.0f32).select(f32::NEG_INFINITY, logarithm);
        }
        logarithms
    }
}
