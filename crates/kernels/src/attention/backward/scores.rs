//! What becomes of a warpgroup's scores, Sᵀ or dPᵀ: their rows are keys, their columns queries.

use warpwright::layout::ComposedLayout;
use warpwright::prelude::*;

use super::range::BackwardProblem;
use crate::attention::accumulator::{column_of, row_of};
use crate::attention::problem::{AttentionElement, MaskBounds};

/// A thread's part of scores: its index in the warpgroup, and the first key and the first query.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct ScorePart {
    pub(super) thread: Reg<u32>,
    pub(super) first_key: Reg<u32>,
    pub(super) first_query: Reg<u32>,
}

#[device]
impl ScorePart {
    /// Minus infinity for the scores of pairs of a query and a key that it does not see.
    pub(super) fn mask(self, scores: &mut Fragment<f32>, mask: MaskBounds, problem: BackwardProblem) {
        let [queries, keys] = problem.lengths.map(|length| length as i32);
        let [left, right] = problem.window.map(|keys| keys as i32);
        let first = (self.first_key + self.thread / 32 * 16 + self.thread % 32 / 4) as i32;
        let key = [first, first + 8];
        let position = (self.first_query + self.thread % 4 * 2) as i32 + (keys - queries);
        for i in 0..scores.len() {
            let (key, position) = (key[row_of(i)], position + column_of(i) as i32);
            let mut sees = key.lt(keys);
            if mask.right {
                sees &= key.le(position + right);
            }
            if mask.left {
                sees &= key.ge(position - left);
            }
            scores.set(i, sees.select(scores.get(i), f32::NEG_INFINITY));
        }
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

/// dSᵀ = P (dPᵀ - delta), as operand A of dK. P is in f32 if it is `kept`.
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

/// Stores P or dSᵀ, operand A of a product, to the tile of the scores, whose accumulator has the
/// layout.
pub(super) fn store_operand<T: AttentionElement>(
    scores: &TiledMma,
    thread: Reg<u32>,
    (operand, accumulator): (&Fragment<T>, &ComposedLayout),
    tile: &Tensor<T, SharedSpace>,
) {
    let copy = TiledCopy::from_c::<T>("SM90_U32x4_STSM_N", scores).thread(thread);
    let operand = operand.map(|_| Ok(accumulator.clone()));
    copy.store_matrix(&copy.target(tile), &copy.retile(&operand));
}
