//! The thread's side of a service.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use warpwright_llm_step::{Executor, ExecutorError};

use super::{Command, Failed, Shared, Status};
use crate::scheduler::{Failure, Request, Scheduler, SequenceId, Update};
use crate::trace::{Trace, Traced};

/// Owns the scheduler and the executor.
pub(super) struct Worker {
    scheduler: Scheduler,
    executor: Box<dyn Executor>,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    tickets: HashMap<u64, SequenceId>,
    sequences: HashMap<SequenceId, (u64, UnboundedSender<Result<Update, Failed>>)>,
    /// When sequences got memory, until their first token.
    admitted: HashMap<SequenceId, Instant>,
    /// Steps in flight, if they are traced.
    submitted: VecDeque<Traced>,
    /// When the last step was found to have ended.
    ended: Instant,
    trace: Option<Trace>,
}

/// Steps that are submitted before the results of the first are read: the host plans one while the
/// device runs another.
const STEPS_IN_FLIGHT: usize = 2;

impl Worker {
    pub(super) fn new(
        scheduler: Scheduler,
        executor: Box<dyn Executor>,
        commands: Receiver<Command>,
        shared: Arc<Shared>,
        trace: Option<Trace>,
    ) -> Worker {
        Worker {
            scheduler,
            executor,
            commands,
            shared,
            tickets: HashMap::new(),
            sequences: HashMap::new(),
            admitted: HashMap::new(),
            submitted: VecDeque::new(),
            ended: Instant::now(),
            trace,
        }
    }

    /// Runs until no handle of the service is left, it is stopped, or the executor fails for good.
    pub(super) fn run(mut self) {
        let failed = FailOnPanic(self.shared.clone());
        while self.receive() {
            if let Err(error) = self.turn() {
                if self.executor.recover().is_err() {
                    self.shared.lock().1 = Some(Failed::Engine(error.to_string()));
                    break;
                }
                self.submitted.clear();
                self.scheduler.abandon_steps(&error.to_string());
            }
            self.scheduler.take_failed().into_iter().for_each(|failure| self.fail(failure));
            self.shared.lock().0 = Status { usage: self.scheduler.usage(), counts: self.scheduler.counts() };
        }
        drop(failed);
    }

    /// Takes in commands, and waits for one if there is nothing else to do. False at the end.
    fn receive(&mut self) -> bool {
        loop {
            let command = if self.scheduler.is_idle() && self.scheduler.steps_in_flight() == 0 {
                self.trace.iter_mut().for_each(Trace::flush);
                self.commands.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                self.commands.try_recv()
            };
            match command {
                Ok(Command::Add { ticket, request, updates }) => self.add(ticket, request, updates),
                Ok(Command::Cancel { ticket }) => self.cancel(ticket),
                Err(TryRecvError::Empty) => return true,
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
            }
            self.shared.lock().0.usage = self.scheduler.usage();
        }
    }

    fn add(&mut self, ticket: u64, request: Request, updates: UnboundedSender<Result<Update, Failed>>) {
        let arrived = json!({ "prompt_tokens": request.prompt.len(), "max_tokens": request.max_tokens });
        // The handle has checked the request. If that was wrong, the dropped sender ends the
        // generation.
        let Ok(sequence) = self.scheduler.add(request) else { return };
        if let Some(trace) = &mut self.trace {
            trace.request("b", ticket, "request", arrived);
        }
        self.tickets.insert(ticket, sequence);
        self.sequences.insert(sequence, (ticket, updates));
    }

    fn cancel(&mut self, ticket: u64) {
        let Some(sequence) = self.tickets.remove(&ticket) else { return };
        self.sequences.remove(&sequence);
        self.admitted.remove(&sequence);
        self.scheduler.cancel(sequence);
        if let Some(trace) = &mut self.trace {
            trace.request("e", ticket, "request", json!({ "finished": "cancelled" }));
        }
    }

    /// Submits a step, and reads the results of earlier ones.
    fn turn(&mut self) -> Result<(), ExecutorError> {
        let begin = Instant::now();
        let step = self.scheduler.next_step();
        for sequence in self.scheduler.take_admitted() {
            self.admitted.entry(sequence).or_insert(begin);
        }
        let keep = if step.is_some() { STEPS_IN_FLIGHT - 1 } else { 0 };
        if let Some(step) = step {
            let tokens: u32 = step.chunks.iter().map(|chunk| chunk.tokens.len()).sum();
            self.shared.step_tokens.observe(tokens.into());
            self.trace_host("plan", begin);
            let begin = Instant::now();
            self.submitted.extend(self.trace.as_ref().map(|trace| trace.submit(&step)));
            self.executor.submit(step)?;
            self.trace_host("submit", begin);
        }
        if self.scheduler.steps_in_flight() > keep {
            let outputs = self.executor.wait()?;
            let begin = Instant::now();
            self.trace_step(begin);
            for mut update in self.scheduler.finish_step(outputs) {
                if let Some(prompt) = &mut update.prompt {
                    prompt.admitted = self.admitted.remove(&update.sequence);
                }
                self.send(update);
            }
            self.trace_host("results", begin);
        }
        Ok(())
    }

    fn send(&mut self, update: Update) {
        let Some((ticket, updates)) = self.sequences.get(&update.sequence) else { return };
        let (sequence, ticket, finished) = (update.sequence, *ticket, update.finished);
        if let Some(trace) = &mut self.trace {
            if let Some(prompt) = &update.prompt {
                trace.request("n", ticket, "first token", json!({ "cached": prompt.cached }));
            }
            if let Some(finished) = finished {
                trace.request("e", ticket, "request", json!({ "finished": format!("{finished:?}") }));
            }
        }
        // Nobody receives after a drop, which sends a command to cancel.
        drop(updates.send(Ok(update)));
        if finished.is_some() {
            self.tickets.remove(&ticket);
            self.sequences.remove(&sequence);
        }
    }

    fn fail(&mut self, Failure { sequence, reason }: Failure) {
        let Some((ticket, updates)) = self.sequences.remove(&sequence) else { return };
        self.tickets.remove(&ticket);
        if let Some(trace) = &mut self.trace {
            trace.request("e", ticket, "request", json!({ "failed": reason }));
        }
        drop(updates.send(Err(Failed::Answer(reason))));
    }

    fn trace_host(&mut self, name: &str, begin: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.host(name, begin);
        }
    }

    /// Traces the oldest step in flight, which has ended.
    fn trace_step(&mut self, end: Instant) {
        if let (Some(trace), Some(step)) = (&mut self.trace, self.submitted.pop_front()) {
            trace.step(step, self.ended, end, self.scheduler.usage());
        }
        self.ended = end;
    }
}

/// Marks the service as failed if its thread panics.
struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().1 = Some(Failed::Engine("its thread has panicked".to_owned()));
        }
    }
}
