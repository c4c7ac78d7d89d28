//! RMSNorm of rows, alone and fused with the residual addition before it.
//!
//! ```text
//! y = s / sqrt(mean(s²) + epsilon) * g
//! s = x                    g = w          RMSNorm
//! s = x + r, also written  g = 1 + w      the fused, zero-centred one of Qwen 3.5: weights are stored around 0
//! ```
//!
//! s is rounded to its type before its squares are summed, so that what is normalised is what the next layer reads.

use warpwright::prelude::*;
use warpwright_harness::OptionValue;

use super::element::RowElement;
use super::plan::Plan;
use super::rounds::{Rounds, Turn};
use super::row::{Common, Share, start};
use super::team::{Sum, Team};

/// What the weights multiply by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum Gain {
    /// 1 + w.
    #[default]
    ZeroCentred,
    /// w.
    Weight,
}

impl Gain {
    /// A normalised value times the gain.
    #[track_caller]
    fn times(self, value: Reg<f32>, weight: Reg<f32>) -> Reg<f32> {
        match self {
            Gain::Weight => value * weight,
            Gain::ZeroCentred => value.mul_add(weight, value),
        }
    }
}

/// RMSNorm of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RmsNorm {
    /// Who shares a row.
    pub plan: Plan,
    /// What the weights multiply by.
    pub gain: Gain,
}

/// The CTA's sum of squares of a row whose fill is 0.
#[track_caller]
fn squares<T: RowElement>(turn: &Turn<T>) -> [Reg<f32>; 1] {
    turn.team.reduce_cta(&Sum, [turn.row.sum(|sum, value| value.mul_add(value, sum))])
}

/// 1 / sqrt(mean of squares + epsilon).
#[track_caller]
fn reciprocal_root(squares: Reg<f32>, plan: Plan, epsilon: Reg<f32>) -> Reg<f32> {
    (squares * (1.0 / plan.columns as f32) + epsilon).rsqrt_approx()
}

impl RmsNorm {
    /// x and y are (rows, columns), row-major; w is (columns). `exchange` is as in [`Softmax`](super::Softmax::run).
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        w: &Global<T>,
        y: &mut Global<U>,
        exchange: &mut Global<u64>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, gain, w, y) = (self.plan, self.gain, *w, *y);
        let team = Team::new(plan, exchange);
        let share = Share::new(plan, &team);
        let matrices = [*x];
        let rounds = Rounds::begin(plan, team, share, (&matrices, 0), rows);
        let common = Common::new(share, w);
        rounds.each(
            &Sum,
            |turn| (squares(turn), ()),
            |turn, [squares], _| {
                let (y, w) = (start(y, turn.index, plan.columns), common.row(false));
                let root = reciprocal_root(squares, plan, epsilon);
                turn.row.for_each(|place, values| {
                    let weights = w.at(place);
                    let scaled: Vec<_> =
                        values.into_iter().zip(weights).map(|(x, w)| gain.times(x * root, w)).collect();
                    share.store(y, place, turn.wanted, &scaled);
                });
            },
        );
    }
}

/// A residual addition, and RMSNorm of each row of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddRmsNorm {
    /// Who shares a row.
    pub plan: Plan,
    /// What the weights multiply by.
    pub gain: Gain,
}

impl AddRmsNorm {
    /// x, r, s = x + r and y are (rows, columns), row-major; w is (columns). `exchange` is as in [`Softmax`](super::Softmax::run).
    #[kernel]
    pub fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        r: &Global<T>,
        w: &Global<T>,
        s: &mut Global<T>,
        y: &mut Global<T>,
        exchange: &mut Global<u64>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, gain, w, s, y) = (self.plan, self.gain, *w, *s, *y);
        let team = Team::new(plan, exchange);
        let share = Share::new(plan, &team);
        let matrices = [*x, *r];
        let rounds = Rounds::begin(plan, team, share, (&matrices, 0), rows);
        let common = Common::new(share, w);
        let gather = |turn: &Turn<T>| {
            let s = start(s, turn.index, plan.columns);
            turn.row.for_each(|place, values| share.store(s, place, turn.wanted, &values));
            (squares(turn), ())
        };
        rounds.each(&Sum, gather, |turn, [squares], _| {
            let (y, w) = (start(y, turn.index, plan.columns), common.row(false));
            let root = reciprocal_root(squares, plan, epsilon);
            turn.row.for_each(|place, values| {
                let weights = w.at(place);
                let scaled: Vec<_> =
                    values.into_iter().zip(weights).map(|(s, w)| gain.times(s * root, w)).collect();
                share.store(y, place, turn.wanted, &scaled);
            });
        });
    }
}
