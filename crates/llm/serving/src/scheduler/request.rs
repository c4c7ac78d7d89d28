//! Requests, and what becomes of them.

use std::sync::Arc;

use warpwright_llm_step::{Sampled, Token, TokenMask};

/// Names a sequence from [`Scheduler::add`](super::Scheduler::add) on. Later sequences have larger
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// One sequence to generate.
#[derive(Debug)]
pub struct Request {
    /// The prompt: at least one token.
    pub prompt: Vec<Token>,
    /// The most tokens to generate. 0 only scores the prompt.
    pub max_tokens: u32,
    /// Before this number of tokens, stop tokens are forbidden.
    pub min_tokens: u32,
    /// Tokens that end the sequence.
    pub stop_tokens: Vec<Token>,
    /// How tokens are drawn.
    pub draw: Draw,
    /// Log-probabilities of generated tokens, with this number of alternatives.
    pub log_probabilities: Option<u32>,
    /// Log-probabilities of the prompt's tokens but the first, with this number of alternatives.
    /// Turns prefix caching off for the request.
    pub prompt_log_probabilities: Option<u32>,
    /// Restricts each token to those that a grammar allows.
    pub guide: Option<Box<dyn Guide>>,
}

/// How tokens are drawn. The fields mean what those of [`Sampling`](warpwright_llm_step::Sampling)
/// and OpenAI's API mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// 0 takes the most probable token.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: u32,
    /// 1 keeps all.
    pub top_p: f32,
    /// 0 keeps all.
    pub min_p: f32,
    /// The same seed gives the same answer.
    pub seed: u64,
    /// Subtracted once from the logit of each generated token.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token for each time that it was generated.
    pub frequency_penalty: f32,
    /// Divides the positive and multiplies the negative logits of tokens in the prompt and in the
    /// answer.
    pub repetition_penalty: f32,
    /// Added to the logits of tokens.
    pub logit_bias: Vec<(Token, f32)>,
}

impl Draw {
    /// The most probable token, always.
    pub fn greedy() -> Draw {
        Draw {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
        }
    }

    /// Whether the next token's logits depend on the tokens before it.
    pub fn has_penalties(&self) -> bool {
        self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 || self.repetition_penalty != 1.0
    }
}

/// Says which tokens may come next.
pub trait Guide: Send + std::fmt::Debug {
    /// The tokens that may come next. Never empty.
    fn allowed(&mut self) -> Arc<TokenMask>;

    /// A token that was allowed has been generated.
    fn advance(&mut self, token: Token);

    /// The same for another answer, which goes its own way from here.
    fn another(&self) -> Box<dyn Guide>;
}

/// Why a request cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The prompt has no token.
    #[error("The prompt is empty: give at least one token.")]
    EmptyPrompt,
    /// The prompt and the answer do not fit.
    #[error(
        "The prompt has {prompt} tokens and the answer needs room for at least one, but the context is {context} tokens: shorten the prompt."
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: u32,
        /// Tokens of the context.
        context: u32,
    },
    /// More alternatives than the executor lists.
    #[error(
        "{wanted} alternatives are requested beside each log-probability, but at most {top} can be listed."
    )]
    TooManyAlternatives {
        /// Requested.
        wanted: u32,
        /// The most.
        top: u32,
    },
    /// A token beyond the vocabulary.
    #[error("Token {token} does not exist: the vocabulary has {vocabulary} tokens.")]
    NoSuchToken {
        /// The token.
        token: Token,
        /// Tokens of the vocabulary.
        vocabulary: u32,
    },
}

/// What a step did for a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The sequence.
    pub sequence: SequenceId,
    /// Set once, with the first token or at the end: what the prompt came to.
    pub prompt: Option<PromptDone>,
    /// New tokens. A stop token is the last of them.
    pub tokens: Vec<Sampled>,
    /// Set once, with the last tokens.
    pub finished: Option<Finished>,
}

/// What a prompt came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptDone {
    /// Tokens that were found in the cache.
    pub cached: u32,
    /// When the sequence got memory, if the owner of the scheduler has a clock.
    pub admitted: Option<std::time::Instant>,
    /// The log-probabilities of the prompt's tokens but the first, if the request wants them.
    pub log_probabilities: Vec<Sampled>,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// A stop token was drawn.
    Stop(Token),
    /// `max_tokens` or the context was reached.
    Length,
}
