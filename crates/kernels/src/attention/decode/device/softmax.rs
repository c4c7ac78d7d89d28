//! The softmax of a warp's rows, tile of keys by tile of keys.
//!
//! In the accumulators of `mma.sync`, a thread has elements of two rows of every 16: pairs of
//! neighboring columns, in turn of the first row and of the second. The four lanes of a quad have
//! the other columns of the same rows. Scores are in units of log2(e): weights are powers of two.

use warpwright::prelude::*;

/// The row, 0 or 1, of element `i` of an accumulator.
pub(super) fn row_of(i: u32) -> usize {
    (i / 2 % 2) as usize
}

/// The elements of `row` in an accumulator.
fn elements_of(row: usize, accumulator: &Fragment<f32>) -> impl Iterator<Item = u32> + use<> {
    (0..accumulator.len()).filter(move |i| row_of(*i) == row)
}

/// What is subtracted for a maximum. The least finite number stands for minus infinity, the maximum
/// of no keys, so that the difference of the two is not NaN.
#[track_caller]
pub(super) fn base(maximum: Reg<f32>) -> Reg<f32> {
    maximum.max(f32::MIN)
}

/// The softmax of a thread's two rows.
#[derive(DeviceValue, Clone, Copy)]
pub(super) struct OnlineSoftmax {
    /// The largest score of each row so far.
    pub(super) maximum: [Reg<f32>; 2],
    /// The sum of this thread's weights of each row so far.
    sum: [Reg<f32>; 2],
}

#[device]
impl OnlineSoftmax {
    pub(super) fn new() -> Self {
        Self { maximum: [constant(f32::NEG_INFINITY); 2], sum: [constant(0.0); 2] }
    }

    /// Replaces scores by their weights, and multiplies the output of the keys before by the factor
    /// that the new maximum requires.
    pub(super) fn update(&mut self, scores: &mut Fragment<f32>, out: &mut Fragment<f32>) {
        for row in 0..2 {
            let mut highest = self.maximum[row];
            for i in elements_of(row, scores) {
                highest = highest.max(scores.get(i));
            }
            highest = highest.max(highest.shuffle_xor(1));
            highest = highest.max(highest.shuffle_xor(2));
            let base = base(highest);
            let factor = fast::exp2(self.maximum[row] - base);
            let mut sum = self.sum[row] * factor;
            for i in elements_of(row, scores) {
                let weight = fast::exp2(scores.get(i) - base);
                scores.set(i, weight);
                sum += weight;
            }
            for i in elements_of(row, out) {
                out.set(i, out.get(i) * factor);
            }
            self.maximum[row] = highest;
            self.sum[row] = sum;
        }
    }

    /// The sums of the weights of the rows, in all lanes of a quad.
    pub(super) fn sums(&self) -> [Reg<f32>; 2] {
        self.sum.map(|sum| {
            let pairs = sum + sum.shuffle_xor(1);
            pairs + pairs.shuffle_xor(2)
        })
    }
}
