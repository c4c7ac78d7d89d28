//! The experts of each token: a warp has a token, and its lanes have the logits.
//!
//! The highest logit is found as an integer in the order of logits, by one reduction over the warp,
//! and then taken out, k times. The lane of a choice's number keeps the expert and its weight.

use warpwright::lang::warp::{reduce_min, vote_any};
use warpwright::prelude::*;

use crate::moe::problem::Scoring;
use crate::rows::{Chunk, RowElement};
use crate::sampling::{key_of, logit_of};
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) experts: u32,
    pub(crate) choices: u32,
    pub(crate) scoring: Scoring,
    pub(crate) renormalizes: bool,
    /// Elements of a vector.
    pub(crate) lanes: u32,
}

/// Tokens of a CTA.
pub(crate) const TOKENS: u32 = 4;

/// The key of a NaN, below those of all numbers. An expert that was taken has key 0.
const NOT_A_NUMBER: u32 = 1;

impl Route {
    /// `lanes` elements of a vector at most, and no more than give each lane one.
    pub(crate) fn lanes(experts: u32, widest: u32) -> u32 {
        let of_lane = experts.div_ceil(32);
        widest.min(of_lane.next_power_of_two())
    }

    /// `logits` are (tokens, experts); `experts` and `weights` are (tokens, choices).
    #[kernel]
    pub(crate) fn run<T: RowElement>(
        &self,
        logits: &Global<T>,
        experts: &mut Global<u32>,
        weights: &mut Global<f32>,
        tokens: u32,
        scale: f32,
    ) {
        launch::threads(32 * TOKENS);
        let lane = lane_id();
        let token = block_idx().x * TOKENS + thread_idx().x / 32;
        let row = logits.at(token.min(tokens - 1).mul_wide(self.experts));
        // The logits of this lane, and their experts.
        let mut numbers = vec![];
        let mut values = vec![];
        for first in (0..self.experts).step_by(32 * self.lanes as usize) {
            let at = lane * self.lanes + first;
            let inside = at.lt(self.experts);
            let from = row.at(inside.select(at, 0u32));
            for (index, value) in
                Chunk::load(from, self.lanes, vector::read_once()).values().into_iter().enumerate()
            {
                numbers.push(inside.select(at + index as u32, u32::MAX));
                values.push(inside.select(value, f32::NEG_INFINITY));
            }
        }
        let maximum =
            warp::reduce_max(values.iter().fold(constant(f32::NEG_INFINITY), |most, x| most.max(*x)));
        // `max` leaves out a NaN, which makes the whole softmax NaN.
        let maximum = match self.scoring {
            Scoring::Softmax => {
                let has_nan = values.iter().fold(constant(false), |any, value| any | value.is_nan());
                vote_any(has_nan, u32::MAX).select(f32::NAN, maximum)
            }
            Scoring::Sigmoid => maximum,
        };
        let exponential = |logit: Reg<f32>| (logit - maximum).exp();
        let score = |logit: Reg<f32>| match self.scoring {
            Scoring::Softmax => exponential(logit),
            Scoring::Sigmoid => logit.sigmoid(),
        };
        let mut total = constant(1f32);
        if self.scoring == Scoring::Softmax && !self.renormalizes {
            let sum = values.iter().fold(constant(0f32), |sum, logit| sum + exponential(*logit));
            total = warp::reduce_sum(sum);
        }

        let mut keys: Vec<Reg<u32>> = values
            .iter()
            .zip(&numbers)
            .map(|(value, number)| {
                let key = value.is_nan().select(NOT_A_NUMBER, key_of(*value));
                number.ne(u32::MAX).select(key, 0u32)
            })
            .collect();
        let (mut chosen, mut weight) = (constant(0u32), constant(0f32));
        let mut sum = constant(0f32);
        for choice in 0..self.choices {
            let key = warp::reduce_max(keys.iter().fold(constant(0u32), |most, key| most.max(*key)));
            let mine = keys.iter().zip(&numbers).fold(constant(u32::MAX), |least, (own, number)| {
                own.eq(key).select(*number, u32::MAX).min(least)
            });
            let expert = reduce_min(mine);
            keys = keys
                .iter()
                .zip(&numbers)
                .map(|(own, number)| number.eq(expert).select(0u32, *own))
                .collect::<Vec<_>>();
            let logit = key.eq(NOT_A_NUMBER).select(f32::NAN, logit_of(key));
            let of_choice = score(logit);
            sum = sum + of_choice;
            chosen = lane.eq(choice).select(expert, chosen);
            weight = lane.eq(choice).select(of_choice, weight);
        }
        let divisor = if self.renormalizes { sum } else { total };
        if lane < self.choices && token < tokens {
            let at = token.mul_wide(self.choices);
            experts.at(at).at(lane).store(chosen);
            weights.at(at).at(lane).store(weight / divisor * scale);
        }
    }
}
