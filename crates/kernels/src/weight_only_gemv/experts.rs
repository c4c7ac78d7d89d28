//! y = x · W(expert)ᵀ with quantized weights of experts: a warp for a row of W and a row of y.
//!
//! ```text
//! a row of W    | lane 0 | lane 1 | .. | lane 31 | lane 0 | ..     16 bytes each, in one group
//! ```

use warpwright::prelude::*;

use super::problem::WeightFormat;
use crate::overlap;
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExpertGemv {
    pub(super) format: WeightFormat,
    pub(super) has_zero_points: bool,
    /// Weights of a row that share a scale.
    pub(super) group: u32,
    pub(super) k: u32,
    /// Rows of y for each row of x, each with its own expert.
    pub(super) choices: u32,
    pub(super) overlaps: bool,
}

/// Warps of a CTA.
pub(super) const WARPS: u32 = 4;
/// Words of a lane's load at most.
const WORDS: u32 = 4;

impl ExpertGemv {
    /// Words of a lane's load: those of a group at most.
    fn words(&self) -> u32 {
        WORDS.min(self.group / self.format.per_word())
    }

    /// `y` is (rows, n), `experts` (rows), `x` (rows / choices, k).
    #[kernel]
    pub(super) fn run(
        &self,
        weights: &Global<u8>,
        scales: &Global<bf16>,
        zero_points: &Global<u8>,
        x: &Global<bf16>,
        experts: &Global<u32>,
        y: &mut Global<bf16>,
        n: u32,
    ) {
        launch::threads(32 * WARPS);
        let (row, column) = (block_idx().x, block_idx().y * WARPS + thread_idx().x / 32);
        // Which weights are read depends on the predecessor.
        overlap::wait(self.overlaps);
        if column < n {
            let of_w = experts[row].mul_wide(n) + column.convert::<u64>();
            let words = weights.cast::<u32>().at(of_w * u64::from(self.k / self.format.per_word()));
            let groups = of_w * u64::from(self.k / self.group);
            let x = x.at((row / self.choices).mul_wide(self.k));
            let of_lane = self.words() * self.format.per_word();
            let mut sum = constant(0f32);
            for start in (lane_id() * of_lane..self.k).step_by(32 * of_lane) {
                let group = groups + (start / self.group).convert::<u64>();
                let from = words.at(start / self.format.per_word());
                let words = vector::load_lanes(from, self.words(), Access::new());
                let zero = self.format.zero_of_group(self.has_zero_points.then_some(*zero_points), group);
                let parts = (0..of_lane).step_by(8);
                let x: Vec<Reg<f32>> =
                    parts.flat_map(|part| vector::load_widened(x.at(start + part), 8)).collect();
                let numbers: Vec<Reg<f32>> =
                    words.iter().flat_map(|word| self.format.numbers(*word, zero)).collect();
                let products = numbers.iter().zip(&x);
                let of_group = products.fold(constant(0f32), |sum, (w, x)| w.mul_add(*x, sum));
                sum = scales.at(group).load().convert::<f32>().mul_add(of_group, sum);
            }
            overlap::launch(self.overlaps);
            let total = warp::reduce_sum(sum);
            if lane_id() == 0 {
                y.at(row.mul_wide(n)).at(column).store(total.convert::<bf16>());
            }
        }
    }
}
