//! A sequence between its arrival and its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpwright_llm_step::{Adjustment, Sampled, Sampling, Token};

use super::memory::Holding;
use super::request::{Finished, PromptDone, Request, SequenceId};

/// A sequence.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) request: Request,
    /// Prompt and answer, as far as it was read.
    pub(super) tokens: Vec<Token>,
    /// Tokens that submitted steps compute at most: all drafts of steps that were not read count.
    pub(super) computed: u32,
    /// Submitted steps that sample tokens and were not read, and their drafts. All tokens but the last
    /// one are computed too.
    pub(super) pending: u32,
    pub(super) pending_drafts: u32,
    /// `None` while the sequence waits.
    pub(super) holding: Option<Holding>,
    prompt_tokens: u32,
    /// The most tokens, prompt and answer together.
    limit: u32,
    prompt: Option<PromptDone>,
    counts: BTreeMap<Token, Count>,
    adjustments: Arc<[Adjustment]>,
}

/// How often a token has occurred.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    prompt: bool,
    answer: u32,
}

impl Sequence {
    pub(super) fn new(id: SequenceId, mut request: Request, context: u32) -> Sequence {
        let tokens = std::mem::take(&mut request.prompt);
        let prompt_tokens = tokens.len() as u32;
        let mut sequence = Sequence {
            id,
            limit: prompt_tokens.saturating_add(request.max_tokens).min(context),
            request,
            computed: 0,
            pending: 0,
            pending_drafts: 0,
            holding: None,
            prompt_tokens,
            prompt: Some(PromptDone::default()),
            counts: BTreeMap::new(),
            adjustments: Arc::new([]),
            tokens,
        };
        if sequence.request.draw.has_penalties() {
            for token in &sequence.tokens {
                sequence.counts.entry(*token).or_default().prompt = true;
            }
        }
        sequence.adjustments = sequence.adjust(false);
        sequence
    }

    /// Tokens generated, with one of each step that was not read: at least as many are.
    fn generated(&self) -> u32 {
        self.tokens.len() as u32 - self.prompt_tokens + self.pending
    }

    /// Tokens that the answer still lacks, if steps that were not read accept all drafts.
    pub(super) fn remaining(&self) -> u32 {
        self.limit.saturating_sub(self.tokens.len() as u32 + self.pending + self.pending_drafts)
    }

    /// Tokens that are known and that no submitted step computes.
    pub(super) fn uncomputed(&self) -> &[Token] {
        self.tokens.get(self.computed as usize..).unwrap_or_default()
    }

    /// Whether the sequence has tokens that the next step can compute as a prompt.
    pub(super) fn is_in_prompt(&self) -> bool {
        self.holding.is_some() && self.pending == 0 && !self.uncomputed().is_empty()
    }

    /// Uncomputed tokens up to where a snapshot of the state is taken.
    pub(super) fn to_boundary(&self) -> u32 {
        let boundary = self.holding.as_ref().and_then(|holding| holding.boundary(self.computed));
        let left = self.uncomputed().len() as u32;
        boundary.map_or(left, |boundary| left.min(boundary - self.computed))
    }

    /// Whether a step can compute the pending token before it is read: nothing about the token
    /// after it depends on its value.
    pub(super) fn can_run_ahead(&self) -> bool {
        let free = self.request.guide.is_none() && !self.request.draw.has_penalties();
        self.pending > 0 && free && self.remaining() > 0
    }

    /// Whether drafts give the same tokens as no drafts, and the executor draws the tokens without the host.
    pub(super) fn can_draft(&self) -> bool {
        let Request { guide, draw, min_tokens, log_probabilities, .. } = &self.request;
        let is_free = guide.is_none() && !draw.has_penalties() && draw.logit_bias.is_empty();
        is_free && log_probabilities.is_none_or(|top| top == 0) && self.generated() >= *min_tokens
    }

