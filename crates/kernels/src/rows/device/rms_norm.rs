//! RMSNorm of rows, alone and fused with the residual addition before it.
//!
//! ```text
//! y = s / sqrt(mean(s²) + epsilon) * g
//! s = x                    g = w          RMSNorm
//! s = x + r, also written  g = 1 + w      the fused, zero-centred form of Qwen 3.5: weights are stored around 0
//! ```
//!
//! s is rounded to its type before its squares are summed: what is normalized is what the next
//! layer reads.

use warpwright::prelude::*;
use warpwright_harness::OptionValue;

use super::super::plan::Plan;
use super::chunk::RowElement;
use super::group::Group;
use super::merge::Sum;
use super::row::{Broadcast, Partition, start};
use super::row_loop::{RowLoop, WorkUnit};

/// What a normalized value is multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum Gain {
    /// 1 + w.
    #[default]
    ZeroCentred,
    /// w.
    Weight,
}

impl Gain {
    /// A normalized value times the gain.
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
    /// Which threads share a row.
    pub plan: Plan,
    /// The gain.
    pub gain: Gain,
}

/// The CTA's sum of squares of a row.
#[track_caller]
fn squares<T: RowElement>(unit: &WorkUnit<T>) -> [Reg<f32>; 1] {
    unit.group.reduce_cta(&Sum, [unit.row.sum(|sum, value| value.mul_add(value, sum))])
}

/// 1 / sqrt(mean of squares + epsilon).
#[track_caller]
fn reciprocal_root(squares: Reg<f32>, plan: Plan, epsilon: Reg<f32>) -> Reg<f32> {
    (squares * (1.0 / plan.columns as f32) + epsilon).rsqrt_approx()
}

impl RmsNorm {
    /// x and y are (rows, columns), row-major; w is (columns). `workspace` is for
    /// reductions over a grid.
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        w: &Global<T>,
        y: &mut Global<U>,
        workspace: &mut Global<u64>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, gain, w, y) = (self.plan, self.gain, *w, *y);
        let group = Group::new(plan, workspace);
        let partition = Partition::new(plan, &group);
        let matrices = [*x];
        let row_loop = RowLoop::begin(plan, group, partition, (&matrices, 0), rows);
        let broadcast = Broadcast::new(partition, w);
        row_loop.run(
            &Sum,
            |unit| (squares(unit), ()),
            |unit, [squares], _| {
                let (y, w) = (start(y, unit.index, plan.columns), broadcast.row(false));
                let root = reciprocal_root(squares, plan, epsilon);
                unit.row.for_each(|position, values| {
                    let weights = w.at(position);
                    let scaled: Vec<_> =
                        values.into_iter().zip(weights).map(|(x, w)| gain.times(x * root, w)).collect();
                    partition.store(y, position, unit.valid, &scaled);
                });
            },
        );
    }
}

/// A residual addition, and RMSNorm of each row of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddRmsNorm {
    /// Which threads share a row.
    pub plan: Plan,
    /// The gain.
    pub gain: Gain,
}

impl AddRmsNorm {
    /// x, r, s = x + r and y are (rows, columns), row-major; w is (columns). `workspace` is for
    /// reductions over a grid.
    #[kernel]
    pub fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        r: &Global<T>,
        w: &Global<T>,
        s: &mut Global<T>,
        y: &mut Global<T>,
        workspace: &mut Global<u64>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, gain, w, s, y) = (self.plan, self.gain, *w, *s, *y);
        let group = Group::new(plan, workspace);
        let partition = Partition::new(plan, &group);
        let matrices = [*x, *r];
        let row_loop = RowLoop::begin(plan, group, partition, (&matrices, 0), rows);
        let broadcast = Broadcast::new(partition, w);
        let gather = |unit: &WorkUnit<T>| {
            let s = start(s, unit.index, plan.columns);
            unit.row.for_each(|position, values| partition.store(s, position, unit.valid, &values));
            (squares(unit), ())
        };
        row_loop.run(&Sum, gather, |unit, [squares], _| {
            let (y, w) = (start(y, unit.index, plan.columns), broadcast.row(false));
            let root = reciprocal_root(squares, plan, epsilon);
            unit.row.for_each(|position, values| {
                let weights = w.at(position);
                let scaled: Vec<_> =
                    values.into_iter().zip(weights).map(|(s, w)| gain.times(s * root, w)).collect();
                partition.store(y, position, unit.valid, &scaled);
            });
        });
    }
}
