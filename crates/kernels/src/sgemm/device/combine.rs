//! The reduction of split-K: C = alpha · (sum of the partial products) + beta · C.

use warpwright::prelude::*;

/// Threads of a CTA.
pub(in super::super) const THREADS: u32 = 256;

/// Adds the partial products in order, so that the same splits give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combine;

impl Combine {
    /// A thread per element: from `accumulators` (splits, elements) to `c` (elements).
    #[kernel]
    pub fn run(
        &self,
        accumulators: &Global<f32>,
        c: &mut Global<f32>,
        elements: u64,
        splits: u32,
        alpha: f32,
        beta: f32,
    ) {
        launch::threads(THREADS);
        let index = block_idx().x.convert::<u64>() * u64::from(THREADS) + thread_idx().x.convert::<u64>();
        if index < elements {
            let mut sum = accumulators.at(index).load();
            let mut place = accumulators.at(index);
            for _ in 1..splits {
                place = place.at(elements);
                sum = sum + place.load();
            }
            let mut result = alpha * sum;
            if beta != 0.0 {
                result = beta.mul_add(c.at(index).load(), result);
            }
            c.at(index).store(result);
        }
    }
}
