//! A small deterministic model on the host, for tests of what runs on top of an [`Executor`].
//!
//! Its next token is a hash of all tokens before it. The hash is computed twice: from the tokens
//! that its pages hold, and from the state of its slot. A wrong page, slot, order or position, or a
//! lost chunk, therefore changes the answer; what no executor could run is an error.

mod cache;
mod logits;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use cache::{Cache, State};
use logits::Logits;

use crate::{
    Capacity, Chunk, Executor, ExecutorError, Output, Step, Token, Tokens, log_probabilities, sample,
};

/// The toy executor.
pub struct Toy {
    capacity: Capacity,
    logits: Logits,
    cache: Cache,
    results: VecDeque<Vec<Output>>,
    step_time: Duration,
    steps: u64,
    fails_at: Option<u64>,
    fails_step_of: Option<Token>,
    fails_chunk_of: Option<Token>,
}

impl Toy {
    /// A toy of this capacity.
    pub fn new(capacity: Capacity) -> Toy {
        Toy {
            capacity,
            logits: Logits { vocabulary: capacity.vocabulary, scripts: Vec::new() },
            cache: Cache::new(&capacity),
            results: VecDeque::new(),
            step_time: Duration::ZERO,
            steps: 0,
            fails_at: None,
            fails_step_of: None,
            fails_chunk_of: None,
        }
    }

    /// After the last `trigger` in a sequence, `answer` follows with near certainty.
    pub fn scripted(mut self, trigger: Vec<Token>, answer: Vec<Token>) -> Toy {
        self.logits.scripts.push((trigger, answer));
        self
    }

    /// Every step takes this time.
    pub fn step_time(mut self, step_time: Duration) -> Toy {
        self.step_time = step_time;
        self
    }

    /// The step of this number (from 0) fails, and all after it.
    pub fn fails_at(mut self, step: u64) -> Toy {
        self.fails_at = Some(step);
        self
    }

    /// Steps with this token fail, and those after them do not.
    pub fn fails_step_of(mut self, token: Token) -> Toy {
        self.fails_step_of = Some(token);
        self
    }

    /// Chunks with this token fail, and the others of their steps do not.
    pub fn fails_chunk_of(mut self, token: Token) -> Toy {
        self.fails_chunk_of = Some(token);
        self
    }

    /// The logits after `tokens`, without pages and slots: what every step must agree with.
    pub fn logits(&self, tokens: &[Token]) -> Vec<f32> {
        let hash = tokens.iter().fold(State::default(), |state, token| state.after(*token)).hash;
        self.logits.after(hash, hash, tokens)
    }

    fn run(&mut self, chunk: &Chunk) -> Result<Output, ExecutorError> {
        if has(chunk, self.fails_chunk_of) {
            // The step in flight names a token of the slot still.
            self.cache.set_last(chunk.slot, 0, chunk.position + chunk.tokens.len());
            return Ok(Output { failed: Some("the toy was built to".to_owned()), ..Output::default() });
        }
        let (mut tokens, mut position) = match &chunk.tokens {
            Tokens::Known(tokens) => (VecDeque::from(tokens.clone()), chunk.position),
            Tokens::Last => {
                let (token, position) = self.cache.last(chunk.slot).ok_or_else(|| {
                    fault(format!("slot {} has sampled no token that a chunk could name", chunk.slot.0))
                })?;
                require(position <= chunk.position, || {
                    format!("a chunk at {} of a token at {position}", chunk.position)
                })?;
                (VecDeque::from([token]), position)
            }
        };
        let behind = u64::from(chunk.position - position);
        if chunk.position == 0 {
            self.cache.clear(chunk.slot);
        }
        let mut output = Output::default();
        let mut drafts = chunk.draft;
        let mut given = 0;
        while let Some(token) = tokens.pop_front() {
            let history = self.cache.store(chunk, position, token);
            let pages = history.hash();
            let state = if self.capacity.stateful { self.cache.hash(chunk.slot) } else { pages };
            position += 1;
            if let Some(score) = &chunk.score
                && let Some(target) = score.targets.get(given)
            {
                let logits = self.logits.after(pages, state, &history.tokens);
                output.scored.push(log_probabilities(&logits, *target, score.top));
            }
            given += 1;
            let Some(sampling) = chunk.sampling.as_ref().filter(|_| tokens.is_empty()) else { continue };
            let mut sampling = sampling.clone();
            sampling.offset = sampling.offset + output.sampled.len() as u64 - behind;
            let sampled = sample(&self.logits.after(pages, state, &history.tokens), &sampling);
            self.cache.set_last(chunk.slot, sampled.token, position);
            if drafts > 0 {
                drafts -= 1;
                // A draft is right two times out of three; a wrong one is written and rolled back.
                if !pages.is_multiple_of(3) {
                    tokens.push_back(sampled.token);
                } else {
                    let state = self.cache.state(chunk.slot);
                    self.cache.store(chunk, position, sampled.token ^ 1);
                    self.cache.restore(chunk.slot, state);
                    drafts = 0;
                }
            }
            output.sampled.push(sampled);
        }
        Ok(output)
    }

