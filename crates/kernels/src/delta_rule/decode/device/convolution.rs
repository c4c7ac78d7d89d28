//! The causal convolution of the newest token of a column, and the states in slots.

use warpwright::prelude::*;

use crate::delta_rule::decode::problem::DecodeShape;
use crate::rows::RowElement;

impl DecodeShape {
    /// The convolution's state in a slot.
    #[track_caller]
    pub(super) fn slot_of_conv<T: RowElement>(&self, states: Global<T>, slot: Reg<u32>) -> Global<T> {
        states.at(slot.mul_wide((self.width - 1) * self.columns()))
    }

    /// The state of a value head in a slot.
    #[track_caller]
    pub(super) fn slot_of_head<S: RowElement>(
        &self,
        states: Global<S>,
        slot: Reg<u32>,
        head: Reg<u32>,
    ) -> Global<S> {
        let head = slot.convert::<u64>() * u64::from(self.value_heads) + head.convert::<u64>();
        states.at(head * u64::from(self.key_dim * self.value_dim))
    }

    /// The filter of a column.
    #[track_caller]
    pub(super) fn filter<T: RowElement>(&self, weights: Global<T>, column: Reg<u32>) -> Vec<Reg<f32>> {
        (0..self.width).map(|at| weights.at(column * self.width + at).load().convert::<f32>()).collect()
    }

    /// The tokens of a column before the first one.
    #[track_caller]
    pub(super) fn window<T: RowElement>(&self, from: Global<T>, has_zeros: Reg<bool>) -> Vec<Reg<f32>> {
        let load = |at: u32| from.at(at * self.columns()).load().convert::<f32>();
        (0..self.width - 1).map(|at| has_zeros.select(constant(0f32), load(at))).collect()
    }

    /// Stores the tokens of a column.
    #[track_caller]
    pub(super) fn store<T: RowElement>(&self, to: Global<T>, window: &[Reg<f32>]) {
        for (at, value) in window.iter().enumerate() {
            to.at(at as u32 * self.columns()).store(value.convert::<T>());
        }
    }
}

/// SiLU of the filter's sum over the tokens before and the newest one.
#[track_caller]
pub(super) fn convolved(window: &[Reg<f32>], newest: Reg<f32>, filter: &[Reg<f32>]) -> Reg<f32> {
    let tokens = window.iter().chain([&newest]).zip(filter);
    tokens.fold(constant(0f32), |sum, (x, weight)| x.mul_add(*weight, sum)).silu()
}

/// The tokens before the next one.
pub(super) fn moved(window: &[Reg<f32>], newest: Reg<f32>) -> Vec<Reg<f32>> {
    window[1..].iter().copied().chain([newest]).collect()
}
