//! What a request is answered when nothing else runs: the toy's pure function and the reference
//! sampler.

use std::collections::HashMap;
use std::sync::Arc;

use warpwright_llm_serving::scheduler::Draw;
use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{Adjustment, Capacity, Sampling, Token, TokenMask, sample};

/// The parts of a request that decide its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) prompt: Vec<Token>,
    pub(crate) max_tokens: u32,
    pub(crate) min_tokens: u32,
    pub(crate) stop_tokens: Vec<Token>,
    pub(crate) draw: Draw,
    /// Only tokens with the parity of the number of tokens generated before.
    pub(crate) guided: bool,
}

/// The tokens of the answer, the stop token included.
pub(crate) fn alone(capacity: Capacity, wanted: &Wanted) -> Vec<Token> {
    let toy = Toy::new(Capacity { pages: 1, slots: 1, ..capacity });
    let mut tokens = wanted.prompt.clone();
    let limit = (capacity.pages * capacity.page_tokens).min(capacity.context) as usize;
    for offset in 0..wanted.max_tokens as usize {
        if tokens.len() == limit {
            break;
        }
        let answer = &tokens[wanted.prompt.len()..];
        let forbidden = if offset < wanted.min_tokens as usize { &wanted.stop_tokens[..] } else { &[] };
        let sampling = Sampling {
            allowed: wanted.guided.then(|| parity_mask(capacity.vocabulary, offset as u32)),
            adjustments: adjustments(&wanted.draw, &wanted.prompt, answer, forbidden),
            temperature: wanted.draw.temperature,
            min_p: wanted.draw.min_p,
            top_k: wanted.draw.top_k,
            top_p: wanted.draw.top_p,
            seed: wanted.draw.seed,
            offset: offset as u64,
            log_probabilities: None,
        };
        let token = sample(&toy.logits(&tokens), &sampling).token;
        tokens.push(token);
        if wanted.stop_tokens.contains(&token) {
            break;
        }
    }
    tokens.split_off(wanted.prompt.len())
}

pub(crate) fn parity_mask(vocabulary: u32, offset: u32) -> Arc<TokenMask> {
    Arc::new(TokenMask::from_tokens(vocabulary, (0..vocabulary).filter(|token| token % 2 == offset % 2)))
}

fn adjustments(draw: &Draw, prompt: &[Token], answer: &[Token], forbidden: &[Token]) -> Arc<[Adjustment]> {
    let mut table = HashMap::new();
    let neutral = |token| Adjustment { token, bias: 0.0, repetition: 1.0, penalty: 0.0 };
    for token in prompt.iter().chain(answer) {
        table.entry(*token).or_insert(neutral(*token)).repetition = draw.repetition_penalty;
    }
    for token in answer {
        let times = answer.iter().filter(|other| *other == token).count() as f32;
        table.entry(*token).or_insert(neutral(*token)).penalty =
            draw.presence_penalty + draw.frequency_penalty * times;
    }
    for (token, bias) in &draw.logit_bias {
        table.entry(*token).or_insert(neutral(*token)).bias += bias;
    }
    for token in forbidden {
        table.entry(*token).or_insert(neutral(*token)).bias = f32::NEG_INFINITY;
    }
    table.into_values().collect()
}
