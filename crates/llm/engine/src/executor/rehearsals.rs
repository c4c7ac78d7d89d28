//! Steps that threads rehearse on devices that execute nothing, so that their kernels are compiled.
//!
//! The driver compiles one kernel at a time in a process, however many threads wait: 39 s for those of 9B and 32
//! sequences on an H200, where its cache on disk makes them 1 s. So other processes compile them for that cache, and
//! rehearsals have a time, after which one thread goes on while steps run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use crate::error::{EngineError, Result};
use crate::layers::Shape;

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Answers alone.
    Answers(Shape),
    /// Prompts of `each` tokens, behind as many tokens of their sequences.
    Prompts { sequences: u32, each: u32, behind: u32 },
}

impl Kind {
    /// Kinds that most programs need come first.
    pub(super) fn rank(&self) -> u32 {
        match self {
            Self::Answers(shape) if shape.sequences.is_power_of_two() => 0,
            Self::Prompts { sequences: 1, each, behind: 0 } if each.is_power_of_two() => 1,
            Self::Answers(_) => 2,
            Self::Prompts { .. } => 3,
        }
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
    /// Threads of which each prepares kinds of steps by one of `prepare`, until `end` or the last kind.
    pub(super) fn start<P>(kinds: Vec<Kind>, prepare: Vec<P>, end: Option<Instant>) -> Self
    where
        P: FnMut(Kind) -> Result<()> + Send + 'static,
    {
        let progress = Arc::new(Progress {
            kinds,
            next: AtomicUsize::new(0),
            threads: AtomicUsize::new(prepare.len()),
            rehearsed: Mutex::default(),
            changed: Condvar::new(),
        });
        let spawn = |(index, prepare): (usize, P)| {
            let progress = progress.clone();
            thread::spawn(move || progress.rehearse(index, prepare))
        };
        let threads = prepare.into_iter().enumerate().map(spawn).collect();
        Self { progress, threads, end }
    }

    /// The kinds of steps that are rehearsed: all, or those that were in time.
    pub(super) fn wait(&self) -> Result<FxHashSet<Kind>> {
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
    fn rehearse(&self, index: usize, mut prepare: impl FnMut(Kind) -> Result<()>) {
        let _told = TellOnPanic(self);
        while index < self.threads.load(Ordering::Relaxed) {
            let Some(kind) = self.kinds.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let outcome = prepare(*kind);
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
