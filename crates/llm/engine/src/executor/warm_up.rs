//! What steps need, made before the first one.
//!
//! ```text
//! rehearsals, on several threads     all steps on devices that execute nothing: kernels are compiled
//! while weights are loaded
//!
//! warm-up, when they are loaded      graphs of steps of answers; prompts, for which memory is taken
//! ```
//!
//! The driver compiles one kernel at a time, however many threads wait: 39 s for those of 9B and 32 sequences on an
//! H200, where its cache on disk makes them 1 s. So rehearsals have a time, after which one thread goes on while steps
//! run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Kind {
    /// Kinds that most programs need come first.
    fn rank(&self) -> u32 {
        match self {
            Self::Answers(shape) if shape.sequences.is_power_of_two() => 0,
            Self::Prompts { sequences: 1, each, behind: 0 } if each.is_power_of_two() => 1,
            Self::Answers(_) => 2,
            Self::Prompts { .. } => 3,
        }
    }
}

impl<T: Number> ModelExecutor<T> {
    /// Takes memory, and makes a graph of each step of answers, as far as their kernels are compiled. What is in the
    /// caches is lost.
    pub(super) fn make_warm(&mut self) -> Result<()> {
        let rehearsed = self.rehearsals.as_ref().map(Rehearsals::wait).transpose()?;
        let is_ready = |kind: &Kind| rehearsed.as_ref().is_none_or(|rehearsed| rehearsed.contains(kind));
        let answers = self.kinds_of_answers().into_iter().rev();
        let kinds = self.longest_prompts().chain(self.several_prompts()).chain(answers);
        // The largest come first, so that memory need not grow.
        kinds.filter(is_ready).collect::<Vec<_>>().into_iter().try_for_each(|kind| self.prepare(kind))
    }

    /// The steps of answers alone.
    fn kinds_of_answers(&self) -> Vec<Kind> {
        let (each, page) = (1 + self.capacity.drafts, self.model.cache.page_size);
        let mut kinds: Vec<Kind> = vec![];
        for sequences in all_padded(self.capacity.sequences) {
            for entries in Shape::entries_of_few(self.model.cache) {
                let shape = Shape::of_few(sequences, each, entries * page, self.model.cache);
                kinds.push(Kind::Answers(shape));
            }
        }
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
        kinds.extend(self.several_prompts());
        kinds
    }

    /// All kinds of steps.
    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = self.kinds_of_answers();
        kinds.extend(self.all_prompts());
        let mut seen = FxHashSet::default();
        kinds.retain(|kind| seen.insert(*kind));
        kinds.sort_by_key(Kind::rank);
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
    /// Rehearses all steps, on a thread for each core of the host that a rank has. Steps that are rehearsed within
    /// `time` are those that a warm-up prepares; ranks prepare all, because they have to prepare the same.
    pub(super) fn start<T: Number>(&self, time: Duration) -> Result<Rehearsals> {
        let ranks = self.communicator.map_or(1, Communicator::ranks) as usize;
        let number = thread::available_parallelism().map_or(1, usize::from).div_ceil(ranks);
        let executors = (0..number).map(|_| self.executor::<T>()).collect::<Result<Vec<_>>>()?;
        let progress = Arc::new(Progress {
            kinds: executors.first().map(ModelExecutor::kinds).unwrap_or_default(),
            next: AtomicUsize::new(0),
            threads: AtomicUsize::new(number),
            rehearsed: Mutex::default(),
            changed: Condvar::new(),
        });
        let spawn = |(index, executor): (usize, ModelExecutor<T>)| {
            let progress = progress.clone();
            thread::spawn(move || progress.rehearse(index, executor))
        };
        let threads = executors.into_iter().enumerate().map(spawn).collect();
        let end = (ranks == 1).then(|| Instant::now() + time);
        Ok(Rehearsals { progress, threads, end })
    }

    /// An executor that executes nothing.
    fn executor<T: Number>(&self) -> Result<ModelExecutor<T>> {
        let operations = self.operations.rehearsal();
        let device = operations.device().clone();
        let communicator = self.communicator.map(|all| rehearsal_of(all, &device)).transpose()?;
        let mut loader = Loader::rehearsing(self.checkpoint, &device, self.format);
        loader = loader.sharded(self.sharding.cloned());
        let decoder = build::<T>(self.config, &mut loader)?;
        ModelExecutor::new(decoder, self.config, (operations, communicator), self.limits)
    }
}

/// Threads that rehearse steps.
pub(super) struct Rehearsals {
    progress: Arc<Progress>,
    threads: Vec<JoinHandle<()>>,
    /// When a warm-up no longer waits for them.
    end: Option<Instant>,
}

/// What the threads share.
struct Progress {
    kinds: Vec<Kind>,
    /// The next kind that a thread takes.
    next: AtomicUsize,
    /// Threads that go on: all, one while steps run, none at the end.
    threads: AtomicUsize,
    rehearsed: Mutex<Rehearsed>,
    changed: Condvar,
}

#[derive(Default)]
struct Rehearsed {
    kinds: FxHashSet<Kind>,
    error: Option<EngineError>,
    /// Whether a thread has panicked.
    is_broken: bool,
}

impl Rehearsals {
    /// The kinds of steps that are rehearsed: all, or those that were in time.
    fn wait(&self) -> Result<FxHashSet<Kind>> {
        let Progress { kinds, threads, changed, .. } = &*self.progress;
        let mut rehearsed = self.progress.lock();
        while rehearsed.kinds.len() < kinds.len() && rehearsed.error.is_none() && !rehearsed.is_broken {
            let left = self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            let woken = changed.wait_timeout(rehearsed, left).unwrap_or_else(PoisonError::into_inner);
            rehearsed = woken.0;
        }
        threads.store(1, Ordering::Relaxed);
        rehearsed.error.take().map_or_else(|| Ok(rehearsed.kinds.clone()), Err)
    }
}

impl Drop for Rehearsals {
    fn drop(&mut self) {
        // The driver must not be in use when the process ends.
        self.progress.threads.store(0, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Rehearsed> {
        self.rehearsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rehearses kinds that no other thread has taken.
    fn rehearse<T: Number>(&self, index: usize, mut executor: ModelExecutor<T>) {
        let _told = TellOnPanic(self);
        while index < self.threads.load(Ordering::Relaxed) {
            let Some(kind) = self.kinds.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let outcome = executor.prepare(*kind);
            let mut rehearsed = self.lock();
            match outcome {
                Ok(()) => drop(rehearsed.kinds.insert(*kind)),
                Err(error) => rehearsed.error = Some(error),
            }
            self.changed.notify_all();
        }
    }
}

/// Ends the wait for a thread that panics.
struct TellOnPanic<'l>(&'l Progress);

impl Drop for TellOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

/// The communicator of a rehearsal's device, with the rank of `communicator`.
fn rehearsal_of(communicator: &Communicator, device: &Device) -> Result<Communicator> {
    let rank = communicator.rank();
    let of_rank = |other| if other == rank { device.clone() } else { device.rehearsal() };
    let devices: Vec<Device> = (0..communicator.ranks()).map(of_rank).collect();
    Ok(Communicator::of_devices(&devices)?.remove(rank as usize))
}
