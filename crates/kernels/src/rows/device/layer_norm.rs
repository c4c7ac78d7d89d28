//! LayerNorm of rows.
//!
//! ```text
//! y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon) * w + b
//! ```
//!
//! The variance is the mean of squares around a mean: as the difference of two means it loses all
//! its digits where the mean is large. The mean of the row needs a reduction, and squares around it
//! a second one. So each warp takes its squares around its own mean, and what is merged, over warps
//! and CTAs, is the pair (sum, squares) (Chan, Golub and LeVeque):
//!
//! ```text
//! mean     = (sum 0 + sum 1 + ..) / columns
//! squares  = squares 0 + columns 0 * (mean 0 - mean)² + squares 1 + columns 1 * (mean 1 - mean)² + ..
//! ```

use warpwright::prelude::*;

use super::super::plan::Plan;
use super::chunk::RowElement;
use super::group::Group;
use super::merge::{Merge, Source, butterfly, pairwise};
use super::row::{Broadcast, Partition, Residency, start};
use super::row_loop::{RowLoop, WorkUnit};

/// A number of columns and its reciprocal; 0 and 1 for no columns.
#[derive(Clone, Copy)]
struct Columns {
    count: Reg<f32>,
    reciprocal: Reg<f32>,
}

impl Columns {
    #[track_caller]
    fn fixed(count: u32) -> Self {
        Self { count: constant(count as f32), reciprocal: constant(1.0 / count as f32) }
    }

    #[track_caller]
    fn of(count: Reg<u32>) -> Self {
        let count = count.convert::<f32>();
        Self { count, reciprocal: constant(1f32) / count.max(1f32) }
    }

    /// Of the part of a CTA.
    #[track_caller]
    fn of_cta(plan: Plan, cta: Reg<u32>) -> Self {
        let part = plan.part();
        if plan.ctas.is_power_of_two() && part * plan.ctas == plan.columns {
            return Self::fixed(part);
        }
        let first = (cta * part).min(plan.columns);
        Self::of((plan.columns - first).min(part))
    }

    /// Of the elements of a warp.
    #[track_caller]
    fn of_warp(plan: Plan, partition: Partition, warp: Reg<u32>) -> Self {
        let (width, stride, warps) = (plan.lanes * 32, plan.lanes * plan.threads, plan.threads / 32);
        let whole = plan.part().is_multiple_of(stride) && plan.part() * plan.ctas == plan.columns;
        if whole && warps.is_power_of_two() {
            return Self::fixed(plan.part() / warps);
        }
        let columns = partition.columns();
        let rest = columns % stride;
        let of_rest = (rest - rest.min(warp * width)).min(width);
        Self::of(warp.lt(warps).select(columns / stride * width + of_rest, 0))
    }
}

/// Merges pairs (sum, squares around the mean). A merge needs the columns of each pair.
struct Moments {
    /// Of this thread's warp, and of the warp with its lane's index.
    own_warp: Columns,
    warp: Option<Columns>,
    /// Of every 32nd CTA, from the one with its lane's index on.
    ctas: Vec<Columns>,
    own_cta: Columns,
    of_row: f32,
}

impl Moments {
    #[track_caller]
    fn new(plan: Plan, partition: Partition, group: &Group) -> Self {
        let own_cta = Columns::of_cta(plan, group.cta);
        let warps = plan.threads / 32;
        let lanes = plan.ctas.next_power_of_two().min(32);
        let cta = |first| Columns::of_cta(plan, lane_id() % lanes + first);
        let of_warp = |warp| Columns::of_warp(plan, partition, warp);
        Self {
            own_warp: if warps > 1 { of_warp(group.rank / 32) } else { own_cta },
            warp: (warps > 1).then(|| of_warp(lane_id() % warps.next_power_of_two())),
            ctas: (0..plan.ctas).step_by(32).map(cta).collect(),
            own_cta,
            of_row: 1.0 / plan.columns as f32,
        }
    }
}

impl Merge<2> for Moments {
    const NEUTRAL: [f32; 2] = [0.0; 2];

    #[track_caller]
    fn over_lanes(&self, pairs: &[[Reg<f32>; 2]], lanes: u32, source: Source) -> [Reg<f32>; 2] {
        let (columns, reciprocal) = match (source, &self.warp) {
            (Source::Cta, _) => (&self.ctas[..], constant(self.of_row)),
            (Source::Warp, Some(warp)) => (std::slice::from_ref(warp), self.own_cta.reciprocal),
            _ => unreachable!("a warp takes its squares around its own mean"),
        };
        let sums: Vec<_> = pairs.iter().map(|[sum, _]| *sum).collect();
        let of_all = butterfly(pairwise(&sums, |a, b| a + b), lanes, |a, b| a + b);
        let mean = of_all * reciprocal;
        let around_mean = |([sum, squares], columns): (&[Reg<f32>; 2], &Columns)| {
            let apart = *sum * columns.reciprocal - mean;
            (apart * apart).mul_add(columns.count, *squares)
        };
        let squares: Vec<_> = pairs.iter().zip(columns).map(around_mean).collect();
        [of_all, butterfly(pairwise(&squares, |a, b| a + b), lanes, |a, b| a + b)]
    }
}

/// LayerNorm of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerNorm {
    /// Which threads share a row.
    pub plan: Plan,
}

impl LayerNorm {
    /// x and y are (rows, columns), row-major; w and b are (columns). `workspace` is for reductions
    /// over a grid.
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        w: &Global<T>,
        b: &Global<T>,
        y: &mut Global<U>,
        workspace: &mut Global<u64>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, w, b, y) = (self.plan, *w, *b, *y);
        let row_loop = RowLoop::begin(plan, (&[*x], 0), rows, workspace);
        let RowLoop { group, partition, .. } = row_loop;
        let broadcasts = [w, b].map(|row| Broadcast::new(partition, row));
        let moments = Moments::new(plan, partition, &group);
        let gather = |unit: &WorkUnit<T>| {
            let sum = butterfly(unit.row.sum(|sum, value| sum + value), group.lanes(), |a, b| a + b);
            let middle = sum * moments.own_warp.reciprocal;
            let squares = unit.row.sum(|sum, value| {
                let left = value - middle;
                left.mul_add(left, sum)
            });
            let squares = butterfly(squares, group.lanes(), |a, b| a + b);
            (unit.group.reduce_warps(&moments, [sum, squares]), ())
        };
        row_loop.run(&moments, gather, |unit, [sum, squares], _| {
            let y = start(y, unit.index, plan.columns);
            // In registers they would spill others.
            let [w, b] = broadcasts.map(|broadcast| broadcast.row(Residency::Memory));
            let mean = sum * moments.of_row;
            let root = (squares * moments.of_row + epsilon).rsqrt_approx();
            // (x - mean) * root in one instruction, whose error is at most that of the rounded
            // mean.
            let shift = -(mean * root);
            unit.row.for_each(|position, values| {
                let (weights, biases) = (w.at(position), b.at(position));
                let scaled: Vec<_> = values
                    .into_iter()
                    .zip(weights.into_iter().zip(biases))
                    .map(|(x, (w, b))| x.mul_add(root, shift).mul_add(w, b))
                    .collect();
                partition.store(y, position, unit.valid, &scaled);
            });
        });
    }
}
