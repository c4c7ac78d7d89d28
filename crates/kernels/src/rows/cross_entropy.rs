//! Cross-entropy of rows of logits against one target a row.
//!
//! ```text
//! loss = log(sum(exp(x))) - x[target]
//! ```
//!
//! A row whose target is [`IGNORED`] has the loss 0. Any other target outside the row makes the loss NaN.

use warpwright::prelude::*;

use super::element::RowElement;
use super::plan::Plan;
use super::rounds::Rounds;
use super::row::{Share, start};
use super::softmax::{LogSum, log_sum};
use super::team::Team;

/// The target of rows that do not count.
pub const IGNORED: i64 = -100;

/// Cross-entropy of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossEntropy {
    /// Who shares a row.
    pub plan: Plan,
}

impl CrossEntropy {
    /// x is (rows, columns), row-major; targets and losses are (rows). `exchange` is as in [`Softmax`](super::Softmax::run).
    #[kernel]
    pub fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        targets: &Global<i64>,
        losses: &mut Global<f32>,
        exchange: &mut Global<u64>,
        rows: u32,
    ) {
        let (plan, matrix, targets, losses) = (self.plan, *x, *targets, *losses);
        let team = Team::new(plan, exchange);
        let share = Share::new(plan, &team);
        let matrices = [matrix];
        let input = (&matrices[..], T::NEGATIVE_INFINITIES);
        let rounds = Rounds::begin(plan, team, share, input, rows);
        rounds.each(
            &LogSum,
            |turn| (log_sum(turn), ()),
            |turn, [maximum, sum], _| {
                let (index, wanted) = (turn.index, turn.wanted);
                let is_first = team.cta.eq(0u32) & team.rank.eq(0u32);
                if wanted.map_or(is_first, |wanted| wanted & is_first) {
                    let target = targets.at(index).load();
                    let mut loss = constant(f32::NAN).duplicate();
                    if target == IGNORED {
                        loss = constant(0f32);
                    } else if target >= 0 && target < i64::from(plan.columns) {
                        loss = maximum + sum.lg2_approx() * std::f32::consts::LN_2
                            - element(start(matrix, index, plan.columns), target);
                    }
                    losses.at(index).store(loss);
                }
            },
        );
    }
}

/// One element of a row, in f32.
#[track_caller]
fn element<T: RowElement>(row: Global<T>, column: Reg<i64>) -> Reg<f32> {
    super::element::Chunk::load(row.at(column), 1, Access::new()).values()[0]
}
