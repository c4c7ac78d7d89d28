//! A scheduler and a toy that run together.

use std::collections::HashMap;
use std::sync::Arc;

use super::alone::{Wanted, parity_mask};
use warpwright_llm_serving::scheduler::{
    Finished, Guide, Options, PromptDone, Request, Scheduler, SequenceId, Update,
};
use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{Capacity, Executor, Token, TokenMask};

pub(crate) const CAPACITY: Capacity = Capacity {
    page_tokens: 4,
    pages: 64,
    slots: 16,
    stateful: true,
    sequences: 8,
    tokens: 64,
    context: 128,
    vocabulary: 60,
    drafts: 0,
    top: 5,
};

/// What became of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<Token>,
    pub(crate) prompt: Option<PromptDone>,
    pub(crate) finished: Option<Finished>,
    /// The step that ended it.
    pub(crate) step: u64,
}

pub(crate) struct Harness {
    pub(crate) scheduler: Scheduler,
    pub(crate) capacity: Capacity,
    pub(crate) answers: HashMap<SequenceId, Answer>,
    toy: Toy,
    /// Steps that may be in flight.
    depth: usize,
}

impl Harness {
    pub(crate) fn new(capacity: Capacity, options: Options, depth: usize) -> Harness {
        Harness {
            scheduler: Scheduler::new(capacity, options),
            capacity,
            answers: HashMap::new(),
            toy: Toy::new(capacity),
            depth,
        }
    }

    pub(crate) fn add(&mut self, wanted: &Wanted) -> SequenceId {
        let id = self.scheduler.add(request(wanted, self.capacity.vocabulary)).unwrap();
        self.answers.insert(id, Answer::default());
        id
    }

    /// Submits one step if there is one, and reads results so that at most `depth - 1` steps stay
    /// in flight. Returns false when there is nothing to do.
    pub(crate) fn turn(&mut self) -> bool {
        let step = self.scheduler.next_step();
        let planned = step.is_some();
        if let Some(step) = step {
            self.toy.submit(step).unwrap();
        }
        assert!(self.scheduler.is_consistent(), "a page or a slot is lost");
        let keep = if planned { self.depth - 1 } else { 0 };
        let mut read = false;
        while self.scheduler.steps_in_flight() > keep {
            read = true;
            let outputs = self.toy.wait().unwrap();
            for update in self.scheduler.finish_step(outputs) {
                self.take(update);
            }
            if !planned {
                break;
            }
        }
        planned || read
    }

    fn take(&mut self, update: Update) {
        let step = self.scheduler.counts().steps;
        let answer = self.answers.get_mut(&update.sequence).expect("an update of a known sequence");
        assert!(answer.finished.is_none(), "an update after the end");
        answer.tokens.extend(update.tokens.iter().map(|sampled| sampled.token));
        answer.finished = update.finished;
        answer.step = step;
        if let Some(prompt) = update.prompt {
            assert!(answer.prompt.replace(prompt).is_none(), "two ends of a prompt");
        }
    }

    /// Turns until nothing is left to do.
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            if !self.turn() {
                assert!(self.scheduler.is_idle(), "stalled: {:?}", self.scheduler.usage());
                return;
            }
        }
        panic!("no end: {:?}", self.scheduler.usage());
    }
}

pub(crate) fn request(wanted: &Wanted, vocabulary: u32) -> Request {
    Request {
        prompt: wanted.prompt.clone(),
        max_tokens: wanted.max_tokens,
        min_tokens: wanted.min_tokens,
        stop_tokens: wanted.stop_tokens.clone(),
        draw: wanted.draw.clone(),
        log_probabilities: None,
        prompt_log_probabilities: None,
        guide: wanted.guided.then(|| Box::new(Parity { vocabulary, offset: 0 }) as Box<dyn Guide>),
    }
}

#[derive(Debug)]
struct Parity {
    vocabulary: u32,
    offset: u32,
}

impl Guide for Parity {
    fn allowed(&mut self) -> Arc<TokenMask> {
        parity_mask(self.vocabulary, self.offset)
    }

    fn advance(&mut self, token: Token) {
        assert_eq!(token % 2, self.offset % 2, "a token that was not allowed");
        self.offset += 1;
    }

    fn another(&self) -> Box<dyn Guide> {
        Box::new(Parity { ..*self })
    }
}
