//! Functions of the scores, before the softmax.
//!
//! A function is a closure over device values, from a scaled score and the pair that it belongs to,
//! to a score; small ones compose.
//! [`Operations::attention_with`](crate::operations::Operations::attention_with) takes one.

use warpwright::prelude::*;

/// The query and the key of a score.
#[derive(Clone, Copy, DeviceValue)]
pub struct Pair {
    /// The sequence and the head of Q.
    pub sequence: Reg<u32>,
    /// The head of Q.
    pub head: Reg<u32>,
    /// The query.
    pub query: Reg<u32>,
    /// The key; past the sequence's last where a block reaches past it.
    pub key: Reg<i32>,
    /// The key at the query's own position: the last query is at the last key.
    pub position: Reg<i32>,
}

/// The function of a score. Any closure of that form is one.
pub trait ScoreOp {
    /// The score whose exponential is the weight of a pair.
    #[track_caller]
    fn apply(&self, score: Reg<f32>, pair: Pair) -> Reg<f32>;

    /// This function, then `next`.
    fn then(self, next: impl ScoreOp) -> impl ScoreOp
    where
        Self: Sized,
    {
        move |score: Reg<f32>, pair: Pair| next.apply(self.apply(score, pair), pair)
    }
}

impl<F: Fn(Reg<f32>, Pair) -> Reg<f32>> ScoreOp for F {
    #[track_caller]
    fn apply(&self, score: Reg<f32>, pair: Pair) -> Reg<f32> {
        self(score, pair)
    }
}

/// Softcap: bound · tanh(score / bound).
pub fn capped(bound: Reg<f32>) -> impl ScoreOp {
    let exponent = fast::recip(bound) * (2.0 * std::f32::consts::LOG2_E);
    move |score: Reg<f32>, _: Pair| {
        // tanh(x) = 1 - 2 / (exp(2 x) + 1): `tanh.approx` is off by 2^-11.
        let twice = fast::recip(fast::exp2(score * exponent) + 1.0) * 2.0;
        bound - bound * twice
    }
}

/// ALiBi: less the slope of the head times the distance from the query's position to the key.
pub fn biased_by_distance(slopes: Global<f32>) -> impl ScoreOp {
    move |score: Reg<f32>, pair: Pair| {
        let distance = (pair.position - pair.key).abs().convert::<f32>();
        score - slopes.at(pair.head).load_read_only() * distance
    }
}
