//! The reference sampler, on the host.

use crate::random::mix;
use crate::{Sampled, Sampling, Token};

/// Draws a token from `logits` as [`Sampling`] says. NaN counts as minus infinity.
///
/// The token is drawn by the Gumbel-max rule: the largest `logit / temperature + noise(seed,
/// offset, token)` among the tokens that the filters keep. The noise of a token does not depend on
/// the others, so every lane of a GPU can compute its own.
pub fn sample(logits: &[f32], sampling: &Sampling) -> Sampled {
    let mut changed: Vec<f32> =
        logits.iter().map(|x| if x.is_nan() { f32::NEG_INFINITY } else { *x }).collect();
    if let Some(allowed) = &sampling.allowed {
        for (token, logit) in changed.iter_mut().enumerate() {
            if !allowed.allows(token as Token) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    for adjustment in sampling.adjustments.iter() {
        if let Some(logit) = changed.get_mut(adjustment.token as usize) {
            *logit = adjustment.apply(*logit);
        }
    }
    let token = if sampling.temperature <= 0.0 {
        most_probable(changed.iter().copied())
    } else {
        changed.iter_mut().for_each(|x| *x /= sampling.temperature);
        filter(&mut changed, sampling);
        let noise = |token: usize| gumbel(sampling.seed, sampling.offset, token as u64);
        most_probable(changed.iter().enumerate().map(|(token, x)| x + noise(token)))
    };
    match sampling.log_probabilities {
        Some(top) => log_probabilities(logits, token, top),
        None => Sampled { token, log_probability: 0.0, top: Vec::new() },
    }
}

/// The log-probability of `token` under `logits`, and those of the `top` most probable tokens.
pub fn log_probabilities(logits: &[f32], token: Token, top: u32) -> Sampled {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|x| f64::from(x - largest).exp()).sum();
    let normaliser = largest + total.ln() as f32;
    let of = |token: Token| logits.get(token as usize).map_or(f32::NEG_INFINITY, |x| x - normaliser);
    let mut order: Vec<Token> = (0..logits.len() as Token).collect();
    let top = order.len().min(top as usize);
    let before = |a: &Token, b: &Token| of(*b).total_cmp(&of(*a)).then(a.cmp(b));
    if top > 0 && top < order.len() {
        order.select_nth_unstable_by(top - 1, before);
    }
    order.truncate(top);
    order.sort_by(before);
    Sampled {
        token,
        log_probability: of(token),
        top: order.into_iter().map(|token| (token, of(token))).collect(),
    }
}

/// The index of the largest value; the first of equal ones.
fn most_probable(values: impl Iterator<Item = f32>) -> Token {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, value) in values.enumerate() {
        if value > best.1 {
            best = (token as Token, value);
        }
    }
    best.0
}

/// Sets the logits of tokens that `min_p`, `top_k` and `top_p` drop to minus infinity.
fn filter(logits: &mut [f32], sampling: &Sampling) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let cutoff = largest + sampling.min_p.ln();
    let mut kept: Vec<usize> = (0..logits.len()).filter(|i| logits[*i] >= cutoff).collect();
    if sampling.top_k > 0 || sampling.top_p < 1.0 {
        kept.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
        if sampling.top_k > 0 {
            kept.truncate(sampling.top_k as usize);
        }
        let weights: Vec<f64> = kept.iter().map(|i| f64::from(logits[*i] - largest).exp()).collect();
        let wanted = weights.iter().sum::<f64>() * f64::from(sampling.top_p);
        let mut total = 0.0;
        let number = weights.iter().take_while(|weight| {
            let before = total;
            total += **weight;
            before < wanted
        });
        let number = number.count().max(1);
        kept.truncate(number);
    }
    let mut keep = vec![false; logits.len()];
    kept.into_iter().for_each(|i| keep[i] = true);
    for (logit, _) in logits.iter_mut().zip(keep).filter(|(_, keep)| !keep) {
        *logit = f32::NEG_INFINITY;
    }
}

/// Noise with a Gumbel distribution.
fn gumbel(seed: u64, offset: u64, token: u64) -> f32 {
    let bits = mix(mix(mix(seed) ^ offset) ^ token);
    // 53 bits, and never 0 or 1.
    let uniform = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -(-uniform.ln()).ln() as f32
}
