//! Decode attention in f64, and how far off the kernel may be.

use warpwright_harness::{Compared, HostNumber, Result, Verified, compare, compare_parts, merge};

use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::attention::decode::{DecodeShape, Heads};

/// Inputs on the host.
pub(super) struct Inputs<T> {
    pub(super) shape: DecodeShape,
    pub(super) scale: f64,
    pub(super) window: Option<u32>,
    pub(super) softcap: Option<f64>,
    pub(super) sink: Option<Vec<f32>>,
    /// (rows of Q, [query | gate]).
    pub(super) gates: Option<Vec<T>>,
    pub(super) queries: Vec<T>,
    pub(super) keys: Vec<T>,
    pub(super) values: Vec<T>,
    pub(super) table: Vec<u32>,
    pub(super) lengths: Vec<u32>,
}

/// One rounding of f32 a few times over: of scores, powers of two and sums.
const SINGLE: f64 = 1.0 / (1u64 << 15) as f64;

/// Roundings of the weights are independent: their sum is within this many standard deviations, of
/// which that of one rounding is 1/sqrt(3) of the largest.
const DEVIATIONS: f64 = 6.0 / 1.732;

impl<T: HostNumber> Inputs<T> {
    /// The output and LSE of a row of Q, with their tolerances.
    fn row(&self, row: usize) -> (Vec<(f64, f64)>, (f64, f64)) {
        let DecodeShape { heads, queries, .. } = self.shape;
        let Heads { query_heads, head_dim, .. } = heads;
        let (token, query_head) = (row / query_heads as usize, row % query_heads as usize);
        let (sequence, query) = (token / queries as usize, token as u32 % queries);
        let head = query_head / heads.group() as usize;

        // The keys from its own position on are not seen.
        let end = (self.lengths[sequence] + query + 1).saturating_sub(queries);
        let begin = self.window.map_or(0, |window| end.saturating_sub(window));
        let q = &self.queries[row * head_dim as usize..][..head_dim as usize];
        let dot = |key: &[T]| q.iter().zip(key).map(|(q, k)| q.exact() * k.exact()).sum::<f64>();
        let positions: Vec<usize> = (begin..end).map(|key| self.position(sequence, key, head)).collect();
        let score = |position: &usize| {
            let score = dot(&self.keys[*position..][..head_dim as usize]) * self.scale;
            self.softcap.map_or(score, |cap| cap * (score / cap).tanh())
        };
        let scores: Vec<f64> = positions.iter().map(score).collect();
        let sink = self.sink.as_ref().map_or(f64::NEG_INFINITY, |sink| sink[query_head].into());
        let maximum = scores.iter().copied().fold(sink, f64::max);
        if maximum == f64::NEG_INFINITY {
            return (vec![(0.0, 0.0); head_dim as usize], (maximum, 0.0));
        }
        let weights: Vec<f64> = scores.iter().map(|score| (score - maximum).exp()).collect();
        let sum = weights.iter().sum::<f64>() + (sink - maximum).exp();

        let mut columns = vec![[0.0; 4]; head_dim as usize];
        for (position, weight) in positions.iter().zip(&weights) {
            for (column, value) in columns.iter_mut().zip(&self.values[*position..]) {
                let value = value.exact();
                let term = weight * value;
                let more = [term, term.abs(), term * term, value * value];
                (0..4).for_each(|i| column[i] += more[i]);
            }
        }
        let gate = |column: usize| {
            let gates = self.gates.as_ref().map(|gates| gates[(2 * row + 1) * head_dim as usize + column]);
            gates.map_or(1.0, |gate| 1.0 / (1.0 + (-gate.exact()).exp()))
        };
        let of_column = |(column, [output, magnitude, squares, values]): (usize, [f64; 4])| {
            // A weight below the normal numbers of its type is off by a part of the smallest number.
            let rounding = T::ROUNDING * squares.sqrt() + T::SMALLEST * values.sqrt();
            let tolerance = (DEVIATIONS * rounding + SINGLE * magnitude) / sum;
            let (output, tolerance) = (output / sum * gate(column), tolerance * gate(column));
            (output, tolerance + 1.01 * T::ROUNDING * output.abs() + T::SMALLEST)
        };
        let lse = maximum + sum.ln();
        (columns.into_iter().enumerate().map(of_column).collect(), (lse, SINGLE * (1.0 + lse.abs())))
    }

    /// The first element of a key of a sequence in the pools.
    fn position(&self, sequence: usize, key: u32, head: usize) -> usize {
        let DecodeShape { heads, cache: PagedCache { page_size, pages_per_sequence, .. }, .. } = self.shape;
        let entry = sequence * pages_per_sequence as usize + (key / page_size) as usize;
        let key = self.table[entry] as usize * page_size as usize + (key % page_size) as usize;
        (key * heads.key_heads as usize + head) * heads.head_dim as usize
    }

    /// Compares every output, and every LSE.
    pub(super) fn verify(&self, output: &[T], lse: &[f32]) -> Result<Verified> {
        let head_dim = self.shape.heads.head_dim as usize;
        let parts = compare_parts(lse.len(), &|row| {
            let (columns, (expected, tolerance)) = self.row(row);
            let found = &output[row * head_dim..][..head_dim];
            let compared = found.iter().zip(columns).map(|(found, (expected, tolerance))| Compared {
                found: found.exact(),
                expected,
                tolerance,
            });
            let outputs = compare(compared, |column| vec![row, column as usize]);
            let of_lse = Compared { found: lse[row].into(), expected, tolerance };
            merge([outputs, compare([of_lse], |_| vec![row])])
        })?;
        Ok(parts)
    }
}
