//! The next step.

use warpwright_llm_step::{Chunk, Score, Step, Token, Tokens};

use super::memory::Memory;
use super::sequence::Sequence;
use super::{Flight, Scheduler};

/// A step while it is planned.
struct Plan {
    chunks: Vec<Chunk>,
    flights: Vec<Flight>,
    /// Tokens that still fit, and those of prompts.
    tokens: u32,
    of_prompts: u32,
    /// Chunks that still fit.
    sequences: u32,
}

impl Scheduler {
    /// The next step to submit, or `None` if no sequence can run before an earlier step has
    /// finished.
    ///
    /// Running sequences get their next token first, so that a long prompt delays none by more than
    /// the prompt tokens of a step. Prompts share these, the oldest first.
    pub fn next_step(&mut self) -> Option<Step> {
        self.publish();
        let mut plan = Plan {
            chunks: Vec::new(),
            flights: Vec::new(),
            tokens: self.capacity.tokens,
            of_prompts: self.options.prompt_tokens,
            sequences: self.capacity.sequences,
        };
        let preempted = self.plan_answers(&mut plan);
        self.plan_prompts(&mut plan);
        if !preempted {
            self.admit(&mut plan);
        }
        if plan.chunks.is_empty() {
            return None;
        }
        self.counts.steps += 1;
        self.counts.step_tokens += u64::from(self.capacity.tokens - plan.tokens);
        self.in_flight.push_back(plan.flights);
        Some(Step { copies: self.memory.take_copies(), chunks: plan.chunks })
    }

    /// Shares what earlier steps have computed.
    fn publish(&mut self) {
        for sequence in &mut self.running {
            if let Some(holding) = &mut sequence.holding {
                let computed = sequence.tokens.len().min(sequence.computed as usize);
                self.memory.publish(holding, &sequence.tokens[..computed]);
                self.memory.snapshot(holding, sequence.computed);
            }
        }
    }

    /// One token for each sequence that is past its prompt. Returns whether one lost its pages.
    fn plan_answers(&mut self, plan: &mut Plan) -> bool {
        let mut preempted = false;
        let mut i = 0;
        while i < self.running.len() && plan.has_room() {
            let sequence = &mut self.running[i];
            let ahead = sequence.can_run_ahead();
            if !ahead && (sequence.pending > 0 || sequence.uncomputed().len() != 1) {
                i += 1;
                continue;
            }
            let drafts = if sequence.can_draft() { self.options.drafts } else { 0 };
            let draft = drafts.min(sequence.remaining().saturating_sub(1)).min(plan.tokens - 1);
            let end = sequence.computed + 1 + draft;
            let holding = sequence.holding.as_mut();
            if holding.is_some_and(|holding| self.memory.grow(holding, end)) {
                plan.add(sequence, 1, draft);
                i += 1;
            } else {
                // The youngest sequence makes room, be it this one.
                preempted = true;
                self.preempt();
            }
        }
        preempted
    }

    /// Chunks of the prompts of running sequences.
    fn plan_prompts(&mut self, plan: &mut Plan) {
        for sequence in &mut self.running {
            if sequence.pending == 0 && plan.has_room_for_prompts() {
                plan.add_prompt(sequence);
            }
        }
    }

    /// Starts waiting sequences, the oldest first, while there is room.
    fn admit(&mut self, plan: &mut Plan) {
        while plan.has_room_for_prompts() && self.running.len() < self.capacity.sequences as usize {
            // Steps in flight may still sample a token for a sequence that lost its pages.
            let Some(sequence) = self.waiting.front_mut().filter(|sequence| sequence.pending == 0) else {
                return;
            };
            let reuse = sequence.request.prompt_log_probabilities.is_none();
            let shares = |other: &Sequence| shares_soon(&self.memory, other, &sequence.tokens);
            if self.options.prefix_caching && reuse && self.running.iter().any(shares) {
                return;
            }
            let Some(holding) = self.memory.admit(&sequence.tokens, reuse, self.running.len()) else {
                return;
            };
            self.counts.prefix_queries += sequence.tokens.len() as u64;
            self.counts.prefix_hits += u64::from(holding.cached);
            sequence.found_cached(holding.cached);
            sequence.holding = Some(holding);
            plan.add_prompt(sequence);
            let Some(sequence) = self.waiting.pop_front() else { return };
            let i = self.running.partition_point(|other| other.id < sequence.id);
            self.running.insert(i, sequence);
        }
    }

    /// Takes the pages of the youngest sequence.
    fn preempt(&mut self) {
        if let Some(sequence) = self.running.pop() {
            self.counts.preemptions += 1;
            let sequence = self.release(sequence);
            let i = self.waiting.partition_point(|other| other.id < sequence.id);
            self.waiting.insert(i, sequence);
        }
    }
}

/// Whether a prompt begins like one that is still computed, so that it can share more if it waits.
fn shares_soon(memory: &Memory, other: &Sequence, prompt: &[Token]) -> bool {
    let Some(holding) = &other.holding else { return false };
    let most = prompt.len().saturating_sub(1);
    let common = other.tokens.iter().zip(&prompt[..most]).take_while(|(a, b)| a == b).count();
    memory.will_share(holding, common)
}

impl Plan {
    fn has_room(&self) -> bool {
        self.tokens > 0 && self.sequences > 0
    }

    fn has_room_for_prompts(&self) -> bool {
        self.has_room() && self.of_prompts > 0
    }

    /// The next chunk of a prompt, as long as the step allows.
    fn add_prompt(&mut self, sequence: &mut Sequence) {
        let left = sequence.uncomputed().len() as u32;
        let boundary = sequence.holding.as_ref().and_then(|holding| holding.boundary(sequence.computed));
        let to_boundary = boundary.map_or(left, |boundary| boundary - sequence.computed);
        let tokens = left.min(self.tokens).min(self.of_prompts).min(to_boundary);
        if tokens > 0 {
            self.of_prompts -= tokens;
            self.add(sequence, tokens, 0);
        }
    }

    /// The next `tokens` tokens of a sequence.
    fn add(&mut self, sequence: &mut Sequence, tokens: u32, draft: u32) {
        let Some(holding) = &sequence.holding else { return };
        let known = sequence.uncomputed();
        let position = sequence.computed;
        let samples = tokens as usize >= known.len();
        let (slot, pages) = (holding.slot, holding.pages.clone());
        let tokens_of_chunk =
            if known.is_empty() { Tokens::Last } else { Tokens::Known(known[..tokens as usize].to_vec()) };
        let targets = sequence.targets(position, tokens);
        let top = sequence.request.prompt_log_probabilities.unwrap_or(0);
        let sampling = (samples && !sequence.only_scores()).then(|| sequence.sampling());
        sequence.pending += u32::from(sampling.is_some());
        sequence.pending_drafts += draft;
        sequence.computed += tokens + draft;
        self.tokens -= tokens + draft;
        self.sequences -= 1;
        self.flights.push(Flight { sequence: sequence.id, position, samples, draft });
        self.chunks.push(Chunk {
            slot,
            position,
            tokens: tokens_of_chunk,
            pages,
            sampling,
            draft,
            score: (!targets.is_empty()).then_some(Score { targets, top }),
        });
    }
}
