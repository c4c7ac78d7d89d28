//! Which sequences run in the next step, and where they live: continuous batching over a paged
//! cache.
//!
//! The [`Scheduler`] is a state machine over plain data. It has no threads and no clock, and talks
//! to no executor: the caller submits what [`next_step`](Scheduler::next_step) returns and hands
//! the outputs to [`finish_step`](Scheduler::finish_step). A step can be planned while an earlier
//! one is still running.
//!
//! The oldest sequences come first, always. A sequence that needs a page when none is left takes
//! those of the youngest, which is computed again later; the oldest sequence therefore ends, and
//! then the next one.

mod memory;
mod plan;
mod request;
mod sequence;

use std::collections::VecDeque;

use memory::Memory;
pub use request::{Draw, Finished, Guide, PromptDone, Refused, Request, SequenceId, Update};
use sequence::Sequence;
use warpwright_llm_step::{Capacity, Output};

/// Options of a [`Scheduler`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most tokens of prompts in one step, beside those of answers. Fewer delay running sequences less
    /// while a long prompt is computed.
    pub prompt_tokens: u32,
    /// As many more of them for each answer of the step: the more answers a step has, the longer it
    /// takes, and the more tokens of prompts new answers need in each.
    pub prompt_tokens_per_answer: u32,
    /// Whether prefixes are kept for later prompts.
    pub prefix_caching: bool,
    /// Tokens to draft per step and sequence, if the executor can.
    pub drafts: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { prompt_tokens: 2048, prompt_tokens_per_answer: 0, prefix_caching: true, drafts: 0 }
    }
}

/// Plans steps.
pub struct Scheduler {
    capacity: Capacity,
    options: Options,
    memory: Memory,
    /// By age.
    running: Vec<Sequence>,
    /// By age.
    waiting: VecDeque<Sequence>,
    in_flight: VecDeque<Vec<Flight>>,
    next_id: u64,
    counts: Counts,
    failed: Vec<Failure>,
    /// Sequences that were admitted for the first time and not asked for.
    admitted: Vec<SequenceId>,
}

/// A sequence that ended because it could not be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The sequence.
    pub sequence: SequenceId,
    /// Why.
    pub reason: String,
}

/// A chunk of a submitted step.
struct Flight {
    sequence: SequenceId,
    position: u32,
    /// Whether it is the last of its prompt, or a later one.
    samples: bool,
    draft: u32,
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps planned.
    pub steps: u64,
    /// Tokens of all steps.
    pub step_tokens: u64,
    /// Sequences that gave up their pages to an older one.
    pub preemptions: u64,
    /// Prompt tokens of admitted sequences.
    pub prefix_queries: u64,
    /// Those of them that were in the cache.
    pub prefix_hits: u64,
    /// Steps of sequences that verified drafts.
    pub drafts: u64,
    /// Drafted tokens.
    pub draft_tokens: u64,
    /// Accepted ones, by their place among the drafts of a step.
    pub accepted: [u64; MOST_DRAFTS],
}

/// The most tokens that are drafted for a step.
pub const MOST_DRAFTS: usize = 7;

/// What is in use now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Sequences that hold memory.
    pub running: u32,
    /// Sequences that do not.
    pub waiting: u32,
    /// Pages of sequences and prefixes.
    pub used_pages: u32,
    /// Pages of prefixes that no sequence uses: free for any sequence.
    pub idle_pages: u32,
    /// All pages.
    pub pages: u32,
    /// State slots of sequences and snapshots.
    pub used_slots: u32,
    /// Slots of snapshots: free for any sequence.
    pub snapshots: u32,
}

impl Scheduler {
    /// A scheduler for an executor of this capacity.
    pub fn new(capacity: Capacity, options: Options) -> Scheduler {
        let options = Options {
            prompt_tokens: options.prompt_tokens.clamp(1, capacity.tokens),
            drafts: options.drafts.min(capacity.drafts),
            ..options
        };
        Scheduler {
            memory: Memory::new(&capacity, options.prefix_caching),
            capacity,
            options,
            running: Vec::new(),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            next_id: 0,
            counts: Counts::default(),
            failed: Vec::new(),
            admitted: Vec::new(),
        }
    }

    /// What requests have to fit in. A sequence has at most the tokens of the context, or of all
    /// pages if they hold less.
    pub fn limits(&self) -> Limits {
        let held = u64::from(self.capacity.pages) * u64::from(self.capacity.page_tokens);
        Limits {
            context: self.capacity.context.min(u32::try_from(held).unwrap_or(u32::MAX)),
            vocabulary: self.capacity.vocabulary,
            top: self.capacity.top,
        }
    }

    /// Adds a sequence. The answer is cut where the context ends.
    pub fn add(&mut self, request: Request) -> Result<SequenceId, Refused> {
        let limits = self.limits();
        limits.check(&request)?;
        let id = SequenceId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back(Sequence::new(id, request, limits.context));
        Ok(id)
    }

    /// Ends a sequence. What it held is free for the next step. A sequence that has ended is none
    /// to cancel.
    pub fn cancel(&mut self, id: SequenceId) {
        if let Ok(i) = self.running.binary_search_by_key(&id, |sequence| sequence.id) {
            let sequence = self.running.remove(i);
            self.release(sequence);
        }
        self.waiting.retain(|sequence| sequence.id != id);
    }

