//! Quantized weights as bf16: a thread for each word of them.

use warpwright::prelude::*;

use super::problem::WeightFormat;
use crate::columns::THREADS;
use crate::rows::RowElement;
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dequantize {
    pub(super) format: WeightFormat,
    pub(super) has_zero_points: bool,
    /// Weights that share a scale.
    pub(super) group: u32,
}

impl Dequantize {
    #[kernel]
    pub(super) fn run(
        &self,
        weights: &Global<u8>,
        scales: &Global<bf16>,
        zero_points: &Global<u8>,
        numbers: &mut Global<bf16>,
        words: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < words {
            let word = weights.cast::<u32>().at(at).load();
            let per_word = self.format.per_word();
            let group = at / (self.group / per_word);
            let scale = scales.at(group).load().convert::<f32>();
            let zero = self.format.zero_of_group(self.has_zero_points.then_some(*zero_points), group);
            let values = self.format.numbers(word, zero);
            let scaled: Vec<Reg<f32>> = values.iter().map(|value| *value * scale).collect();
            let pairs: Vec<Reg<u32>> = scaled.chunks(2).map(|values| bf16::narrow(values)).collect();
            let to = numbers.at(at.mul_wide(per_word)).cast::<u32>();
            vector::store_lanes(to, &pairs, Access::new());
        }
    }
}
