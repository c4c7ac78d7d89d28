//! The kernel: a warp for two rows of W.
//!
//! ```text
//! a row of W    | lane 0 | lane 1 | .. | lane 31 | lane 0 | ..     16 bytes each
//! rows of x     every lane multiplies its part by the same part of up to 8 rows
//! ```
//!
//! The first loads of W are in flight before the previous kernel ends: weights depend on no kernel.

use warpwright::prelude::*;

use super::problem::{Epilogue, FEW_RESULTS, GemvShape, MAX_ROWS, TURN, has_few_results};
use crate::operations::Operations;
use crate::overlap::{self, overlaps};
use crate::rows::{Gain, RowElement};
use crate::vector;

/// Warps of a CTA.
pub(super) const WARPS: u32 = 4;
/// CTAs along the rows of x that fill the GPU with few results.
const CTAS_OF_FEW_RESULTS: u32 = 32;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gemv {
    pub(super) k: u32,
    /// Rows of x of a CTA.
    pub(super) rows: u32,
    /// Rows of W of a warp.
    pub(super) columns: u32,
    /// Elements of a load.
    pub(super) lanes: u32,
    /// Loads of a row of W in flight.
    pub(super) loads: u32,
    /// Rows of y for each row of x, each with its own expert.
    pub(super) choices: Option<u32>,
    pub(super) norm: Option<Gain>,
    pub(super) epilogue: Epilogue,
    pub(super) overlaps: bool,
}

impl Gemv {
    /// For `n` rows of W. With few of them, all loads of a row are in flight at once.
    pub(super) fn new<T: RowElement>(device: &Operations, shape: GemvShape) -> Self {
        let GemvShape { rows, n, k } = shape;
        let lanes = vector::widest(k.into(), T::BYTES);
        // A CTA has few rows of x, where W is small.
        let rows = if has_few_results(shape) { rows.div_ceil(CTAS_OF_FEW_RESULTS) } else { rows };
        let most = match rows {
            1 if n <= FEW_RESULTS => 16,
            2 if n <= FEW_RESULTS => 8,
            _ => 4,
        };
        let loads = [16, 8, 4, 2]
            .into_iter()
            .filter(|loads| *loads <= most)
            .find(|loads| k.is_multiple_of(32 * lanes * loads));
        let loads = loads.unwrap_or(1);
        Self {
            k,
            rows: rows.clamp(1, MAX_ROWS),
            columns: 2,
            lanes,
            loads,
            choices: None,
            norm: None,
            epilogue: Epilogue::Store,
            overlaps: overlaps(device),
        }
    }

    /// Rows of W of a warp: those that y's column `at`, counted by the warp, needs.
    fn row_of(&self, first: Reg<u32>, index: u32, n: Reg<u32>) -> Reg<u32> {
        match self.epilogue {
            Epilogue::Swiglu => {
                let column = first.min(n - 1);
                column / TURN * (2 * TURN) + column % TURN + TURN * index
            }
            _ => (first + index).min(n - 1),
        }
    }

