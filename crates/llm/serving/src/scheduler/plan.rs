//! The next step.

use warpwright_llm_step::{Chunk, Score, Step, Token, Tokens};

use super::memory::Memory;
use super::sequence::Sequence;
use super::{Flight, Scheduler};

/// Prompts that share steps until one ends, where fewer would fill them.
const PROMPTS_TOGETHER: u32 = 8;

/// A step while it is planned.
struct Plan {
    chunks: Vec<Chunk>,
    flights: Vec<Flight>,
    /// Tokens that still fit.
    tokens: u32,
    /// Tokens of all prompts.
    of_prompts: u32,
    /// Chunks that still fit.
    sequences: u32,
}

impl Scheduler {
    /// The next step to submit, or `None` if no sequence can run before an earlier step has
    /// finished.
    ///
    /// Running sequences get their next token first, so that a long prompt delays none by more than
    /// the prompt tokens of a step. Half of these are the oldest prompt's, which therefore ends; the
    /// others' go to those that end first, so that short prompts do not wait for a long one.
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
        plan.of_prompts += self.options.prompt_tokens_per_answer * plan.chunks.len() as u32;
        if !preempted {
            self.admit(&plan);
        }
        self.plan_prompts(&mut plan);
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

    /// Starts waiting sequences, the oldest first, while memory and the prompts of the next steps
    /// have room.
    fn admit(&mut self, plan: &Plan) {
        let of_prompts = self.running.iter().filter(|sequence| sequence.is_in_prompt());
        let (mut prompts, mut tokens) =
            of_prompts.fold((0, 0), |sum, prompt| (sum.0 + 1, sum.1 + prompt.uncomputed().len() as u32));
        while plan.has_room()
            && (prompts < PROMPTS_TOGETHER || tokens < plan.of_prompts)
            && self.running.len() < self.capacity.sequences as usize
        {
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
            (prompts, tokens) = (prompts + 1, tokens + sequence.uncomputed().len() as u32);
            let Some(sequence) = self.waiting.pop_front() else { return };
            if sequence.is_new() {
                self.admitted.push(sequence.id);
            }
            let i = self.running.partition_point(|other| other.id < sequence.id);
            self.running.insert(i, sequence);
        }
    }

    /// Chunks of the prompts of running sequences.
    fn plan_prompts(&mut self, plan: &mut Plan) {
        let mut prompts: Vec<&mut Sequence> =
            self.running.iter_mut().filter(|sequence| sequence.is_in_prompt()).collect();
        let wanted: Vec<u32> = prompts.iter().map(|prompt| prompt.to_boundary()).collect();
        let mut left = plan.of_prompts.min(plan.tokens);
        let mut shares = vec![0; prompts.len()];
        let mut give = |prompt: usize, most: u32| {
            let more = (wanted[prompt] - shares[prompt]).min(most).min(left);
            shares[prompt] += more;
            left -= more;
        };
        if !wanted.is_empty() {
            give(0, plan.of_prompts.div_ceil(2));
        }
        let mut shortest: Vec<usize> = (0..prompts.len()).collect();
        shortest.sort_by_key(|prompt| prompts[*prompt].uncomputed().len());
        shortest.into_iter().for_each(|prompt| give(prompt, u32::MAX));
        for (prompt, share) in prompts.iter_mut().zip(shares).filter(|(_, share)| *share > 0) {
            if plan.has_room() {
                plan.add(prompt, share, 0);
            }
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
