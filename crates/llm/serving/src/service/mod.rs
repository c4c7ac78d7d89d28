//! A thread that owns the scheduler and the executor, and the handle through which tasks reach it.

mod worker;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use warpwright_llm_step::Executor;

use crate::scheduler::{Counts, Limits, Options, Refused, Request, Scheduler, Update, Usage};
use crate::trace::Trace;
use worker::Worker;

/// Generates for many tasks at once. Clones are handles of the same thread, which ends with the
/// last of them.
#[derive(Clone)]
pub struct Service {
    commands: Sender<Command>,
    shared: Arc<Shared>,
}

/// One sequence that is being generated. Dropping it cancels the sequence.
#[derive(Debug)]
pub struct Generation {
    ticket: u64,
    updates: UnboundedReceiver<Result<Update, Failed>>,
    commands: Sender<Command>,
    shared: Arc<Shared>,
}

/// A request was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// It can never run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Too many requests wait.
    #[error("The server is busy with {requests} sequences: try again later.")]
    Overloaded {
        /// Sequences that run or wait.
        requests: usize,
    },
    /// The executor failed.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// Why something is not generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The executor failed, and with it all that ran.
    #[error("The engine stopped: {0}.")]
    Engine(String),
    /// The answer cannot be computed; others go on.
    #[error("The answer cannot be computed: {0}.")]
    Answer(String),
}

/// The state of a service.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// What is in use.
    pub usage: Usage,
    /// What has happened.
    pub counts: Counts,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    most_requests: usize,
    requests: AtomicUsize,
    tickets: AtomicU64,
    status: Mutex<(Status, Option<Failed>)>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Option<Receiver<()>>>,
    step_tokens: Histogram,
    cache: Cache,
}

/// What the cache is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    pub(crate) page_tokens: u32,
    pub(crate) pages: u32,
    pub(crate) prefixes: bool,
}

enum Command {
    Add { ticket: u64, request: Request, updates: UnboundedSender<Result<Update, Failed>> },
    Cancel { ticket: u64 },
    Stop,
}

impl Service {
    /// Starts the thread. At most `most_requests` sequences run or wait.
    pub fn start(executor: Box<dyn Executor>, options: Options, most_requests: usize) -> Service {
        Service::traced(executor, options, most_requests, None)
    }

    /// The same with a trace of what it does.
    pub fn traced(
        executor: Box<dyn Executor>,
        options: Options,
        most_requests: usize,
        trace: Option<Trace>,
    ) -> Service {
        let capacity = executor.capacity();
        let cache = Cache {
            page_tokens: capacity.page_tokens,
            pages: capacity.pages,
            prefixes: options.prefix_caching,
        };
        let scheduler = Scheduler::new(capacity, options);
        let (commands, receiver) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let status = Status { usage: scheduler.usage(), counts: scheduler.counts() };
        let shared = Arc::new(Shared {
            limits: scheduler.limits(),
            most_requests,
            requests: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
            status: Mutex::new((status, None)),
            ended: Mutex::new(Some(ended)),
            step_tokens: Histogram::new(exponential_buckets(1.0, 2.0, 15)),
            cache,
        });
        let worker = Worker::new(scheduler, executor, receiver, shared.clone(), trace);
        std::thread::spawn(move || {
            worker.run();
            drop(ending);
        });
        Service { commands, shared }
    }

    /// What requests have to fit in.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Begins to generate.
    pub fn submit(&self, request: Request) -> Result<Generation, SubmitError> {
        self.shared.limits.check(&request)?;
        if let Some(failed) = self.failed() {
            return Err(failed.into());
        }
        let requests = self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let (sender, updates) = unbounded_channel();
        let ticket = self.shared.tickets.fetch_add(1, Ordering::Relaxed);
        // From here on, dropping the generation takes the request off the count.
        let generation =
            Generation { ticket, updates, commands: self.commands.clone(), shared: self.shared.clone() };
        if requests >= self.shared.most_requests {
            return Err(SubmitError::Overloaded { requests });
        }
        let command = Command::Add { ticket, request, updates: sender };
        self.commands.send(command).map_err(|_| self.shared.failure())?;
        Ok(generation)
    }

    /// Ends the thread, and with it what runs, and waits for its end at most so long: a step has no bound of its own.
    /// The trace is complete at the end.
    pub fn stop(&self, most: Duration) {
        // A thread that has ended receives nothing.
        drop(self.commands.send(Command::Stop));
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            // Nothing is ever sent.
            let _ = ended.recv_timeout(most);
        }
    }

    /// The state of the service.
    pub fn status(&self) -> Status {
        self.shared.lock().0
    }

    /// Why nothing can be generated any more, if so.
    pub fn failed(&self) -> Option<Failed> {
        self.shared.lock().1.clone()
    }

    /// The tokens of each step, for metrics.
    pub(crate) fn step_tokens(&self) -> Histogram {
        self.shared.step_tokens.clone()
    }

    /// What the cache is made of, for metrics.
    pub(crate) fn cache(&self) -> Cache {
        self.shared.cache
    }

    /// Sequences that run or wait.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Generation {
    /// The next update. `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Update, Failed>> {
        match self.updates.recv().await {
            Some(update) => {
                if update.as_ref().is_ok_and(|update| update.finished.is_none()) {
                    return Some(update);
                }
                self.updates.close();
                Some(update)
            }
            // The worker keeps the sender until the last update, which closes the receiver here.
            None if self.updates.is_closed() && self.shared.lock().1.is_none() => None,
            None => Some(Err(self.shared.failure())),
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.shared.requests.fetch_sub(1, Ordering::Relaxed);
        // A worker that has ended has nothing to cancel.
        drop(self.commands.send(Command::Cancel { ticket: self.ticket }));
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Status, Option<Failed>)> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> Failed {
        self.lock().1.clone().unwrap_or_else(|| Failed::Engine("its thread has ended".to_owned()))
    }
}
