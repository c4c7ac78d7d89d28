//! Sampling on the host: the same tokens as on a device, by sorting.

use crate::sampling::problem::{NO_TOKEN, SamplingParameters};

/// 2^40: the mass of the most probable token.
const UNIT: f32 = (1u64 << 40) as f32;

/// Coefficients of 2^x for x between -1/2 and 1/2, from that of x^6 to that of 1: those of the
/// Taylor series. The relative error is below 2^-22.
pub(super) const POWER_OF_TWO: [f32; 7] = {
    let mut coefficients = [0.0f32; 7];
    let (mut term, mut degree) = (1.0f64, 0);
    while degree < 7 {
        coefficients[6 - degree] = term as f32;
        degree += 1;
        term = term * std::f64::consts::LN_2 / degree as f64;
    }
    coefficients
};

/// Coefficients of 2^22 2^x, from that of x^4 to that of 1: of those above, x^5 and x^6 are replaced by the
/// nearest polynomials of lower degree (Chebyshev) without a constant. The relative error is below 2^-18.
pub(super) const RELATIVE_POWER: [f32; 5] = {
    let [sixth, fifth, fourth, third, second, first, one] = POWER_OF_TWO;
    let scale = (1u32 << 22) as f32;
    [
        scale * (fourth + sixth * (3.0 / 8.0)),
        scale * (third + fifth * (5.0 / 16.0)),
        scale * (second - sixth * (9.0 / 256.0)),
        scale * (first - fifth * (5.0 / 256.0)),
        scale * one,
    ]
};

/// The least factor of distances of logits within a segment: that of minus infinity is infinite.
pub(super) const LEAST_SCALE: f32 = 1.0 / (1u128 << 100) as f32;

/// Tokens of a segment.
pub(super) const SEGMENT: u32 = 256;

/// The weight of a segment: the sum of its masses, nearly. Relative to the highest logit of the segment, a
/// mass is 2^22 2^exponent, rounded; a device need not know the highest logit of the row to add them up.
fn weight(segment: &[f32], maximum: f32, scale: f32) -> u64 {
    let highest = segment.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let factor = scale.max(LEAST_SCALE) * (-1.0 / 32.0);
    let relative = |logit: &f32| {
        let distance = (logit - highest) * factor;
        let exponent = if distance > 0.0 { distance.min(1.0) * -32.0 } else { 0.0 };
        let whole = exponent.round_ties_even();
        let power = RELATIVE_POWER.into_iter().reduce(|sum, next| sum.mul_add(exponent - whole, next));
        let power = power.unwrap_or(0.0) * 2f32.powi(whole as i32);
        power.round_ties_even() as u64
    };
    let sum: u64 = segment.iter().map(relative).sum();
    multiply_high(sum << 33, mass_of(highest, maximum, scale) << 9)
}

/// floor(2^40 2^exponent), nearly: by the same operations as on a device.
fn mass(exponent: f32) -> u64 {
    let exponent = exponent.max(-64.0);
    let whole = exponent.round_ties_even();
    let part = exponent - whole;
    let power = POWER_OF_TWO.into_iter().reduce(|sum, next| sum.mul_add(part, next)).unwrap_or(1.0);
    let mantissa = (power * (1u32 << 23) as f32) as u64;
    (mantissa << 17).checked_shr((-whole) as u32).unwrap_or(0)
}

/// The mass of a logit; `scale` is log2(e) over the temperature.
fn mass_of(logit: f32, maximum: f32, scale: f32) -> u64 {
    if logit == maximum { mass(0.0) } else { mass((logit - maximum) * scale) }
}

/// 64 random bits, and other 64: the words of Philox4x32-10 of that key and counter.
pub fn random_bits(seed: u64, position: u64) -> [u64; 2] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    let mut counter = [position as u32, (position >> 32) as u32, 0, 0];
    for _ in 0..ROUNDS {
        let products =
            [(0, MULTIPLIERS[0]), (2, MULTIPLIERS[1])].map(|(i, m)| u64::from(counter[i]) * u64::from(m));
        let [(low0, high0), (low1, high1)] = products.map(|p| (p as u32, (p >> 32) as u32));
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    [0, 2].map(|at| u64::from(counter[at + 1]) << 32 | u64::from(counter[at]))
}

/// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011).
pub(super) const ROUNDS: u32 = 10;
pub(super) const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
pub(super) const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// The upper half of a product.
fn multiply_high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// The logits after the penalties of `history`: tokens and their counts.
pub fn penalized(logits: &[f32], parameters: &SamplingParameters, history: &[(u32, u32)]) -> Vec<f32> {
    let mut logits = logits.to_vec();
    for (token, count) in history {
        let Some(logit) = logits.get_mut(*token as usize) else { continue };
        let repetition = parameters.repetition_penalty;
        *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
        *logit -= *count as f32 * parameters.frequency_penalty;
        if *count > 0 {
            *logit -= parameters.presence_penalty;
        }
    }
    logits
}

/// The token of a row of logits, and the logarithm of its probability.
pub fn sample(logits: &[f32], parameters: &SamplingParameters, history: &[(u32, u32)]) -> (u32, f64) {
    let token = token(&penalized(logits, parameters, history), parameters);
    let maximum = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let is_no_row = logits.iter().any(|logit| logit.is_nan()) || maximum == f32::NEG_INFINITY;
    if token == NO_TOKEN || is_no_row {
        return (token, f64::NAN);
    }
    let distance = |logit: f32| if logit == maximum { 0.0 } else { f64::from(logit) - f64::from(maximum) };
    let sum: f64 = logits.iter().map(|logit| distance(*logit).exp()).sum();
    (token, distance(logits[token as usize]) - sum.ln())
}

fn token(logits: &[f32], parameters: &SamplingParameters) -> u32 {
    if logits.iter().any(|logit| logit.is_nan()) {
        return NO_TOKEN;
    }
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // A stable sort: of equal logits, the lowest token is first.
    order.sort_by(|a, b| logits[*b].partial_cmp(&logits[*a]).expect("none is NaN"));
    let maximum = logits[order[0]];
    if maximum == f32::NEG_INFINITY {
        return NO_TOKEN;
    }
    let SamplingParameters { temperature, top_k, top_p, min_p, .. } = *parameters;
    if temperature.is_nan() || temperature <= 0.0 {
        return order[0] as u32;
    }
    let scale = (std::f32::consts::LOG2_E / temperature).min(f32::MAX);
    let least = (min_p.min(1.0) * UNIT) as u64;
    let kept = |mass: u64| if mass >= least { mass } else { 0 };
    let masses: Vec<u64> = order.iter().map(|at| kept(mass_of(logits[*at], maximum, scale))).collect();
    // The end of the tokens whose logits equal that of rank `last`.
    let end = |last: usize| order.partition_point(|at| logits[*at] >= logits[order[last]]);
    let mut kept = match top_k as usize {
        0 => order.len(),
        k => end(k.min(order.len()) - 1),
    };
    let has_top_k = (1..logits.len()).contains(&(top_k as usize));
    let has_top_p = (0.0..1.0).contains(&top_p);
    let weights = || logits.chunks(SEGMENT as usize).map(|segment| weight(segment, maximum, scale));
    if has_top_p {
        let sum: u64 = masses[..kept].iter().sum();
        let total = if has_top_k || least > 0 { sum } else { weights().sum() };
        let part = (top_p * (1u64 << 32) as f32) as u64;
        let target = multiply_high(total, part << 32).max(1);
        kept = end(rank_of(&masses, target.min(sum))).min(kept);
    }
    let random = random_bits(parameters.seed, parameters.position);
    let total = masses[..kept].iter().sum();
    if has_top_k {
        return order[rank_of(&masses, multiply_high(total, random[0]) + 1)] as u32;
    }
    // Without top-k no order of the logits is needed: tokens are in their own.
    let mut of_tokens = vec![0; logits.len()];
    order[..kept].iter().zip(masses).for_each(|(at, mass)| of_tokens[*at] = mass);
    if has_top_p || least > 0 {
        return rank_of(&of_tokens, multiply_high(total, random[0]) + 1) as u32;
    }
    // The first number points at a segment, the second at a token of it.
    let weights: Vec<u64> = weights().collect();
    let segment = rank_of(&weights, multiply_high(weights.iter().sum(), random[0]) + 1);
    let first = segment * SEGMENT as usize;
    let of_segment = &of_tokens[first..(first + SEGMENT as usize).min(logits.len())];
    let total = of_segment.iter().sum();
    (first + rank_of(of_segment, multiply_high(total, random[1]) + 1)) as u32
}

/// The first rank up to which the masses add up to `target`.
fn rank_of(masses: &[u64], target: u64) -> usize {
    let mut sum = 0;
    masses
        .iter()
        .position(|mass| {
            sum += mass;
            sum >= target
        })
        .expect("the target is at most the sum of all")
}
