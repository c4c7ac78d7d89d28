//! The decode in f64, token by token.

use std::ops::Range;

use warpwright_kernels::delta_rule::EPSILON;
use warpwright_kernels::delta_rule::decode::DecodeShape;

/// The inputs of a layer in f64.
pub(super) struct Layer {
    pub(super) shape: DecodeShape,
    /// (tokens, `stride`): rows [q | k | v | z | b | a].
    pub(super) x: Vec<f64>,
    pub(super) stride: usize,
    /// (columns, width).
    pub(super) conv_weights: Vec<f64>,
    pub(super) a_log: Vec<f64>,
    pub(super) dt_bias: Vec<f64>,
    pub(super) norm: Vec<f64>,
    pub(super) epsilon: f64,
}

/// The results of a value head.
pub(super) struct Head {
    /// (tokens, value_dim): a result, and what it is if nothing cancels.
    pub(super) y: Vec<(f64, f64)>,
    /// (key_dim, value_dim).
    pub(super) state: Vec<f64>,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn normalized(x: Vec<f64>) -> Vec<f64> {
    let squares: f64 = x.iter().map(|x| x * x).sum();
    x.into_iter().map(|x| x / (squares + f64::from(EPSILON)).sqrt()).collect()
}

impl Layer {
    /// Value head `head` over tokens, after those of the convolution's state (width - 1, columns) and from `state` on.
    pub(super) fn head(&self, head: usize, tokens: &[usize], before: &[f64], mut state: Vec<f64>) -> Head {
        let DecodeShape { key_heads, value_heads, key_dim, value_dim, width, .. } = self.shape;
        let [key_heads, value_heads, key_dim, value_dim, width] =
            [key_heads, value_heads, key_dim, value_dim, width].map(|extent| extent as usize);
        let (key_head, columns) = (head / (value_heads / key_heads), self.shape.columns() as usize);
        let values = 2 * key_heads * key_dim;
        let mut results = Vec::with_capacity(tokens.len() * value_dim);
        for (at, token) in tokens.iter().enumerate() {
            let row = &self.x[token * self.stride..][..self.stride];
            let convolved = |column: usize| {
                let of_token = |i: usize| match (at + i).checked_sub(width - 1) {
                    None => before[(at + i) * columns + column],
                    Some(at) => self.x[tokens[at] * self.stride + column],
                };
                let sum: f64 = (0..width).map(|i| of_token(i) * self.conv_weights[column * width + i]).sum();
                sum * sigmoid(sum)
            };
            let vector = |columns: Range<usize>| columns.map(convolved).collect::<Vec<_>>();
            let of_key = |first: usize| vector(first..first + key_dim);
            let q = normalized(of_key(key_head * key_dim));
            let k = normalized(of_key((key_heads + key_head) * key_dim));
            let v = vector(values + head * value_dim..values + (head + 1) * value_dim);
            let gates = columns + value_heads * value_dim;
            let beta = sigmoid(row[gates + head]);
            let softplus = (row[gates + value_heads + head] + self.dt_bias[head]).exp().ln_1p();
            let decay = (-self.a_log[head].exp() * softplus).exp();
            state.iter_mut().for_each(|s| *s *= decay);
            let mut delta = v;
            for (s, k) in state.chunks(value_dim).zip(&k) {
                delta.iter_mut().zip(s).for_each(|(delta, s)| *delta -= k * s);
            }
            for (s, k) in state.chunks_mut(value_dim).zip(&k) {
                s.iter_mut().zip(&delta).for_each(|(s, delta)| *s += k * beta * delta);
            }
            let (mut o, mut sizes) = (vec![0.0; value_dim], vec![0.0; value_dim]);
            for (s, q) in state.chunks(value_dim).zip(&q) {
                for (column, s) in s.iter().enumerate() {
                    let term = q * s / (key_dim as f64).sqrt();
                    o[column] += term;
                    sizes[column] += f64::abs(term);
                }
            }
            let mean = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>() / value_dim as f64;
            let root = 1.0 / (mean(&o) + self.epsilon).sqrt();
            let size = mean(&sizes).sqrt() * root;
            for (column, o) in o.into_iter().enumerate() {
                let z = row[columns + head * value_dim + column];
                let factor = self.norm[column] * z * sigmoid(z);
                results.push((o * root * factor, (size + 1.0) * factor.abs()));
            }
        }
        Head { y: results, state }
    }

    /// The convolution's state after the tokens: the last ones.
    pub(super) fn conv_state(&self, tokens: &[usize], before: &[f64]) -> Vec<f64> {
        let columns = self.shape.columns() as usize;
        let rows = tokens.iter().map(|token| &self.x[token * self.stride..][..columns]);
        let all: Vec<&[f64]> = before.chunks(columns).chain(rows).collect();
        all[tokens.len()..].concat()
    }
}
