//! What the two attentions share: the problem, its reference, and the softmax that runs along with
//! the products.

use std::error::Error;

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device};

/// The head dimension.
pub(crate) const D: u32 = 64;
/// The rows of K and V of a block.
pub(crate) const KEYS: u32 = 64;

/// O = softmax(Q·Kᵀ / sqrt(d))·V for each head, over matrices (heads, length, d).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) heads: u32,
    pub(crate) length: u32,
    /// Query i sees keys 0 to i only.
    pub(crate) causal: bool,
}

/// Q, K and V.
pub(crate) type Inputs = [Vec<f16>; 3];

impl Problem {
    pub(crate) fn inputs(self) -> Inputs {
        let hash = |i: u32| (i.wrapping_mul(2_654_435_761) ^ i >> 7).wrapping_mul(2_246_822_519) >> 16;
        let count = self.heads * self.length * D;
        [1, 77, 1234].map(|seed| {
            (0..count).map(|i| f16::from_f32(hash(i * 3 + seed) as f32 / 16384.0 - 2.0)).collect()
        })
    }

    /// What the scores are multiplied by: 1 / sqrt(d), and log2(e) because the kernels use powers
    /// of two.
    pub(crate) fn scale(self) -> f32 {
        std::f32::consts::LOG2_E / (D as f32).sqrt()
    }

    /// The elements of `o` that differ from attention in f64.
    pub(crate) fn wrong_elements(self, inputs: &Inputs, o: &Buffer<f16>) -> Result<usize, Box<dyn Error>> {
        let is_right = |found: f64, expected: f64| (found - expected).abs() <= 2e-3 * (1.0 + expected.abs());
        let found = o.to_vec()?;
        Ok(found.iter().zip(self.reference(inputs)).filter(|(f, e)| !is_right(f.to_f64(), *e)).count())
    }

    fn reference(self, inputs: &Inputs) -> Vec<f64> {
        let [q, k, v] = inputs.each_ref().map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
        let (d, length) = (D as usize, self.length as usize);
        let mut o = Vec::with_capacity(q.len());
        for row in 0..self.heads as usize * length {
            let first = row / length * length;
            let keys = first..if self.causal { row + 1 } else { first + length };
            let dot = |key: usize| (0..d).map(|c| q[row * d + c] * k[key * d + c]).sum::<f64>();
            let weights: Vec<f64> = keys.clone().map(|key| (dot(key) / (d as f64).sqrt()).exp()).collect();
            let total: f64 = weights.iter().sum();
            let column =
                |c: usize| keys.clone().zip(&weights).map(|(key, w)| w * v[key * d + c]).sum::<f64>();
            o.extend((0..d).map(|c| column(c) / total));
        }
        o
    }
}

/// The softmax of a thread's two rows, block of keys by block of keys.
///
/// In the accumulators of `mma.sync` and `wgmma`, a thread has elements of two rows of every 16: pairs
/// of neighboring columns, in turn of the first row and of the second. Element i of its fragment
/// belongs to row i / 2 % 2. The four lanes of a quad have the other columns of the same rows.
#[derive(DeviceValue, Clone, Copy)]
pub(crate) struct OnlineSoftmax {
    /// The largest score of each row so far.
    maximum: [Reg<f32>; 2],
    /// The sum of this thread's weights of each row so far.
    sum: [Reg<f32>; 2],
}

/// The row, 0 or 1, of element `i` of an accumulator.
fn row_of(i: u32) -> usize {
    (i / 2 % 2) as usize
}

/// The elements of `row` in an accumulator.
fn elements_of(row: usize, accumulator: &Fragment<f32>) -> impl Iterator<Item = u32> + use<> {
    (0..accumulator.len()).filter(move |i| row_of(*i) == row)
}

#[device]
impl OnlineSoftmax {
    pub(crate) fn new() -> Self {
        Self { maximum: [constant(f32::NEG_INFINITY); 2], sum: [constant(0.0); 2] }
    }

    /// Replaces the scores of a block by their weights, and multiplies the output of the blocks
    /// before by the factor that the new maximum requires.
    pub(crate) fn update(&mut self, scores: &mut Fragment<f32>, out: &mut Fragment<f32>, scale: Reg<f32>) {
        for row in 0..2 {
            let mut highest = self.maximum[row];
            for i in elements_of(row, scores) {
                highest = highest.max(scores.get(i));
            }
            highest = highest.max(highest.shuffle_xor(1));
            highest = highest.max(highest.shuffle_xor(2));
            let factor = fast::exp2((self.maximum[row] - highest) * scale);
            let mut sum = self.sum[row] * factor;
            for i in elements_of(row, scores) {
                let weight = fast::exp2((scores.get(i) - highest) * scale);
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

    /// Divides the output by the sums of the weights.
    pub(crate) fn normalize(&self, out: &mut Fragment<f32>) {
        for row in 0..2 {
            let mut sum = self.sum[row];
            sum += sum.shuffle_xor(1);
            sum += sum.shuffle_xor(2);
            let inverse = fast::recip(sum);
            for i in elements_of(row, out) {
                out.set(i, out.get(i) * inverse);
            }
        }
    }
}

/// Minus infinity for the scores of keys that do not exist, or that the query does not see.
/// `at` has the coordinates of the scores, relative to (`first_row`, `first_key`).
pub(crate) fn mask(
    scores: &mut Fragment<f32>,
    at: &Coordinates,
    (first_row, first_key): (Reg<u32>, Reg<u32>),
    (length, causal): (Reg<u32>, bool),
) {
    for i in 0..scores.len() {
        let key = first_key + at.column(i);
        let mut seen = key.lt(length);
        if causal {
            seen &= key.le(first_row + at.row(i));
        }
        scores.set(i, seen.select(scores.get(i), f32::NEG_INFINITY));
    }
}

/// The weights in the registers of the next product's operand A.
///
/// A thread has the same elements of an accumulator (m, n) and of an operand A (m, k) with k = n, in
/// the same order, for `mma.sync` of 16-bit types and for `wgmma` with A in registers.
pub(crate) fn weights_as_a(weights: &mut Fragment<f16>, scores: &Fragment<f32>) {
    for i in (0..scores.len()).step_by(2) {
        weights.set_pair(i, scores.get(i).convert::<f16>(), scores.get(i + 1).convert::<f16>());
    }
}

/// Runs `attention` on problems of every kind: whole and ragged blocks, one row, causal or not.
pub(crate) fn check_all(
    device: &Device,
    attention: impl Fn(&Device, Problem) -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    for (length, causal) in [(200, true), (200, false), (1, false), (64, false), (512, true)] {
        let problem = Problem { heads: 2, length, causal };
        match attention(device, problem)? {
            0 => println!("{}: {problem:?}: every element is right", device.name()),
            wrong => return Err(format!("{problem:?}: {wrong} elements are wrong").into()),
        }
    }
    Ok(())
}
