//! What becomes of a warpgroup's scores, Sᵀ or dPᵀ: their rows are keys, their columns queries.

use warpwright::prelude::*;

use super::unit::Unit;
use crate::attention::accumulator::{column_of, row_of};
use crate::attention::problem::{AttentionElement, MaskBounds};
use crate::attention::score::{DifferentiableScoreOp, Pair};

/// A block of queries: its number in its head, and in the unit; and its head of Q.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct QueryBlock {
    pub(super) in_head: Reg<u32>,
    pub(super) number: Reg<u32>,
    pub(super) head: Reg<u32>,
}

/// How the scores of a unit become weights.
#[derive(Clone, Copy)]
pub(super) struct Weighting<'k> {
    /// The function of the scores, with its derivative.
    pub(super) function: Option<&'k dyn DifferentiableScoreOp>,
    pub(super) mask: MaskBounds,
    /// Queries of a block.
    pub(super) rows: u32,
    pub(super) unit: Unit,
    /// The warpgroup's first key.
    pub(super) first_key: Reg<u32>,
}

#[device]
impl Weighting<'_> {
    /// A thread's part of the scores of a block. `thread` is its index in the warpgroup.
    pub(super) fn part(&self, thread: Reg<u32>, block: QueryBlock) -> ScorePart {
        let [queries, keys] = self.unit.problem.lengths.map(|length| length as i32);
        let first = (self.first_key + thread / 32 * 16 + thread % 32 / 4) as i32;
        let query = block.in_head * self.rows + thread % 4 * 2;
        let (sequence, head) = (self.unit.sequence, block.head);
        let position = query as i32 + (keys - queries);
        let pair = Pair { sequence, head, query, key: first, position };
        let window = self.unit.problem.window.map(|keys| keys as i32);
        ScorePart { keys: [first, first + 8], pair, count: keys, window, mask: self.mask }
    }

    /// Sᵀ becomes P, as operand A; and in `slopes`, if they are given, what dP is multiplied by to become
    /// the gradient of the scores: P, or P times the derivative of a function. P `stays` in the scores too.
    /// `masked`: some query does not see all keys.
    pub(super) fn weights<T: AttentionElement>(
        &self,
        scores: &mut Fragment<f32>,
        stays: bool,
        (part, masked): (ScorePart, bool),
        lse: impl Fn(u32) -> [Reg<f32>; 2],
        (weights, mut slopes): (&mut Fragment<T>, Option<&mut Fragment<T>>),
    ) {
        if let (Some(function), Some(slopes)) = (self.function, &mut slopes) {
            self.weights_by(function, scores, (part, masked), lse, (weights, slopes));
            return;
        }
        if masked {
            part.mask(scores);
        }
        let scale = self.unit.problem.scale * std::f32::consts::LOG2_E;
        for i in (0..scores.len()).step_by(4) {
            let lse = lse(i);
            let values = [0, 1, 2, 3].map(|j: u32| {
                let weight = fast::exp2(scores.get(i + j) * scale - lse[(j % 2) as usize]);
                if stays {
                    scores.set(i + j, weight);
                }
                weight
            });
            for (i, pair) in [(i, [values[0], values[1]]), (i + 2, [values[2], values[3]])] {
                let word = T::pack(pair[0], pair[1]);
                weights.set_word(i, word);
                if let Some(slopes) = &mut slopes {
                    slopes.set_word(i, word);
                }
            }
        }
    }

    /// The weights of a block's scores, by the function; and the weights times its derivative, with
    /// which dP becomes the gradient of the scores. `masked`: some query does not see all keys.
    fn weights_by<T: AttentionElement>(
        &self,
        function: &dyn DifferentiableScoreOp,
        scores: &Fragment<f32>,
        (part, masked): (ScorePart, bool),
        lse: impl Fn(u32) -> [Reg<f32>; 2],
        (weights, slopes): (&mut Fragment<T>, &mut Fragment<T>),
    ) {
        for i in (0..scores.len()).step_by(4) {
            let lse = lse(i);
            let pairs = [0, 1, 2, 3].map(|j: u32| {
                let (score, pair) = (scores.get(i + j) * self.unit.problem.scale, part.pair(i + j));
                let (score, derivative) = function.differentiate(score, pair);
                let weight = fast::exp2(score * std::f32::consts::LOG2_E - lse[(j % 2) as usize]);
                let values = [weight, weight * derivative];
                let sees = part.sees(pair);
                if masked { values.map(|value| sees.select(value, 0.0f32)) } else { values }
            });
            for (fragment, kind) in [(&mut *weights, 0), (&mut *slopes, 1)] {
                fragment.set_word(i, T::pack(pairs[0][kind], pairs[1][kind]));
                fragment.set_word(i + 2, T::pack(pairs[2][kind], pairs[3][kind]));
            }
        }
    }
}