    /// `weights` is (n, k), gates and values (2 n, k), or (experts, n, k); `gains` is (k).
    #[kernel]
    pub(super) fn run<T: RowElement, U: RowElement>(
        &self,
        weights: &Global<T>,
        x: &Global<T>,
        gains: &Global<T>,
        experts: &Global<u32>,
        y: &mut Global<U>,
        n: u32,
        rows: u32,
        epsilon: f32,
    ) {
        launch::threads(32 * WARPS);
        let (warp, lane) = (thread_idx().x / 32, lane_id());
        let of_warp = self.results();
        let (of_columns, of_rows) = match self.choices {
            // Rows of experts are more than a grid has along y.
            Some(_) => (block_idx().y, block_idx().x),
            None => (block_idx().x, block_idx().y),
        };
        let column = (of_columns * WARPS + warp) * of_warp;
        let first = of_rows * self.rows;
        let mut matrix = constant(0u32).convert::<u64>();
        if self.choices.is_some() {
            // Which matrix is read depends on the previous kernel.
            overlap::wait(self.overlaps);
            matrix = experts[first].mul_wide(n);
        }
        let of_w: Vec<Global<T>> = (0..self.columns)
            .map(|index| {
                let row = matrix + self.row_of(column, index, n).convert::<u64>();
                weights.at(row * u64::from(self.k))
            })
            .collect();
        let of_x: Vec<Global<T>> = (0..self.rows)
            .map(|row| x.at(((first + row).min(rows - 1) / self.choices.unwrap_or(1)).mul_wide(self.k)))
            .collect();
        let count = self.rows as usize;
        let mut sums = vec![constant(0f32); count * self.columns as usize];
        let mut squares = vec![constant(0f32); count];
        let step = 32 * self.lanes;
        // Each lane waits once it has loads of weights in flight; lanes without any wait here.
        let loads_in_all_lanes = self.choices.is_none() && self.k >= step;
        overlap::wait(self.overlaps && self.choices.is_none() && !loads_in_all_lanes);
        for start in (lane * self.lanes..self.k).step_by(step * self.loads) {
            let parts: Vec<Vec<Vec<Reg<f32>>>> = (0..self.loads)
                .map(|at| {
                    of_w.iter().map(|w| vector::load_widened(w.at(start).at(at * step), self.lanes)).collect()
                })
                .collect();
            overlap::wait(self.overlaps && loads_in_all_lanes);
            for (at, parts) in parts.iter().enumerate() {
                let at = at as u32 * step;
                let mut gain = vec![];
                if self.norm.is_some() {
                    gain = vector::load_widened(gains.at(start).at(at), self.lanes);
                }
                for (row, x) in of_x.iter().enumerate() {
                    let mut x = vector::load_widened(x.at(start).at(at), self.lanes);
                    if let Some(norm) = self.norm {
                        squares[row] = x.iter().fold(squares[row], |sum, x| x.mul_add(*x, sum));
                        x = x
                            .iter()
                            .zip(&gain)
                            .map(|(x, gain)| weighted(norm, *x, *gain))
                            .collect::<Vec<_>>();
                    }
                    for (index, part) in parts.iter().enumerate() {
                        let sum = &mut sums[index * count + row];
                        *sum = part.iter().zip(&x).fold(*sum, |sum, (w, x)| w.mul_add(*x, sum));
                    }
                }
            }
        }
        overlap::launch(self.overlaps);
        // Number `kind * padded + row`: the sums of both rows of W, and the squares.
        let padded = self.rows.next_power_of_two();
        let kinds: u32 = if self.norm.is_some() { 4 } else { 2 };
        let number = |index: u32| {
            let (kind, row) = ((index / padded) as usize, (index % padded) as usize);
            match kind {
                _ if row >= count => constant(0f32),
                0 | 1 => sums[kind * count + row],
                2 => squares[row],
                _ => constant(0f32),
            }
        };
        let numbers: Vec<Reg<f32>> = (0..kinds * padded).map(number).collect();
        let lanes_of_number = 32 / (kinds * padded);
        let mut total = reduce_all(&numbers);
        let (index, is_first) = (lane / lanes_of_number, (lane % lanes_of_number).eq(0u32));
        let (kind, row) = (index / padded, index % padded);
        if self.norm.is_some() {
            let squares = total.shuffle((row + 2 * padded) * lanes_of_number);
            total = total * (squares * (1.0 / self.k as f32) + epsilon).rsqrt();
        }
        if self.epilogue == Epilogue::Swiglu {
            total = total.silu() * total.shuffle((row + padded) * lanes_of_number);
        }
        let (column, of_all) = (column + kind, first + row);
        let is_result = is_first & kind.lt(of_warp) & row.lt(self.rows);
        if is_result && column < n && of_all < rows {
            let to = y.at(of_all.mul_wide(n)).at(column);
            let mut result = total;
            if self.epilogue == Epilogue::Add {
                result = result + to.load().convert::<f32>();
            }
            to.store(result.convert::<U>());
        }
    }

    /// Columns of y of a warp.
    pub(super) fn results(&self) -> u32 {
        if self.epilogue == Epilogue::Swiglu { 1 } else { self.columns }
    }
}

/// The sums over a warp of a power of two of values, 32 at most: those of value number i in the lanes
/// from 32 i / count on. Each step halves either the values of a lane or the lanes of a sum.
#[track_caller]
fn reduce_all(values: &[Reg<f32>]) -> Reg<f32> {
    let mut values = values.to_vec();
    for distance in [16u32, 8, 4, 2, 1] {
        if values.len() == 1 {
            values = vec![values[0] + values[0].shuffle_xor(distance)];
            continue;
        }
        let is_upper = (lane_id() & distance).ne(0u32);
        let (lower, upper) = values.split_at(values.len() / 2);
        let joined = |(lower, upper): (&Reg<f32>, &Reg<f32>)| {
            let (kept, given) = (is_upper.select(*upper, *lower), is_upper.select(*lower, *upper));
            kept + given.shuffle_xor(distance)
        };
        values = lower.iter().zip(upper).map(joined).collect();
    }
    values[0]
}

/// A normalized element, but for the root of the row's mean square.
#[track_caller]
fn weighted(norm: Gain, x: Reg<f32>, gain: Reg<f32>) -> Reg<f32> {
    match norm {
        Gain::Weight => x * gain,
        Gain::ZeroCentred => x.mul_add(gain, x),
    }
}
