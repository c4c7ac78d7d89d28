//! Scores, and which keys a query sees.
//!
//! Query i of n is at position length - n + i. It sees the keys up to its position, of a window the
//! last `window` of these.

use warpwright::prelude::*;

use super::configuration::{CacheElement, DecodeAttention};
use super::schedule::Segment;

#[device]
impl DecodeAttention {
    /// Whether some query does not see some key of a box.
    pub(super) fn is_partial(&self, segment: &Segment, first_key: Reg<u32>, window: Reg<u32>) -> Reg<bool> {
        let ends = (first_key + (self.plan.box_keys + self.queries)).gt(segment.length + 1);
        if self.has_window { ends | (first_key + window).lt(segment.length) } else { ends }
    }

    /// Scales the scores to units of log2(e).
    pub(super) fn score(&self, scores: &mut Fragment<f32>, [scale, cap]: [Reg<f32>; 2]) {
        for i in 0..scores.len() {
            let mut score = scores.get(i) * scale;
            if self.has_softcap {
                // tanh(x) = 1 - 2 / (1 + e^2x), with 2 log2(e) in the scale: 2^-23 off at most, which
                // is relative to the cap.
                score = cap - (cap + cap) * fast::recip(fast::exp2(score) + 1.0);
            }
            scores.set(i, score);
        }
    }

    /// Minus infinity for the keys that a query does not see. Query i of n is at position length - n
    /// + i.
    pub(super) fn mask(
        &self,
        scores: &mut Fragment<f32>,
        at: &Coordinates,
        segment: &Segment,
        first_key: Reg<u32>,
        window: Reg<u32>,
    ) {
        for i in 0..scores.len() {
            let key = first_key + at.column(i) + self.queries;
            let position = segment.length + at.row(i) / self.heads.group();
            let mut is_seen = key.le(position);
            if self.has_window {
                is_seen = is_seen & (key + window).gt(position);
            }
            scores.set(i, is_seen.select(scores.get(i), f32::NEG_INFINITY));
        }
    }
}

/// Zeros for the values of keys that no query sees: the page may hold anything there, also NaN,
/// which a weight of 0 does not hide.
///
/// Of 16 keys, a thread has two neighbors and, in its next register, those 8 keys further.
#[device]
pub(super) fn clear_unseen<T: CacheElement>(v: &mut Fragment<T>, segment: &Segment, first_key: Reg<u32>) {
    let keys_of_step = v.slice((All, All, 0)).len();
    for i in (0..v.len()).step_by(2) {
        let key = first_key + lane_id() % 4 * 2 + (i / keys_of_step * 16 + i / 2 % 2 * 8);
        let [low, high] = [0, 1].map(|next| {
            let key = key + next;
            let is_seen = key.ge(segment.first_seen) & key.lt(segment.length);
            is_seen.select(v.get(i + next), T::ZERO)
        });
        v.set_pair(i, low, high);
    }
}