/// The pairs of a thread's scores: the keys of its two rows, and the pair of its first score.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct ScorePart {
    keys: [Reg<i32>; 2],
    pair: Pair,
    /// The keys of the sequence, those that a query sees around its position, and the sides with a bound.
    count: Reg<i32>,
    window: [Reg<i32>; 2],
    mask: MaskBounds,
}

#[device]
impl ScorePart {
    /// The pair of element `i`.
    fn pair(self, i: u32) -> Pair {
        let Pair { query, position, .. } = self.pair;
        let (query, position) = (query + column_of(i), position + column_of(i) as i32);
        Pair { key: self.keys[row_of(i)], query, position, ..self.pair }
    }

    /// Minus infinity for the scores of pairs of a query and a key that it does not see.
    pub(super) fn mask(self, scores: &mut Fragment<f32>) {
        for i in 0..scores.len() {
            scores.set(i, self.sees(self.pair(i)).select(scores.get(i), f32::NEG_INFINITY));
        }
    }

    /// Whether the query of a pair sees the key.
    fn sees(self, pair: Pair) -> Reg<bool> {
        let [left, right] = self.window;
        let mut sees = pair.key.lt(self.count);
        if self.mask.right {
            sees &= pair.key.le(pair.position + right);
        }
        if self.mask.left {
            sees &= pair.key.ge(pair.position - left);
        }
        sees
    }
}

/// The values of two neighboring queries, from element `i` of the scores on.
pub(super) fn pair_of(
    values: &Tensor<f32, SharedSpace>,
    stage: Stage,
    thread: Reg<u32>,
    i: u32,
) -> [Reg<f32>; 2] {
    let quad = thread % 4 * 2;
    [0, 1].map(|j| values.get((quad + column_of(i + j), 0, stage)))
}

/// dSᵀ = P (dPᵀ - delta), as operand A of dK. P is in f32 if it is `kept`; of scores with a function it
/// is times the derivative.
#[device]
pub(super) fn score_gradients<T: AttentionElement>(
    dp: &Fragment<f32>,
    (kept, weights): (Option<&Fragment<f32>>, &Fragment<T>),
    delta: impl Fn(u32) -> [Reg<f32>; 2],
    ds: &mut Fragment<T>,
) {
    for i in (0..dp.len()).step_by(4) {
        let delta = delta(i);
        let weights = match kept {
            Some(kept) => [0, 1, 2, 3].map(|j: u32| kept.get(i + j)),
            None => {
                let [first, second] = [0, 2].map(|j: u32| T::unpack(weights.get_word(i + j)));
                [first[0], first[1], second[0], second[1]]
            }
        };
        let gradients =
            [0, 1, 2, 3].map(|j: u32| weights[j as usize] * (dp.get(i + j) - delta[(j % 2) as usize]));
        ds.set_word(i, T::pack(gradients[0], gradients[1]));
        ds.set_word(i + 2, T::pack(gradients[2], gradients[3]));
    }
}

/// Stores P or dSᵀ, in the layout of the accumulator of the scores, to their tile.
pub(super) fn store_scores<T: AttentionElement>(
    scores: &TiledMma,
    thread: Reg<u32>,
    values: &Fragment<T>,
    tile: &Tensor<T, SharedSpace>,
) {
    let copy = TiledCopy::from_c::<T>("SM90_U32x4_STSM_N", scores).thread(thread);
    copy.store_matrix(&copy.target(tile), &copy.retile(values));
}

/// An operand A in the layout of the accumulator whose elements it has.
pub(super) fn as_accumulator<T: AttentionElement>(
    operand: &Fragment<T>,
    accumulator: &Fragment<f32>,
) -> Fragment<T> {
    operand.map(|_| Ok(accumulator.layout().clone()))
}
