//! LayerNorm of rows.
//!
//! ```text
//! y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon) * w + b
//! ```
//!
//! The variance is the mean of squares of what is left after a mean is known: as the difference of two means it loses all its digits
//! where the mean is large. But the row's mean is known only when all threads have met, and they would have to meet again for the squares. So
//! each warp takes its squares around its own mean, and what is merged, of warps and of CTAs, is the pair (sum, squares), as Chan, Golub and LeVeque
//! have it:
//!
//! ```text
//! mean     = (sum 0 + sum 1 + ..) / columns
//! squares  = squares 0 + columns 0 * (mean 0 - mean)² + squares 1 + columns 1 * (mean 1 - mean)² + ..
//! ```

use warpwright::prelude::*;

use super::element::RowElement;
use super::plan::Plan;
use super::rounds::{Rounds, Turn};
use super::row::{Common, Share, pairwise, start};
use super::team::{Merge, Part, Team, butterfly};

/// How many columns something has, and the reciprocal: 0 and 1 where it has none.
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

    /// Of a CTA's part of a row.
    #[track_caller]
    fn of_cta(plan: Plan, cta: Reg<u32>) -> Self {
        let part = plan.part();
        if plan.ctas.is_power_of_two() && part * plan.ctas == plan.columns {
            return Self::fixed(part);
        }
        let first = (cta * part).min(plan.columns);
        Self::of((plan.columns - first).min(part))
    }

    /// Of what a warp's lanes have of their CTA's part.
    #[track_caller]
    fn of_warp(plan: Plan, share: Share, warp: Reg<u32>) -> Self {
        let (width, stride, warps) = (plan.lanes * 32, plan.lanes * plan.threads, plan.threads / 32);
        let whole = plan.part().is_multiple_of(stride) && plan.part() * plan.ctas == plan.columns;
        if whole && warps.is_power_of_two() {
            return Self::fixed(plan.part() / warps);
        }
        let columns = share.columns();
        let rest = columns % stride;
        let of_rest = (rest - rest.min(warp * width)).min(width);
        Self::of(warp.lt(warps).select(columns / stride * width + of_rest, 0))
    }
}

/// Pairs (sum, squares around the mean).
struct Moments {
    /// Of the warp that this thread is of, of the warp that has its lane's number, and of the CTA that has that number.
    own_warp: Columns,
    warp: Option<Columns>,
    /// Of every 32nd CTA from that one on, where they are more.
    ctas: Vec<Columns>,
    own_cta: Columns,
    of_row: f32,
}

impl Moments {
    #[track_caller]
    fn new(plan: Plan, share: Share, team: &Team) -> Self {
        let own_cta = Columns::of_cta(plan, team.cta);
        let warps = plan.threads / 32;
        let lanes = plan.ctas.next_power_of_two().min(32);
        let cta = |first| Columns::of_cta(plan, lane_id() % lanes + first);
        let of_warp = |warp| Columns::of_warp(plan, share, warp);
        Self {
            own_warp: if warps > 1 { of_warp(team.rank / 32) } else { own_cta },
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
    fn over_lanes(&self, pairs: &[[Reg<f32>; 2]], lanes: u32, part: Part) -> [Reg<f32>; 2] {
        let (columns, reciprocal) = match (part, &self.warp) {
            (Part::Cta, _) => (&self.ctas[..], constant(self.of_row)),
            (Part::Warp, Some(warp)) => (std::slice::from_ref(warp), self.own_cta.reciprocal),
            _ => unreachable!("the lanes of a warp take their squares around its mean"),
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
    /// Who shares a row.
    pub plan: Plan,
}

impl LayerNorm {
    /// x and y are (rows, columns), row-major; w and b are (columns). `exchange` is as in [`Softmax`](super::Softmax::run).
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        w: &Global<T>,
        b: &Global<T>,
        y: &mut Global<U>,
        exchange: &mut Global<u64>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, w, b, y) = (self.plan, *w, *b, *y);
        let team = Team::new(plan, exchange);
        let share = Share::new(plan, &team);
        let matrices = [*x];
        let rounds = Rounds::begin(plan, team, share, (&matrices, 0), rows);
        let commons = [w, b].map(|row| Common::new(share, row));
        let moments = Moments::new(plan, share, &team);
        let gather = |turn: &Turn<T>| {
            let sum = butterfly(turn.row.sum(|sum, value| sum + value), team.lanes(), |a, b| a + b);
            let middle = sum * moments.own_warp.reciprocal;
            let squares = turn.row.sum(|sum, value| {
                let left = value - middle;
                left.mul_add(left, sum)
            });
            let squares = butterfly(squares, team.lanes(), |a, b| a + b);
            (turn.team.reduce_warps(&moments, [sum, squares]), ())
        };
        rounds.each(&moments, gather, |turn, [sum, squares], _| {
            let y = start(y, turn.index, plan.columns);
            // Loaded now, they would take more registers than there are.
            let [w, b] = commons.map(|common| common.row(true));
            let mean = sum * moments.of_row;
            let root = (squares * moments.of_row + epsilon).rsqrt_approx();
            // (x - mean) * root in one instruction: what it rounds is no more than what the mean was rounded by.
            let shift = -(mean * root);
            turn.row.for_each(|place, values| {
                let (weights, biases) = (w.at(place), b.at(place));
                let scaled: Vec<_> = values
                    .into_iter()
                    .zip(weights.into_iter().zip(biases))
                    .map(|(x, (w, b))| x.mul_add(root, shift).mul_add(w, b))
                    .collect();
                share.store(y, place, turn.wanted, &scaled);
            });
        });
    }
}
