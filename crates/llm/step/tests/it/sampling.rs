//! What the fields of `Sampling` mean, by counting draws.

use std::sync::Arc;

use warpwright_llm_step::{Adjustment, Sampling, TokenMask, log_probabilities, sample};

/// How often each token is drawn with offsets 0 to `draws`.
fn counts(logits: &[f32], sampling: &Sampling, draws: u64) -> Vec<u64> {
    let mut counts = vec![0; logits.len()];
    for offset in 0..draws {
        counts[sample(logits, &Sampling { offset, ..sampling.clone() }).token as usize] += 1;
    }
    counts
}

fn drawn(sampling: Sampling) -> Vec<usize> {
    let counts = counts(&LOGITS, &sampling, 2000);
    (0..counts.len()).filter(|token| counts[*token] > 0).collect()
}

/// Probabilities 0.1, 0.4, 0.2, 0.3.
const LOGITS: [f32; 4] = [-1.0, 0.386_294, -0.306_853, 0.098_612];

fn random() -> Sampling {
    Sampling { temperature: 1.0, seed: 7, ..Sampling::greedy() }
}

#[test]
fn draws_follow_the_probabilities() {
    let counts = counts(&LOGITS, &random(), 20_000);
    for (count, probability) in counts.iter().zip([0.1, 0.4, 0.2, 0.3]) {
        let share = *count as f64 / 20_000.0;
        assert!((share - probability).abs() < 0.015, "{share} for a probability of {probability}");
    }
}

#[test]
fn each_filter_keeps_its_tokens() {
    let adjusted = |token, bias| Arc::from([Adjustment { token, bias, repetition: 1.0, penalty: 0.0 }]);
    let allowed = Some(Arc::new(TokenMask::from_tokens(4, [0, 2])));
    let table = [
        (random(), vec![0, 1, 2, 3]),
        (Sampling { temperature: 0.0, ..random() }, vec![1]),
        (Sampling { top_k: 2, ..random() }, vec![1, 3]),
        (Sampling { top_p: 0.39, ..random() }, vec![1]),
        (Sampling { top_p: 0.41, ..random() }, vec![1, 3]),
        (Sampling { top_p: 0.85, ..random() }, vec![1, 2, 3]),
        (Sampling { top_p: 1e-9, ..random() }, vec![1]),
        (Sampling { min_p: 0.6, ..random() }, vec![1, 3]),
        (Sampling { allowed: allowed.clone(), ..random() }, vec![0, 2]),
        (Sampling { allowed, temperature: 0.0, ..random() }, vec![2]),
        (Sampling { adjustments: adjusted(0, 100.0), ..random() }, vec![0]),
        (Sampling { adjustments: adjusted(1, f32::NEG_INFINITY), ..random() }, vec![0, 2, 3]),
    ];
    for (sampling, tokens) in table {
        assert_eq!(drawn(sampling.clone()), tokens, "{sampling:?}");
    }
}

#[test]
fn a_seed_and_an_offset_repeat_a_draw() {
    let logits = [0.0; 1000];
    let draw = |seed, offset| sample(&logits, &Sampling { seed, offset, ..random() }).token;
    assert_eq!(draw(1, 2), draw(1, 2));
    let distinct: std::collections::HashSet<_> =
        (0..8).flat_map(|s| (0..8).map(move |o| draw(s, o))).collect();
    assert!(distinct.len() > 55, "{} distinct tokens of 64 draws", distinct.len());
}

#[test]
fn adjustments_apply_bias_then_repetition_then_penalty() {
    let adjustment = Adjustment { token: 0, bias: 1.0, repetition: 2.0, penalty: 0.5 };
    assert_eq!(adjustment.apply(3.0), 1.5);
    assert_eq!(adjustment.apply(-3.0), -4.5);
}

#[test]
fn log_probabilities_are_of_the_raw_logits() {
    let sampling = Sampling { log_probabilities: Some(2), top_k: 1, temperature: 0.5, ..Sampling::greedy() };
    let sampled = sample(&LOGITS, &sampling);
    assert_eq!(sampled.token, 1);
    assert!((sampled.log_probability - 0.4f32.ln()).abs() < 1e-5);
    assert_eq!(sampled.top.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 3]);
    assert!((sampled.top[1].1 - 0.3f32.ln()).abs() < 1e-5);
    assert_eq!(log_probabilities(&LOGITS, 0, 9).top.len(), 4);
}

#[test]
fn nan_is_never_drawn() {
    assert_eq!(sample(&[f32::NAN, 0.0], &Sampling::greedy()).token, 1);
    assert_eq!(counts(&[f32::NAN, 0.0], &random(), 100)[0], 0);
}
