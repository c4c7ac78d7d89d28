//! The softmax of a thread's rows, block of keys by block of keys.
//!
//! ```text
//! a block of scores:      s0 s1 s2 ..     the maximum m of the blocks so far, and the sum l of their weights
//! m' = max(m, s)          w = exp(s - m')     l' = l exp(m - m') + w0 + w1 + ..     O' = O exp(m - m') + w·V
//! ```
//!
//! After the last block O / l is the result, and m + ln(l) the logarithm of the sum of all
//! exponentials. (Milakov and Gimelshein, 2018.)

use warpwright::prelude::*;

use crate::attention::accumulator::row_of;

/// The softmax of the two rows of which a thread has accumulators.
#[derive(DeviceValue, Clone, Copy)]
pub(crate) struct OnlineSoftmax {
    /// The largest score of each row so far.
    maximum: [Reg<f32>; 2],
    /// The sum of this thread's weights of each row so far.
    sum: [Reg<f32>; 2],
    /// What scores are multiplied by to be powers of two.
    scale: Reg<f32>,
}

/// The exponent of a weight at most: a maximum rises when a score exceeds it by more. 2^8 times the
/// sum of a row is far from the limits of f32, and of f16.
const LARGEST_EXPONENT: f32 = 8.0;

/// The elements of `row` in an accumulator of `count` elements.
pub(super) fn elements_of(row: usize, count: u32) -> impl Iterator<Item = u32> {
    (0..count).filter(move |i| row_of(*i) == row)
}

/// The maximum, a tree deep instead of a chain.
#[track_caller]
pub(super) fn largest(mut values: Vec<Reg<f32>>) -> Reg<f32> {
    while values.len() > 1 {
        values = values
            .chunks(2)
            .map(|pair| pair.iter().copied().reduce(|a, b| a.max(b)).expect("a pair"))
            .collect();
    }
    values[0]
}

#[device]
impl OnlineSoftmax {
    /// No scores yet. They will be multiplied by `scale`.
    pub(crate) fn new(scale: Reg<f32>) -> Self {
        let scale = scale * std::f32::consts::LOG2_E;
        Self { maximum: [constant(f32::NEG_INFINITY); 2], sum: [constant(0.0); 2], scale }
    }

    /// The same with a sink: a score of a key without a value, which is not multiplied by `scale`.
    pub(crate) fn with_sink(self, sink: Reg<f32>) -> Self {
        let maximum = sink * std::f32::consts::LOG2_E / self.scale;
        // One lane of each quad counts it.
        let sum = (thread_idx().x % 4).eq(0u32).select(1.0f32, 0.0f32);
        Self { maximum: [maximum; 2], sum: [sum; 2], ..self }
    }

    /// Replaces the scores of a block by their weights. Returns the factors that the sums of the
    /// blocks before, and O, must be multiplied by.
    pub(crate) fn update(&mut self, scores: &mut Fragment<f32>) -> [Reg<f32>; 2] {
        let mut factors = [constant(0.0f32); 2];
        for row in 0..2 {
            let mut highest = largest(elements_of(row, scores.len()).map(|i| scores.get(i)).collect());
            highest = highest.max(highest.shuffle_xor(1));
            highest = highest.max(highest.shuffle_xor(2));
            // A maximum that is a little too small does no harm, and leaves O as it is.
            let rises = ((highest - self.maximum[row]) * self.scale).gt(LARGEST_EXPONENT);
            highest = rises.select(highest, self.maximum[row]);
            // A row without a key has no maximum: its weights are 0.
            let base = highest.eq(f32::NEG_INFINITY).select(0.0f32, highest * self.scale);
            let factor = fast::exp2(self.maximum[row] * self.scale - base);
            let mut sums = [self.sum[row] * factor, constant(0.0f32)];
            for (count, i) in elements_of(row, scores.len()).enumerate() {
                let weight = fast::exp2(scores.get(i) * self.scale - base);
                scores.set(i, weight);
                sums[count % 2] += weight;
            }
            self.maximum[row] = highest;
            self.sum[row] = sums[0] + sums[1];
            factors[row] = factor;
        }
        factors
    }

    /// Divides O by the sums of the weights. Returns the natural logarithms of the sums of
    /// exponentials, minus infinity for rows without a key.
    pub(crate) fn normalize(&self, out: &mut Fragment<f32>) -> [Reg<f32>; 2] {
        let mut logarithms = [constant(0.0f32); 2];
        for row in 0..2 {
            let mut sum = self.sum[row];
            sum += sum.shuffle_xor(1);
            sum += sum.shuffle_xor(2);
            let inverse = sum.eq(0.0f32).select(0.0f32, fast::recip(sum));
            for i in elements_of(row, out.len()) {
                out.set(i, out.get(i) * inverse);
            }
            let logarithm = (self.maximum[row] * self.scale + fast::log2(sum)) * std::f32::consts::LN_2;
            logarithms[row] = sum.eq(0.0f32).select(f32::NEG_INFINITY, logarithm);
        }
        logarithms
    }
}

/// Multiplies the two rows of an accumulator by their factors, in the warps where one is not 1.
#[device]
pub(crate) fn rescale(out: &mut Fragment<f32>, factors: [Reg<f32>; 2]) {
    if warp::vote_any((factors[0] * factors[1]).lt(1.0), warp::ALL_LANES) {
        for i in 0..out.len() {
            out.set(i, out.get(i) * factors[row_of(i)]);
        }
    }
}