    /// Takes in the outputs of the oldest step in flight.
    pub fn finish_step(&mut self, outputs: Vec<Output>) -> Vec<Update> {
        let flights = self.in_flight.pop_front().unwrap_or_default();
        flights.into_iter().zip(outputs).filter_map(|(flight, output)| self.finish(flight, output)).collect()
    }

    /// Takes the sequences that have failed since the last call.
    pub fn take_failed(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failed)
    }

    /// Ends the sequences of all steps in flight, whose executor has lost what it held. All others are computed again.
    pub fn abandon_steps(&mut self, reason: &str) {
        for flight in std::mem::take(&mut self.in_flight).into_iter().flatten() {
            self.fail(flight.sequence, reason);
        }
        self.memory.clear();
        for mut sequence in std::mem::take(&mut self.running) {
            (sequence.holding, sequence.computed) = (None, 0);
            let i = self.waiting.partition_point(|other| other.id < sequence.id);
            self.waiting.insert(i, sequence);
        }
    }

    /// Ends a sequence that cannot be computed. Later prompts share nothing of what is wrong.
    fn fail(&mut self, id: SequenceId, reason: &str) {
        if let Ok(i) = self.running.binary_search_by_key(&id, |sequence| sequence.id) {
            self.running.remove(i).holding.into_iter().for_each(|holding| self.memory.release(holding));
        } else {
            let others = self.waiting.len();
            self.waiting.retain(|sequence| sequence.id != id);
            if self.waiting.len() == others {
                return;
            }
        }
        self.failed.push(Failure { sequence: id, reason: reason.to_owned() });
    }

    fn finish(&mut self, flight: Flight, output: Output) -> Option<Update> {
        if let Some(reason) = output.failed {
            self.fail(flight.sequence, &reason);
            return None;
        }
        let sequence = match self.running.binary_search_by_key(&flight.sequence, |sequence| sequence.id) {
            Ok(i) => &mut self.running[i],
            Err(_) => self.waiting.iter_mut().find(|sequence| sequence.id == flight.sequence)?,
        };
        sequence.score(flight.position, output.scored);
        if !flight.samples {
            return None;
        }
        if flight.draft > 0 {
            self.counts.drafts += 1;
            self.counts.draft_tokens += u64::from(flight.draft);
            let accepted = output.sampled.len().saturating_sub(1);
            self.counts.accepted.iter_mut().take(accepted).for_each(|count| *count += 1);
        }
        // Accepted drafts are in the cache, the last token and rejected drafts are not.
        if sequence.holding.is_some() {
            let accepted = (output.sampled.len() as u32).saturating_sub(1);
            sequence.computed = sequence.computed - flight.draft + accepted;
        }
        sequence.pending = sequence.pending.saturating_sub(1);
        sequence.pending_drafts -= flight.draft;
        let (tokens, finished) = if sequence.only_scores() {
            (Vec::new(), Some(Finished::Length))
        } else {
            sequence.accept(output.sampled)
        };
        let update = Update { sequence: sequence.id, prompt: sequence.take_prompt(), tokens, finished };
        if finished.is_some() {
            self.cancel(flight.sequence);
        }
        Some(update)
    }

    /// Releases what a sequence holds, and keeps its prefix for later prompts.
    fn release(&mut self, mut sequence: Sequence) -> Sequence {
        if let Some(mut holding) = sequence.holding.take() {
            let computed = sequence.tokens.len().min(sequence.computed as usize);
            self.memory.publish(&mut holding, &sequence.tokens[..computed]);
            self.memory.release(holding);
        }
        sequence.computed = 0;
        sequence
    }

    /// Sequences that got memory for the first time since the last call.
    pub fn take_admitted(&mut self) -> Vec<SequenceId> {
        std::mem::take(&mut self.admitted)
    }

    /// Whether no sequence is left.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Steps that were planned and not finished.
    pub fn steps_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What has happened since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        Usage {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            ..self.memory.usage()
        }
    }

    /// Whether every page and slot is accounted for: each has exactly the references of the
    /// sequences and prefixes that hold it. For tests.
    pub fn is_consistent(&self) -> bool {
        self.memory.is_consistent(self.running.iter().filter_map(|sequence| sequence.holding.as_ref()))
    }
}

/// What requests have to fit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most tokens of one sequence.
    pub context: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// The most alternatives that a log-probability can list.
    pub top: u32,
}

impl Limits {
    /// Whether a scheduler with these limits accepts the request.
    pub fn check(&self, request: &Request) -> Result<(), Refused> {
        let Limits { context, vocabulary, top } = *self;
        let prompt = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
        if prompt == 0 {
            return Err(Refused::EmptyPrompt);
        }
        if prompt > context || (prompt == context && request.max_tokens > 0) {
            return Err(Refused::TooLong { prompt, context });
        }
        let wanted = request.log_probabilities.max(request.prompt_log_probabilities).unwrap_or(0);
        if wanted > top {
            return Err(Refused::TooManyAlternatives { wanted, top });
        }
        let biased = request.draw.logit_bias.iter().map(|(token, _)| token);
        let mut tokens = request.prompt.iter().chain(biased).chain(&request.stop_tokens);
        match tokens.find(|token| **token >= vocabulary) {
            Some(token) => Err(Refused::NoSuchToken { token: *token, vocabulary }),
            None => Ok(()),
        }
    }
}
