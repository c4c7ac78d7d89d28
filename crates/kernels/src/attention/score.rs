//! Functions of the scores, before the softmax.
//!
//! A function is a closure over device values, from a scaled score and the pair that it belongs to,
//! to a score; small ones compose.
//! [`Operations::attention_with`](crate::operations::Operations::attention_with) takes one. With its
//! derivative it is [`differentiable`], and
//! [`Operations::attention_gradients_with`](crate::operations::Operations::attention_gradients_with)
//! takes it too.

use std::hash::{Hash, Hasher};

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
    fn then<N: ScoreOp>(self, next: N) -> Then<Self, N>
    where
        Self: Sized,
    {
        Then { first: self, next }
    }
}

/// The function of a score, with its derivative.
#[diagnostic::on_unimplemented(
    message = "the function of scores `{Self}` has no derivative",
    label = "gradients need the derivative of the function",
    note = "pass `score::differentiable(|score, pair| ..)`, whose closure returns the score and its derivative"
)]
pub trait DifferentiableScoreOp: ScoreOp {
    /// The score, and its derivative with respect to the score that is passed.
    #[track_caller]
    fn differentiate(&self, score: Reg<f32>, pair: Pair) -> (Reg<f32>, Reg<f32>);
}

impl<F: Fn(Reg<f32>, Pair) -> Reg<f32>> ScoreOp for F {
    #[track_caller]
    fn apply(&self, score: Reg<f32>, pair: Pair) -> Reg<f32> {
        self(score, pair)
    }
}

/// The score as it is.
impl ScoreOp for () {
    fn apply(&self, score: Reg<f32>, _: Pair) -> Reg<f32> {
        score
    }
}

impl DifferentiableScoreOp for () {
    #[track_caller]
    fn differentiate(&self, score: Reg<f32>, _: Pair) -> (Reg<f32>, Reg<f32>) {
        (score, constant(1.0))
    }
}

/// A function, then another: [`ScoreOp::then`].
#[derive(Clone, Copy, Debug)]
pub struct Then<A, B> {
    first: A,
    next: B,
}

impl<A: ScoreOp, B: ScoreOp> ScoreOp for Then<A, B> {
    #[track_caller]
    fn apply(&self, score: Reg<f32>, pair: Pair) -> Reg<f32> {
        self.next.apply(self.first.apply(score, pair), pair)
    }
}

impl<A: DifferentiableScoreOp, B: DifferentiableScoreOp> DifferentiableScoreOp for Then<A, B> {
    #[track_caller]
    fn differentiate(&self, score: Reg<f32>, pair: Pair) -> (Reg<f32>, Reg<f32>) {
        let (score, inner) = self.first.differentiate(score, pair);
        let (score, outer) = self.next.differentiate(score, pair);
        (score, inner * outer)
    }
}

/// A closure that returns the score and its derivative.
#[derive(Clone, Copy, Debug)]
pub struct Differentiable<F>(F);

/// The function of a closure that returns the score and its derivative with respect to the score that
/// it gets.
///
/// ```
/// # use warpwright::prelude::*;
/// # use warpwright_kernels::attention::score::{self, Pair};
/// // score + score² / 64
/// let square = score::differentiable(|score: Reg<f32>, _: Pair| {
///     (score * score / 64.0 + score, score / 32.0 + 1.0)
/// });
/// ```
pub fn differentiable<F: Fn(Reg<f32>, Pair) -> (Reg<f32>, Reg<f32>)>(function: F) -> Differentiable<F> {
    Differentiable(function)
}

impl<F: Fn(Reg<f32>, Pair) -> (Reg<f32>, Reg<f32>)> ScoreOp for Differentiable<F> {
    #[track_caller]
    fn apply(&self, score: Reg<f32>, pair: Pair) -> Reg<f32> {
        (self.0)(score, pair).0
    }
}

impl<F: Fn(Reg<f32>, Pair) -> (Reg<f32>, Reg<f32>)> DifferentiableScoreOp for Differentiable<F> {
    #[track_caller]
    fn differentiate(&self, score: Reg<f32>, pair: Pair) -> (Reg<f32>, Reg<f32>) {
        (self.0)(score, pair)
    }
}

/// Softcap: bound · tanh(score / bound).
pub fn capped(bound: Reg<f32>) -> impl DifferentiableScoreOp {
    let exponent = fast::recip(bound) * (2.0 * std::f32::consts::LOG2_E);
    differentiable(move |score: Reg<f32>, _: Pair| {
        // tanh(x) = 1 - 2 / (exp(2 x) + 1): `tanh.approx` is off by 2^-11.
        let twice = fast::recip(fast::exp2(score * exponent) + 1.0) * 2.0;
        // 1 - tanh², with 1 - tanh = `twice`.
        (bound - bound * twice, twice * (2.0 - twice))
    })
}

/// ALiBi: less the slope of the head times the distance from the query's position to the key.
pub fn biased_by_distance(slopes: Global<f32>) -> impl DifferentiableScoreOp {
    differentiable(move |score: Reg<f32>, pair: Pair| {
        let distance = (pair.position - pair.key).abs().convert::<f32>();
        (score - slopes.at(pair.head).load() * distance, constant(1.0))
    })
}

/// The function of an attention with a bound, with slopes, or with both.
pub(crate) fn of_attention(
    bound: Option<Reg<f32>>,
    slopes: Option<Global<f32>>,
) -> Option<Box<dyn DifferentiableScoreOp>> {
    match (bound, slopes) {
        (None, None) => None,
        (Some(bound), None) => Some(Box::new(capped(bound))),
        (None, Some(slopes)) => Some(Box::new(biased_by_distance(slopes))),
        (Some(bound), Some(slopes)) => Some(Box::new(capped(bound).then(biased_by_distance(slopes)))),
    }
}

/// A kernel, and the function of the scores if it is a closure: its type identifies it.
#[derive(Clone, Copy)]
pub(crate) struct AttentionKernel<K, S> {
    pub(crate) kernel: K,
    pub(crate) score: Option<S>,
}

impl<K, S: ScoreOp> AttentionKernel<K, S> {
    /// The closure, or the function of the attention's bound and slopes.
    pub(crate) fn score_or<'s>(&'s self, of_attention: Option<&'s dyn ScoreOp>) -> Option<&'s dyn ScoreOp> {
        self.score.as_ref().map(|score| score as &dyn ScoreOp).or(of_attention)
    }
}

impl<K, S: DifferentiableScoreOp> AttentionKernel<K, S> {
    /// As [`score_or`](Self::score_or), with the derivative.
    pub(crate) fn differentiable_or<'s>(
        &'s self,
        of_attention: Option<&'s dyn DifferentiableScoreOp>,
    ) -> Option<&'s dyn DifferentiableScoreOp> {
        self.score.as_ref().map(|score| score as &dyn DifferentiableScoreOp).or(of_attention)
    }
}

impl<K: PartialEq, S> PartialEq for AttentionKernel<K, S> {
    fn eq(&self, other: &Self) -> bool {
        self.kernel == other.kernel
    }
}

impl<K: Eq, S> Eq for AttentionKernel<K, S> {}

impl<K: Hash, S> Hash for AttentionKernel<K, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kernel.hash(state);
    }
}
