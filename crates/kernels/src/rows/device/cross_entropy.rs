//! Cross-entropy of rows of logits with one target per row.
//!
//! ```text
//! loss = log(sum(exp(x))) - x[target]
//! ```
//!
//! A row whose target is [`IGNORED`] has the loss 0. Any other target outside the row makes the
//! loss NaN.

use warpwright::prelude::*;

use super::super::plan::Plan;
use super::chunk::{Chunk, RowElement};
use super::row::start;
use super::row_loop::RowLoop;
use super::softmax::{LogSum, log_sum};

/// The target of rows that are ignored.
pub const IGNORED: i64 = -100;

/// Cross-entropy of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossEntropy {
    /// Which threads share a row.
    pub plan: Plan,
}

impl CrossEntropy {
    /// x is (rows, columns), row-major; targets and losses are (rows). `workspace` is for
    /// reductions over a grid.
    #[kernel]
    pub fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        targets: &Global<i64>,
        losses: &mut Global<f32>,
        workspace: &mut Global<u64>,
        rows: u32,
    ) {
        let (plan, matrix, targets, losses) = (self.plan, *x, *targets, *losses);
        let row_loop = RowLoop::begin(plan, (&[matrix], T::NEGATIVE_INFINITIES), rows, workspace);
        let group = row_loop.group;
        row_loop.run(
            &LogSum,
            |unit| (log_sum(unit), ()),
            |unit, [maximum, sum], _| {
                let (index, valid) = (unit.index, unit.valid);
                let is_first = group.cta.eq(0u32) & group.rank.eq(0u32);
                if valid.map_or(is_first, |valid| valid & is_first) {
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
    Chunk::load(row.at(column), 1, Access::new()).values()[0]
}
