//! Softmax and log-softmax of rows.
//!
//! ```text
//! softmax       y = exp(x - M) / S        M = max(x), S = sum(exp(x - M))
//! log-softmax   y = x - M - log(S)
//! ```
//!
//! Maximum and sum take one pass: each thread has the pair (m, s) of its elements, s relative to m,
//! and pairs are merged, so that warps and CTAs exchange values once. A row with a NaN or positive
//! infinity, or only negative infinities, becomes NaN (IEEE 754).

use warpwright::lang::ptx;
use warpwright::prelude::*;

use super::super::plan::Plan;
use super::chunk::{Chunk, RowElement};
use super::merge::{Merge, Source, butterfly, pairwise};
use super::row::{Position, first_vector};
use super::row_loop::{RowLoop, WorkUnit};

/// `exp(x)` by the special function unit; a subnormal result is 0.
#[track_caller]
fn exp(x: Reg<f32>) -> Reg<f32> {
    ptx!("ex2.approx.ftz.f32 {y}, {x};", y = out Reg<f32>, x = x * std::f32::consts::LOG2_E)
}

/// What is subtracted for a maximum. The least finite number stands for negative infinity, so that
/// the difference of two negative infinities is not NaN.
#[track_caller]
fn base(maximum: Reg<f32>) -> Reg<f32> {
    maximum.max(f32::MIN)
}

/// The pair (m, s) of numbers x: their maximum, and the sum of exp(x - m).
pub(super) struct LogSum;

impl Merge<2> for LogSum {
    const NEUTRAL: [f32; 2] = [f32::NEG_INFINITY, 0.0];

    #[track_caller]
    fn over_lanes(&self, pairs: &[[Reg<f32>; 2]], lanes: u32, _: Source) -> [Reg<f32>; 2] {
        let maxima: Vec<_> = pairs.iter().map(|[maximum, _]| *maximum).collect();
        let all = butterfly(pairwise(&maxima, |a, b| a.max(b)), lanes, |a, b| a.max(b));
        let base = base(all);
        let sums: Vec<_> = pairs.iter().map(|[maximum, sum]| *sum * exp(*maximum - base)).collect();
        [all, butterfly(pairwise(&sums, |a, b| a + b), lanes, |a, b| a + b)]
    }
}

impl LogSum {
    /// The pair of no numbers.
    #[track_caller]
    fn nothing() -> [Reg<f32>; 2] {
        Self::NEUTRAL.map(|value| constant(value).duplicate())
    }

    /// Adds numbers to a pair; returns their exponentials, relative to its maximum, too.
    ///
    /// Numbers are widened once for the maximum and once for the sum: held in between, they would
    /// take twice the registers.
    #[track_caller]
    fn with<T: RowElement>(
        [maximum, sum]: [Reg<f32>; 2],
        vectors: &[(Position, Chunk<T>)],
    ) -> ([Reg<f32>; 2], Vec<Reg<f32>>) {
        let larger = vectors
            .iter()
            .fold(maximum, |larger, (_, chunk)| larger.max(pairwise(&chunk.values(), |a, b| a.max(b))));
        let base = base(larger);
        let (mut sum, mut all) = (sum * exp(maximum - base), Vec::new());
        for (_, chunk) in vectors {
            let terms: Vec<_> = chunk.values().into_iter().map(|value| exp(value - base)).collect();
            sum += pairwise(&terms, |a, b| a + b);
            all.extend(terms);
        }
        ([larger, sum], all)
    }
}

/// The pair of the CTA's part of a row.
#[track_caller]
pub(super) fn log_sum<T: RowElement>(unit: &WorkUnit<T>) -> [Reg<f32>; 2] {
    let mine = unit.row.fold(LogSum::nothing(), |pair, vectors| LogSum::with(pair, vectors).0);
    unit.group.reduce_cta(&LogSum, mine)
}

/// The exponentials of a thread's elements, relative to their maximum.
struct Terms {
    maximum: Reg<f32>,
    terms: Vec<Reg<f32>>,
}

/// The result of a [`Softmax`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Probabilities.
    Probabilities,
    /// Their natural logarithms.
    Logarithms,
}

/// Softmax of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    /// Which threads share a row.
    pub plan: Plan,
    /// The result.
    pub form: Form,
}

impl Softmax {
    /// x and y are (rows, columns), row-major. `workspace` is for reductions over a grid.
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        y: &mut Global<U>,
        workspace: &mut Global<u64>,
        rows: u32,
    ) {
        let (plan, form, y) = (self.plan, self.form, *y);
        let row_loop = RowLoop::begin(plan, (&[*x], T::NEGATIVE_INFINITIES), rows, workspace);
        let partition = row_loop.partition;
        let keeps = self.keeps_terms();
        let gather = |unit: &WorkUnit<T>| match unit.row.resident() {
            Some(vectors) if keeps => {
                let (mine, terms) = LogSum::with(LogSum::nothing(), vectors);
                (unit.group.reduce_cta(&LogSum, mine), Some(Terms { maximum: mine[0], terms }))
            }
            _ => (log_sum(unit), None),
        };
        row_loop.run(&LogSum, gather, |unit, [maximum, sum], kept| {
            let y = first_vector(y, unit.index, plan);
            let store = |position, values: Vec<_>| partition.store(y, position, unit.valid, &values);
            match (form, unit.row.resident(), kept.flatten()) {
                (Form::Probabilities, Some(vectors), Some(kept)) => {
                    let factor = exp(kept.maximum - base(maximum)) / sum;
                    let mut terms = kept.terms.iter();
                    for (position, chunk) in vectors {
                        let of_vector = terms.by_ref().take(chunk.lanes());
                        store(*position, of_vector.map(|term| *term * factor).collect());
                    }
                }
                (Form::Probabilities, ..) => {
                    let factor = constant(1f32) / sum;
                    unit.row.for_each(|position, values| {
                        let scaled = values.into_iter().map(|value| exp(value - maximum) * factor);
                        store(position, scaled.collect());
                    });
                }
                (Form::Logarithms, ..) => {
                    let logarithm = sum.lg2_approx() * std::f32::consts::LN_2;
                    unit.row.for_each(|position, values| {
                        let logarithms = values.into_iter().map(|value| value - maximum - logarithm);
                        store(position, logarithms.collect());
                    });
                }
            }
        });
    }

    /// Whether the exponentials are computed once and kept: they take at most half of the
    /// registers.
    fn keeps_terms(&self) -> bool {
        let terms = self.plan.steps * self.plan.lanes;
        self.form == Form::Probabilities && self.plan.is_resident() && 2 * terms <= self.plan.registers()
    }
}