    /// How the next token is drawn.
    pub(super) fn sampling(&mut self) -> Sampling {
        let forbids_stops = self.generated() < self.request.min_tokens;
        let draw = &self.request.draw;
        let adjustments = if forbids_stops || draw.has_penalties() {
            self.adjust(forbids_stops)
        } else {
            self.adjustments.clone()
        };
        Sampling {
            allowed: self.request.guide.as_mut().map(|guide| guide.allowed()),
            adjustments,
            temperature: draw.temperature,
            min_p: draw.min_p,
            top_k: draw.top_k,
            top_p: draw.top_p,
            seed: draw.seed,
            offset: u64::from(self.generated() + self.pending_drafts),
            log_probabilities: self.request.log_probabilities,
        }
    }

    /// Bias and penalties as they are now.
    fn adjust(&self, forbids_stops: bool) -> Arc<[Adjustment]> {
        let draw = &self.request.draw;
        let neutral = |token| Adjustment { token, bias: 0.0, repetition: 1.0, penalty: 0.0 };
        let mut table: BTreeMap<Token, Adjustment> = BTreeMap::new();
        for (token, count) in &self.counts {
            let adjustment = table.entry(*token).or_insert_with(|| neutral(*token));
            adjustment.repetition = draw.repetition_penalty;
            if count.answer > 0 {
                adjustment.penalty = draw.presence_penalty + draw.frequency_penalty * count.answer as f32;
            }
        }
        for (token, bias) in &draw.logit_bias {
            table.entry(*token).or_insert_with(|| neutral(*token)).bias += bias;
        }
        if forbids_stops {
            for token in &self.request.stop_tokens {
                table.entry(*token).or_insert_with(|| neutral(*token)).bias = f32::NEG_INFINITY;
            }
        }
        table.into_values().collect()
    }

    /// Notes that a prefix was found in the cache. Only the first admission counts for the request.
    pub(super) fn found_cached(&mut self, cached: u32) {
        self.computed = cached;
        if let Some(prompt) = &mut self.prompt
            && self.tokens.len() as u32 == self.prompt_tokens
        {
            prompt.cached = prompt.cached.max(cached);
        }
    }

    /// The tokens of the prompt after each token of a chunk, while the prompt is scored.
    pub(super) fn targets(&self, position: u32, tokens: u32) -> Vec<Token> {
        if self.request.prompt_log_probabilities.is_none() || self.prompt.is_none() {
            return Vec::new();
        }
        let start = (position + 1).min(self.prompt_tokens) as usize;
        let end = (position + tokens + 1).min(self.prompt_tokens) as usize;
        self.tokens[start..end].to_vec()
    }

    /// Takes in what a chunk at `position` scored. A chunk that repeats one from before a
    /// pre-emption adds nothing.
    pub(super) fn score(&mut self, position: u32, scored: Vec<Sampled>) {
        if let Some(prompt) = &mut self.prompt {
            let known = prompt.log_probabilities.len().saturating_sub(position as usize);
            prompt.log_probabilities.extend(scored.into_iter().skip(known));
        }
    }

    /// Takes in what was sampled. Returns the tokens that count, and the end if this is it.
    pub(super) fn accept(&mut self, sampled: Vec<Sampled>) -> (Vec<Sampled>, Option<Finished>) {
        let mut accepted = Vec::new();
        for sampled in sampled {
            let token = sampled.token;
            accepted.push(sampled);
            self.tokens.push(token);
            if self.request.draw.has_penalties() {
                self.counts.entry(token).or_default().answer += 1;
            }
            if let Some(guide) = &mut self.request.guide {
                guide.advance(token);
            }
            if self.request.stop_tokens.contains(&token) {
                return (accepted, Some(Finished::Stop(token)));
            }
            if self.tokens.len() as u32 >= self.limit {
                return (accepted, Some(Finished::Length));
            }
        }
        (accepted, None)
    }

    /// Whether no token of the answer is known.
    pub(super) fn is_new(&self) -> bool {
        self.tokens.len() as u32 == self.prompt_tokens
    }

    /// What the prompt came to, once.
    pub(super) fn take_prompt(&mut self) -> Option<PromptDone> {
        self.prompt.take()
    }

    /// Whether only the prompt is wanted.
    pub(super) fn only_scores(&self) -> bool {
        self.limit == self.prompt_tokens
    }
}
