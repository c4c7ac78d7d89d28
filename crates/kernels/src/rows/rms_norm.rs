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

use super::element::RowElement;
use super::plan::Plan;
use super::rounds::{Rounds, Turn};
use super::row::{Common, Row, Share, start};
use super::team::{Sum, Team};

/// What the weights multiply by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gain {
    /// w.
    Weight,
    /// 1 + w.
    ZeroCentred,
}

impl Gain {
    #[track_caller]
    fn of(self, weight: Reg<f32>) -> Reg<f32> {
        match self {
            Gain::Weight => weight,
            Gain::ZeroCentred => weight + 1.0,
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

/// 1 / sqrt(mean of squares + epsilon) of a row whose fill is 0.
#[track_caller]
fn reciprocal_root<T: RowElement>(row: &Row<T>, team: &mut Team, plan: Plan, epsilon: Reg<f32>) -> Reg<f32> {
    let squares = row.sum(|value| value * value);
    let [squares] = team.reduce(&Sum, [squares]);
    (squares * (1.0 / plan.columns as f32) + epsilon).rsqrt_approx()
}

impl RmsNorm {
    /// x and y are (rows, columns), row-major; w is (columns).
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        w: &Global<T>,
        y: &mut Global<U>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, gain, w, y) = (self.plan, self.gain, *w, *y);
        let team = Team::new(plan);
        let share = Share::new(plan, &team);
        let matrices = [*x];
        let rounds = Rounds::begin(plan, team, share, (&matrices, 0), rows);
        let common = Common::new(share, w);
        rounds.each(|Turn { team, index, wanted, row: x }| {
            let (y, w) = (start(y, index, plan.columns), common.row(false));
            let root = reciprocal_root(&x, team, plan, epsilon);
            x.for_each(|place, values| {
                let weights = w.at(place);
                let scaled: Vec<_> =
                    values.into_iter().zip(weights).map(|(x, w)| x * root * gain.of(w)).collect();
                share.store(y, place, wanted, &scaled);
            });
        });
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
    /// x, r, s = x + r and y are (rows, columns), row-major; w is (columns).
    #[kernel]
    pub fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        r: &Global<T>,
        w: &Global<T>,
        s: &mut Global<T>,
        y: &mut Global<T>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, gain, w, s, y) = (self.plan, self.gain, *w, *s, *y);
        let team = Team::new(plan);
        let share = Share::new(plan, &team);
        let matrices = [*x, *r];
        let rounds = Rounds::begin(plan, team, share, (&matrices, 0), rows);
        let common = Common::new(share, w);
        rounds.each(|Turn { team, index, wanted, row: sum }| {
            let (s, y) = (start(s, index, plan.columns), start(y, index, plan.columns));
            let w = common.row(false);
            sum.for_each(|place, values| share.store(s, place, wanted, &values));
            let root = reciprocal_root(&sum, team, plan, epsilon);
            sum.for_each(|place, values| {
                let weights = w.at(place);
                let scaled: Vec<_> =
                    values.into_iter().zip(weights).map(|(s, w)| s * root * gain.of(w)).collect();
                share.store(y, place, wanted, &scaled);
            });
        });
    }
}
