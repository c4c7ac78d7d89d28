//! What steps need, made before the first one.
//!
//! ```text
//! rehearsals, on several threads     all steps on devices that execute nothing: kernels are compiled
//! while weights are loaded
//!
//! warm-up, when they are loaded      graphs of steps of answers; prompts, for which memory is taken
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use warpwright::runtime::Device;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_llm_step::{Chunk, Executor, Page, Sampling, Slot, Step, Tokens};

use super::{Limits, ModelExecutor};
use crate::config::Config;
use crate::error::{EngineError, Result};
use crate::layers::{Shape, all_padded};
use crate::models::build;
use crate::number::Number;
use crate::sharding::Sharding;
use crate::weights::{Checkpoint, Format, Loader};

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Answers alone.
    Answers(Shape),
    /// Prompts of `each` tokens, behind as many tokens of their sequences.
    Prompts { sequences: u32, each: u32, behind: u32 },
}

/// Tokens of prompts of which a step has several.
const SHORT_PROMPT: u32 = 16;

/// Prompts that end in a step, of which each number has memory of its own.
const MANY_PROMPTS: u32 = 64;

impl<T: Number> ModelExecutor<T> {
    /// Takes memory, and makes a graph of each step of answers. What is in the caches is lost.
    pub(super) fn make_warm(&mut self) -> Result<()> {
        let answers = self.kinds_of_answers().into_iter();
        let prompts = self.longest_prompts().chain(self.several_prompts()).collect::<Vec<_>>();
        prompts.into_iter().chain(answers).try_for_each(|kind| self.prepare(kind))
    }

    /// The steps of answers alone, the most sequences first.
    fn kinds_of_answers(&self) -> Vec<Kind> {
        let (each, page) = (1 + self.capacity.drafts, self.model.cache.page_size);
        let mut kinds: Vec<Kind> = vec![];
        for sequences in all_padded(self.capacity.sequences) {
            for entries in Shape::entries_of_few(self.model.cache) {
                let shape = Shape::of_few(sequences, each, entries * page, self.model.cache);
                kinds.push(Kind::Answers(shape));
            }
        }
        kinds.reverse();
        kinds
    }

    /// A prompt for each size of memory, the longest first.
    fn longest_prompts(&self) -> impl Iterator<Item = Kind> + use<T> {
        let longest = self.capacity.tokens.min(self.capacity.context);
        let shorter = std::iter::successors(Some(longest.next_power_of_two() / 2), |tokens| Some(tokens / 2));
        let shorter = shorter.take_while(|tokens| *tokens > SHORT_PROMPT);
        std::iter::once(longest).chain(shorter).map(|each| Kind::Prompts { sequences: 1, each, behind: 0 })
    }

    /// Each number of short prompts.
    fn several_prompts(&self) -> impl Iterator<Item = Kind> + use<T> {
        let (tokens, each) = (self.capacity.tokens, SHORT_PROMPT.min(self.capacity.context));
        let most = self.capacity.sequences.min(MANY_PROMPTS);
        let numbers =
            all_padded(most).filter(move |sequences| *sequences <= most && sequences * each <= tokens);
        numbers.map(move |sequences| Kind::Prompts { sequences, each, behind: 0 })
    }

    /// Prompts of each number of tokens: one that begins, one behind other tokens, and several.
    fn all_prompts(&self) -> Vec<Kind> {
        const OF_SEVERAL: u32 = 64;
        let (tokens, context) = (self.capacity.tokens, self.capacity.context);
        let mut kinds = vec![];
        for length in all_padded(tokens).filter(|length| *length > 1).map(|length| length.min(tokens)) {
            let each = length.min(context);
            kinds.push(Kind::Prompts { sequences: 1, each, behind: 0 });
            kinds.push(Kind::Prompts { sequences: 1, each, behind: context - each });
            let sequences = (length / OF_SEVERAL).min(self.capacity.sequences);
            if sequences > 1 {
                kinds.push(Kind::Prompts { sequences, each: (length / sequences).min(context), behind: 0 });
            }
        }
        kinds.reverse();
        kinds
    }

    /// Runs a step of a kind, or makes its graph.
    fn prepare(&mut self, kind: Kind) -> Result<()> {
        match kind {
            Kind::Answers(shape) if self.capacity.drafts > 0 => self.prepare_verification(shape),
            Kind::Answers(shape) => self.prepare_decode(shape),
            Kind::Prompts { sequences, each, behind } => {
                let (page, pages) = (self.capacity.page_tokens, self.capacity.pages);
                let chunk = |sequence| Chunk {
                    slot: Slot(sequence),
                    position: behind,
                    tokens: Tokens::Known(vec![0; each as usize]),
                    pages: (0..(behind + each).div_ceil(page)).map(|at| Page(at % pages)).collect(),
                    sampling: Some(Sampling::greedy()),
                    draft: 0,
                    score: None,
                };
                let chunks = (0..sequences).map(chunk).collect();
                let pending = self.run(&Step { copies: vec![], chunks })?;
                self.pending.push_back(pending);
                self.wait().map(drop).map_err(|error| EngineError::Step(error.to_string()))
            }
        }
    }
}

/// A model whose steps are rehearsed.
pub(super) struct Rehearsal<'l> {
    pub(super) checkpoint: &'l Checkpoint,
    pub(super) format: Option<Format>,
    /// The model of a rank.
    pub(super) config: &'l Config,
    pub(super) sharding: Option<&'l Sharding>,
    pub(super) operations: &'l Operations,
    pub(super) communicator: Option<&'l Communicator>,
    pub(super) limits: Limits,
}

impl Rehearsal<'_> {
    /// Rehearses all steps on threads of `scope`, one for each core of the host that a rank has.
    pub(super) fn start<'s, T: Number>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        next: &'s AtomicUsize,
    ) -> Vec<thread::ScopedJoinHandle<'s, Result<()>>> {
        let ranks = self.communicator.map_or(1, Communicator::ranks) as usize;
        let threads = thread::available_parallelism().map_or(1, usize::from).div_ceil(ranks);
        (0..threads).map(|_| scope.spawn(|| self.run::<T>(next))).collect()
    }

    /// Rehearses steps that no other thread has taken.
    fn run<T: Number>(&self, next: &AtomicUsize) -> Result<()> {
        let operations = self.operations.rehearsal();
        let device = operations.device().clone();
        let communicator = self.communicator.map(|all| rehearsal_of(all, &device)).transpose()?;
        let mut loader = Loader::rehearsing(self.checkpoint, &device, self.format);
        loader = loader.sharded(self.sharding.cloned());
        let decoder = build::<T>(self.config, &mut loader)?;
        let mut executor = ModelExecutor::new(decoder, self.config, (operations, communicator), self.limits)?;
        let kinds: Vec<Kind> =
            executor.kinds_of_answers().into_iter().chain(executor.all_prompts()).collect();
        while let Some(kind) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
            executor.prepare(*kind)?;
        }
        Ok(())
    }
}

/// The communicator of a rehearsal's device, with the rank of `communicator`.
fn rehearsal_of(communicator: &Communicator, device: &Device) -> Result<Communicator> {
    let rank = communicator.rank();
    let of_rank = |other| if other == rank { device.clone() } else { device.rehearsal() };
    let devices: Vec<Device> = (0..communicator.ranks()).map(of_rank).collect();
    Ok(Communicator::of_devices(&devices)?.remove(rank as usize))
}
