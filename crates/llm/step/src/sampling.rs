//! How the next token is drawn from logits.

use std::sync::Arc;

use crate::Token;

/// How to draw one token. [`sample`](crate::sample) is the reference: it applies the fields from
/// the top.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The tokens that may be drawn. `None` allows all.
    pub allowed: Option<Arc<TokenMask>>,
    /// Logit bias and penalties. Each token appears at most once.
    pub adjustments: Arc<[Adjustment]>,
    /// Divides the logits. 0 takes the most probable token.
    pub temperature: f32,
    /// Drops tokens less probable than this fraction of the most probable one. 0 keeps all.
    pub min_p: f32,
    /// Keeps this number of most probable tokens. 0 keeps all.
    pub top_k: u32,
    /// Keeps the most probable tokens up to this total probability. 1 keeps all.
    pub top_p: f32,
    /// The seed of the request.
    pub seed: u64,
    /// The number of tokens that the request has drawn before. The same seed and offset give the
    /// same random number, whatever else is in the step.
    pub offset: u64,
    /// `Some(n)` reports the log-probability of the sampled token and of the `n` most probable
    /// ones, from the logits before any field above changes them.
    pub log_probabilities: Option<u32>,
}

impl Sampling {
    /// The most probable token, with no log-probabilities.
    pub fn greedy() -> Sampling {
        Sampling {
            allowed: None,
            adjustments: Arc::new([]),
            temperature: 0.0,
            min_p: 0.0,
            top_k: 0,
            top_p: 1.0,
            seed: 0,
            offset: 0,
            log_probabilities: None,
        }
    }
}

/// What logit bias and penalties do to the logit of one token: `x = logit + bias`, then `x /
/// repetition` if `x > 0` and `x * repetition` otherwise, then `x - penalty`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustment {
    /// The token.
    pub token: Token,
    /// Logit bias. Minus infinity forbids the token.
    pub bias: f32,
    /// Repetition penalty. 1 changes nothing.
    pub repetition: f32,
    /// Presence penalty, plus frequency penalty times the token's count.
    pub penalty: f32,
}

impl Adjustment {
    /// The logit after the adjustment.
    pub fn apply(&self, logit: f32) -> f32 {
        let biased = logit + self.bias;
        let repeated = if biased > 0.0 { biased / self.repetition } else { biased * self.repetition };
        repeated - self.penalty
    }
}

/// A set of tokens, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// A mask from its words: token `t` is bit `t % 32` of word `t / 32`. Tokens beyond the words
    /// are not allowed.
    pub fn from_words(words: Vec<u32>) -> TokenMask {
        TokenMask { words }
    }

    /// A mask of these tokens out of a vocabulary of `vocabulary`. Tokens beyond it are left out.
    pub fn from_tokens(vocabulary: u32, tokens: impl IntoIterator<Item = Token>) -> TokenMask {
        let mut words = vec![0; vocabulary.div_ceil(32) as usize];
        for token in tokens.into_iter().filter(|token| *token < vocabulary) {
            words[token as usize / 32] |= 1 << (token % 32);
        }
        TokenMask { words }
    }

    /// The words, for the device.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether `token` may be drawn.
    pub fn allows(&self, token: Token) -> bool {
        self.words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }
}
