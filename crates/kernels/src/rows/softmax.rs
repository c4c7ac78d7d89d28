//! Softmax and log-softmax of rows.
//!
//! ```text
//! softmax       y = exp(x - M) / S        M = max(x), S = sum(exp(x - M))
//! log-softmax   y = x - M - log(S)
//! ```
//!
//! Maximum and sum are taken in one pass: each thread has the pair (m, s) of what it has seen, s relative to m, and pairs are
//! merged, so that warps and CTAs exchange values once. A row with a NaN or positive infinity, or of nothing but negative
//! infinities, becomes NaN, as IEEE 754 has it.

use warpwright::lang::ptx;
use warpwright::prelude::*;

use super::element::{Chunk, RowElement};
use super::plan::Plan;
use super::rounds::{Rounds, Turn};
use super::row::{Place, Share, pairwise, start};
use super::team::{Merge, Part, Team, butterfly};

/// `exp(x)` by the special function unit; a subnormal result is 0.
#[track_caller]
fn exp(x: Reg<f32>) -> Reg<f32> {
    ptx!("ex2.approx.ftz.f32 {y}, {x};", y = out Reg<f32>, x = x * std::f32::consts::LOG2_E)
}

/// What is subtracted for a maximum: it, or where it is negative infinity, the least number, so that the difference of two
/// negative infinities is not NaN.
#[track_caller]
fn base(maximum: Reg<f32>) -> Reg<f32> {
    maximum.max(f32::MIN)
}

/// The pair (m, s) of numbers x: their maximum, and the sum of exp(x - m).
pub(super) struct LogSum;

impl Merge<2> for LogSum {
    const NEUTRAL: [f32; 2] = [f32::NEG_INFINITY, 0.0];

    #[track_caller]
    fn over_lanes(&self, pairs: &[[Reg<f32>; 2]], lanes: u32, _: Part) -> [Reg<f32>; 2] {
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

    /// The pair with more numbers, and their exponentials, relative to its maximum.
    ///
    /// Numbers are widened once for the maximum and once for the sum: kept in between, they would take twice the registers.
    #[track_caller]
    fn with<T: RowElement>(
        [maximum, sum]: [Reg<f32>; 2],
        vectors: &[(Place, Chunk<T>)],
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

/// The pair of the CTA's part of a row, whose fill is negative infinity.
#[track_caller]
pub(super) fn log_sum<T: RowElement>(turn: &Turn<T>) -> [Reg<f32>; 2] {
    let mine = turn.row.fold(LogSum::nothing(), |pair, vectors| LogSum::with(pair, vectors).0);
    turn.team.reduce_cta(&LogSum, mine)
}

/// A thread's exponentials of its part of a row, relative to its own maximum.
struct Terms {
    maximum: Reg<f32>,
    terms: Vec<Reg<f32>>,
}

/// What is written.
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
    /// Who shares a row.
    pub plan: Plan,
    /// What is written.
    pub form: Form,
}

impl Softmax {
    /// x and y are (rows, columns), row-major. `exchange` is memory where CTAs that are no cluster tell each other what they know of a row.
    #[kernel]
    pub fn run<T: RowElement, U: RowElement>(
        &self,
        x: &Global<T>,
        y: &mut Global<U>,
        exchange: &mut Global<u64>,
        rows: u32,
    ) {
        let (plan, form, y) = (self.plan, self.form, *y);
        let team = Team::new(plan, exchange);
        let share = Share::new(plan, &team);
        let matrices = [*x];
        let input = (&matrices[..], T::NEGATIVE_INFINITIES);
        let keeps = self.keeps_terms();
        let gather = |turn: &Turn<T>| match turn.row.resident() {
            Some(vectors) if keeps => {
                let (mine, terms) = LogSum::with(LogSum::nothing(), vectors);
                (turn.team.reduce_cta(&LogSum, mine), Some(Terms { maximum: mine[0], terms }))
            }
            _ => (log_sum(turn), None),
        };
        Rounds::begin(plan, team, share, input, rows).each(&LogSum, gather, |turn, [maximum, sum], kept| {
            let y = start(y, turn.index, plan.columns);
            let store = |place, values: &[_]| share.store(y, place, turn.wanted, values);
            match (form, turn.row.resident(), kept.flatten()) {
                (Form::Probabilities, Some(vectors), Some(kept)) => {
                    let factor = exp(kept.maximum - base(maximum)) / sum;
                    for ((place, _), terms) in vectors.iter().zip(kept.terms.chunks(plan.lanes as usize)) {
                        let scaled: Vec<_> = terms.iter().map(|term| *term * factor).collect();
                        store(*place, &scaled);
                    }
                }
                (Form::Probabilities, ..) => {
                    let factor = constant(1f32) / sum;
                    turn.row.for_each(|place, values| {
                        let scaled: Vec<_> =
                            values.into_iter().map(|value| exp(value - maximum) * factor).collect();
                        store(place, &scaled);
                    });
                }
                (Form::Logarithms, ..) => {
                    let logarithm = sum.lg2_approx() * std::f32::consts::LN_2;
                    turn.row.for_each(|place, values| {
                        let logarithms: Vec<_> =
                            values.into_iter().map(|value| value - maximum - logarithm).collect();
                        store(place, &logarithms);
                    });
                }
            }
        });
    }

    /// Whether the exponentials are taken once and kept: if they take no more than half of a thread's registers.
    fn keeps_terms(&self) -> bool {
        let terms = self.plan.steps * self.plan.lanes;
        self.form == Form::Probabilities && self.plan.is_resident() && 2 * terms <= self.plan.registers()
    }
}
