//! The recurrence in f64, token by token.

use rayon::prelude::*;

use warpwright_kernels::delta_rule::{EPSILON, HEAD, Heads};

/// The inputs of one or more sequences in f64, as `DeltaRuleInputs` has them.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The heads.
    pub heads: Heads,
    /// (tokens, [`Heads::columns`]): queries, keys and values.
    pub qkv: Vec<f64>,
    /// (tokens, value heads): what the decay is made of.
    pub a: Vec<f64>,
    /// (tokens, value heads): what beta is made of.
    pub b: Vec<f64>,
    /// (value heads): the logarithm of the decay's rate.
    pub a_log: Vec<f64>,
    /// (value heads): what is added to `a`.
    pub dt_bias: Vec<f64>,
}

/// The results of a value head: an output per token, and the final state (k, v).
#[derive(Clone, Debug)]
pub struct Head {
    /// (tokens, 128).
    pub o: Vec<f64>,
    /// (128 k, 128 v).
    pub state: Vec<f64>,
}

const D: usize = HEAD as usize;

fn normalized(x: &[f64]) -> Vec<f64> {
    let squares: f64 = x.iter().map(|x| x * x).sum();
    x.iter().map(|x| x / (squares + f64::from(EPSILON)).sqrt()).collect()
}

impl Inputs {
    /// Row `token` of `qkv`, from head `head` of its 2 keys + values heads.
    fn vector(&self, token: usize, head: usize) -> &[f64] {
        &self.qkv[token * self.heads.columns() as usize + head * D..][..D]
    }

    /// The log-decay g and beta of a token.
    pub fn gates(&self, token: usize, head: usize) -> (f64, f64) {
        let at = token * self.heads.values as usize + head;
        let softplus = (self.a[at] + self.dt_bias[head]).exp().ln_1p();
        (-self.a_log[head].exp() * softplus, 1.0 / (1.0 + (-self.b[at]).exp()))
    }

    /// Value head `head` over the tokens, from `state` (128 k, 128 v) on.
    pub fn head(&self, head: usize, tokens: std::ops::Range<usize>, mut state: Vec<f64>) -> Head {
        let keys = self.heads.keys as usize;
        let key_head = head / self.heads.values_per_key() as usize;
        let mut o = Vec::with_capacity(tokens.len() * D);
        for token in tokens {
            let q = normalized(self.vector(token, key_head));
            let k = normalized(self.vector(token, keys + key_head));
            let v = self.vector(token, 2 * keys + head);
            let (g, beta) = self.gates(token, head);
            let decay = g.exp();
            state.iter_mut().for_each(|s| *s *= decay);
            let delta: Vec<f64> = product(&k, &state).iter().zip(v).map(|(r, v)| beta * (v - r)).collect();
            for (row, k) in state.chunks_mut(D).zip(&k) {
                row.iter_mut().zip(&delta).for_each(|(s, d)| *s += k * d);
            }
            o.extend(product(&q, &state).iter().map(|x| x / (D as f64).sqrt()));
        }
        Head { o, state }
    }

    /// Every value head over every sequence, from `states` on: (sequence, value head).
    pub fn heads(&self, sequences: &[std::ops::Range<usize>], states: &[f64]) -> Vec<Head> {
        let values = self.heads.values as usize;
        (0..sequences.len() * values)
            .into_par_iter()
            .map(|at| {
                let state = states[at * D * D..][..D * D].to_vec();
                self.head(at % values, sequences[at / values].clone(), state)
            })
            .collect()
    }
}

/// Sᵀ x.
fn product(x: &[f64], state: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; D];
    for (row, x) in state.chunks(D).zip(x) {
        sums.iter_mut().zip(row).for_each(|(sum, s)| *sum += x * s);
    }
    sums
}
