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

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::prelude::*;

use super::super::plan::Plan;
use super::chunk::RowElement;
use super::merge::Sum;
use super::row::{Broadcast, Partition, Residency, start};
use super::row_loop::{RowLoop, WorkUnit};

/// What a normalized value is multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
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
    pub fn times(self, value: Reg<f32>, weight: Reg<f32>) -> Reg<f32> {
        match self {
            Gain::Weight => value * weight,
            Gain::ZeroCentred => value.mul_add(weight, value),
        }
    }
}

/// The CTA's sum of squares of a row.
#[track_caller]
fn squares<T: RowElement>(unit: &WorkUnit<T>) -> [Reg<f32>; 1] {
    unit.group.reduce_cta(&Sum, [unit.row.sum(|sum, value| value.mul_add(value, sum))])
}

/// What normalizes a row and stores it.
struct Normalizer<T, U> {
    partition: Partition,
    gain: Gain,
    weights: Broadcast<T>,
    y: Global<U>,
    epsilon: Reg<f32>,
}

impl<T: RowElement, U: RowElement> Normalizer<T, U> {
    /// Stores the normalized row, given the sum of its squares.
    #[track_caller]
    fn store(&self, unit: &WorkUnit<T>, squares: Reg<f32>) {
        let columns = self.partition.plan.columns;
        let (y, w) = (start(self.y, unit.index, columns), self.weights.row(Residency::Registers));
        let root = (squares * (1.0 / columns as f32) + self.epsilon).rsqrt_approx();
        unit.row.for_each(|position, values| {
            let weighted = values.into_iter().zip(w.at(position));
            let scaled: Vec<_> = weighted.map(|(x, w)| self.gain.times(x * root, w)).collect();
            self.partition.store(y, position, unit.valid, &scaled);
        });
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
        let row_loop = RowLoop::begin(self.plan, (&[*x], 0), rows, workspace);
        let (partition, gain) = (row_loop.partition, self.gain);
        let normalizer =
            Normalizer { partition, gain, weights: Broadcast::new(partition, *w), y: *y, epsilon };
        row_loop.run(&Sum, |unit| (squares(unit), ()), |unit, [squares], _| normalizer.store(unit, squares));
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
        let row_loop = RowLoop::begin(self.plan, (&[*x, *r], 0), rows, workspace);
        let (partition, gain, s) = (row_loop.partition, self.gain, *s);
        let normalizer =
            Normalizer { partition, gain, weights: Broadcast::new(partition, *w), y: *y, epsilon };
        let gather = |unit: &WorkUnit<T>| {
            let s = start(s, unit.index, self.plan.columns);
            unit.row.for_each(|position, values| partition.store(s, position, unit.valid, &values));
            (squares(unit), ())
        };
        row_loop.run(&Sum, gather, |unit, [squares], _| normalizer.store(unit, squares));
    }
}