    /// What no executor could run.
    fn check(&self, step: &Step) -> Result<(), ExecutorError> {
        let capacity = &self.capacity;
        let sum: u32 = step.chunks.iter().map(|chunk| chunk.tokens.len() + chunk.draft).sum();
        require(sum <= capacity.tokens, || format!("{sum} tokens in a step for {}", capacity.tokens))?;
        require(step.chunks.len() as u32 <= capacity.sequences, || {
            format!("{} chunks in a step for {}", step.chunks.len(), capacity.sequences)
        })?;
        for copy in &step.copies {
            require(copy.from.0.max(copy.to.0) < capacity.slots, || format!("no such slot: {copy:?}"))?;
        }
        let mut slots = HashSet::new();
        let mut written = HashSet::new();
        for chunk in &step.chunks {
            require(chunk.slot.0 < capacity.slots, || format!("no such slot: {:?}", chunk.slot))?;
            require(slots.insert(chunk.slot), || format!("two chunks of {:?}", chunk.slot))?;
            require(chunk.draft <= capacity.drafts, || format!("{} drafts", chunk.draft))?;
            require(chunk.tokens.len() > 0, || format!("no tokens for {:?}", chunk.slot))?;
            let end = chunk.position + chunk.tokens.len() + chunk.draft;
            require(end <= capacity.context, || {
                format!("{end} tokens in a context of {}", capacity.context)
            })?;
            let pages = end.div_ceil(capacity.page_tokens) as usize;
            require(chunk.pages.len() >= pages, || format!("{end} tokens in {} pages", chunk.pages.len()))?;
            for page in &chunk.pages {
                require(page.0 < capacity.pages, || format!("no such page: {page:?}"))?;
            }
            for page in &chunk.pages[(chunk.position / capacity.page_tokens) as usize..pages] {
                require(written.insert(*page), || format!("two chunks write {page:?}"))?;
            }
            if let Tokens::Known(tokens) = &chunk.tokens {
                require(tokens.iter().all(|token| *token < capacity.vocabulary), || {
                    format!("a token beyond the vocabulary of {}", capacity.vocabulary)
                })?;
            }
        }
        let shared = |chunk: &&Chunk| {
            chunk.pages[..(chunk.position / capacity.page_tokens) as usize]
                .iter()
                .any(|p| written.contains(p))
        };
        require(!step.chunks.iter().any(|chunk| shared(&chunk)), || {
            "a chunk reads a page that another writes".into()
        })
    }
}

impl Executor for Toy {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn submit(&mut self, step: Step) -> Result<(), ExecutorError> {
        if self.fails_at.is_some_and(|at| self.steps >= at) {
            return Err(fault("the toy was built to fail at this step".into()));
        }
        if step.chunks.iter().any(|chunk| has(chunk, self.fails_step_of)) {
            return Err(fault("the toy was built to fail at this token".into()));
        }
        self.steps += 1;
        self.check(&step)?;
        for copy in &step.copies {
            self.cache.copy(copy);
        }
        let outputs = step.chunks.iter().map(|chunk| self.run(chunk)).collect::<Result<_, _>>()?;
        self.results.push_back(outputs);
        Ok(())
    }

    fn wait(&mut self) -> Result<Vec<Output>, ExecutorError> {
        std::thread::sleep(self.step_time);
        self.results.pop_front().ok_or_else(|| fault("no step was submitted".into()))
    }

    fn recover(&mut self) -> Result<(), ExecutorError> {
        self.results.clear();
        self.cache = Cache::new(&self.capacity);
        match self.fails_at.is_some_and(|at| self.steps >= at) {
            true => Err(fault("the toy was built to fail for good".into())),
            false => Ok(()),
        }
    }
}

/// Whether a chunk has the token.
fn has(chunk: &Chunk, token: Option<Token>) -> bool {
    token.is_some_and(|token| matches!(&chunk.tokens, Tokens::Known(tokens) if tokens.contains(&token)))
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), ExecutorError> {
    if holds { Ok(()) } else { Err(fault(message())) }
}

fn fault(message: String) -> ExecutorError {
    ExecutorError::new(message)
}
