//! LayerNorm of rows.
//!
//! ```text
//! y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon) * w + b
//! ```
//!
//! The variance is the mean of squares of what is left after the mean is known: one more reduction than with the difference of two
//! means, which loses all its digits where the mean is large.

use warpwright::prelude::*;

use super::element::RowElement;
use super::plan::Plan;
use super::rounds::{Rounds, Turn};
use super::row::{Common, Share, start};
use super::team::{Sum, Team};

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
        rounds.each(|Turn { team, index, wanted, row: x }| {
            let y = start(y, index, plan.columns);
            // Loaded now, they would take more registers than there are.
            let [w, b] = commons.map(|common| common.row(true));
            let [sum] = team.reduce::<Sum, 1>([x.sum(|value| value)]);
            let mean = sum * part;
            let squares = x.sum(|value| {
                let left = value - mean;
                left * left
            });
            let [squares] = team.reduce::<Sum, 1>([squares]);
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
