//! The convolution of [`super::delta_rule`] for one token of each sequence: a thread has neighboring
//! columns.

use warpwright::prelude::*;
use warpwright_kernels::overlap;
use warpwright_kernels::vector;

use super::delta_rule::{ConvInputs, SlotDeltaRule, convolved};
use super::sequences::SequenceInputs;
use crate::number::Number;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConvStep {
    pub(super) rule: SlotDeltaRule,
}

/// Threads of a CTA.
const THREADS: u32 = 256;

impl ConvStep {
    /// CTAs of a sequence.
    pub(super) fn ctas<T: Number>(&self) -> u32 {
        (self.rule.columns() / vector::width::<T>()).div_ceil(THREADS)
    }

    /// `states` is (slots, width - 1, columns), `y` (sequences, columns).
    #[kernel]
    pub(super) fn run<T: Number>(
        &self,
        conv: ConvInputs<T>,
        sequences: SequenceInputs,
        states: &mut Global<T>,
        y: &mut Global<f32>,
    ) {
        launch::threads(THREADS);
        // The successor loads states, which this kernel does not write, while this one waits.
        overlap::launch(true);
        let SlotDeltaRule { width, .. } = self.rule;
        let (columns, lanes) = (self.rule.columns(), vector::width::<T>());
        let column = (block_idx().x * THREADS + thread_idx().x) * lanes;
        let sequence = block_idx().y;
        if column < columns {
            let (initial, has_zeros) = sequences.initial(sequence);
            let load = |from: Global<T>| vector::load(from.cast::<u32>(), Access::new());
            let from = self.rule.slot_of_conv(*states, initial).at(column);
            let window = |at: u32| -> Vec<Reg<u32>> {
                load(from.at(at * columns)).iter().map(|word| has_zeros.select(0u32, *word)).collect()
            };
            let mut tokens: Vec<Vec<Reg<u32>>> = (0..width - 1).map(window).collect();
            let weights = conv.weights.at(column * width);
            let filters: Vec<_> =
                (0..width).flat_map(|at| widen::<T>(&load(weights.at(at * lanes)))).collect();
            overlap::wait(true);
            tokens.push(load(conv.x.at(sequence.mul_wide(conv.stride)).at(column)));

            let values: Vec<_> = tokens.iter().map(|words| widen::<T>(words)).collect();
            let convolved: Vec<_> = filters
                .chunks(width as usize)
                .enumerate()
                .map(|(lane, filter)| {
                    let of_lane: Vec<_> = values.iter().map(|token| token[lane]).collect();
                    let (newest, window) = of_lane.split_last().expect("a filter has a width");
                    convolved(window, *newest, filter)
                })
                .collect();
            let to = y.at(sequence.mul_wide(columns)).at(column);
            vector::store(to, &convolved, Access::new());
            let to = self.rule.slot_of_conv(*states, sequences.slot(sequence)).at(column);
            for (at, words) in tokens[1..].iter().enumerate() {
                vector::store(to.at(at as u32 * columns).cast::<u32>(), words, Access::new());
            }
        }
    }
}

/// The elements of words.
#[track_caller]
fn widen<T: Number>(words: &[Reg<u32>]) -> Vec<Reg<f32>> {
    words.iter().flat_map(|word| T::widen(*word)).collect()
}
