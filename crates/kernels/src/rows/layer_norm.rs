//! LayerNorm of rows.
//!
//! ```text
//! y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon) * w + b
//! ```
//!
//! The variance is the mean of squares of what is left after the mean is known: one more reduction than with the difference of two
//! means, which loses all its digits where the mean is large. Within a CTA that reduction is a barrier more. The CTAs of a cluster would have to
//! wait for one another twice a row, so each takes its squares around its own mean, and they exchange once, pairs (sum, squares) that are merged as
//! Chan, Golub and LeVeque have it:
//!
//! ```text
//! mean     = (sum 0 + sum 1 + ..) / columns
//! squares  = squares 0 + columns 0 * (mean 0 - mean)² + squares 1 + columns 1 * (mean 1 - mean)² + ..
//! ```

use warpwright::prelude::*;

use super::element::RowElement;
use super::plan::Plan;
use super::rounds::{Rounds, Turn};
use super::row::{Common, Share, start};
use super::team::{Merge, Sum, Team, butterfly};

/// The pair (sum, squares around the mean) of each CTA's part of a row, in the lane of the CTA's rank.
struct Moments {
    plan: Plan,
}

impl Merge<2> for Moments {
    const NEUTRAL: [f32; 2] = [0.0; 2];

    #[track_caller]
    fn over_lanes(&self, [sum, squares]: [Reg<f32>; 2], lanes: u32) -> [Reg<f32>; 2] {
        let [columns, reciprocal] = columns_of(self.plan, lane_id() % lanes);
        let of_all = butterfly(sum, lanes, |a, b| a + b);
        let apart = sum * reciprocal - of_all * (1.0 / self.plan.columns as f32);
        let squares = (apart * apart).mul_add(columns, squares);
        [of_all, butterfly(squares, lanes, |a, b| a + b)]
    }
}

/// Columns of a CTA's part of a row, and their reciprocal: 0 and 1 for a rank that no CTA has, or one that has no columns.
#[track_caller]
fn columns_of(plan: Plan, cta: Reg<u32>) -> [Reg<f32>; 2] {
    let part = plan.part();
    if plan.ctas.is_power_of_two() && part * plan.ctas == plan.columns {
        return [part as f32, 1.0 / part as f32].map(constant);
    }
    let first = (cta * part).min(plan.columns);
    let columns = (plan.columns - first).min(part).convert::<f32>();
    [columns, constant(1f32) / columns.max(1f32)]
}

/// LayerNorm of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerNorm {
    /// Who shares a row.
    pub plan: Plan,
}

impl LayerNorm {
    /// x and y are (rows, columns), row-major; w and b are (columns).
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        w: &Global<T>,
        b: &Global<T>,
        y: &mut Global<U>,
        rows: u32,
        epsilon: f32,
    ) {
        let (plan, w, b, y) = (self.plan, *w, *b, *y);
        let team = Team::new(plan);
        let share = Share::new(plan, &team);
        let matrices = [*x];
        let rounds = Rounds::begin(plan, team, share, (&matrices, 0), rows);
        let commons = [w, b].map(|row| Common::new(share, row));
        let part = 1.0 / plan.columns as f32;
        let [_, part_of_cta] = columns_of(plan, team.cta);
        rounds.each(|Turn { team, index, wanted, row: x }| {
            let y = start(y, index, plan.columns);
            // Loaded now, they would take more registers than there are.
            let [w, b] = commons.map(|common| common.row(true));
            let [sum] = team.reduce_cta(&Sum, [x.sum(|value| value)]);
            let middle = sum * part_of_cta;
            let squares = x.sum(|value| {
                let left = value - middle;
                left * left
            });
            let [squares] = team.reduce_cta(&Sum, [squares]);
            let [sum, squares] = team.reduce_ctas(&Moments { plan }, [sum, squares]);
            let mean = if plan.ctas > 1 { sum * part } else { middle };
            let root = (squares * part + epsilon).rsqrt_approx();
            x.for_each(|place, values| {
                let (weights, biases) = (w.at(place), b.at(place));
                let scaled: Vec<_> = values
                    .into_iter()
                    .zip(weights.into_iter().zip(biases))
                    .map(|(x, (w, b))| ((x - mean) * root).mul_add(w, b))
                    .collect();
                share.store(y, place, wanted, &scaled);
            });
        });
    }
}
