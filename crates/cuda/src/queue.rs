//! Queues of work: what makes a stream asynchronous to the host.
//!
//! A queue has a thread while it has work. Work waits for points of other queues, which are always of work that was
//! added before, so that no circle arises.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long the thread of an empty queue waits for more.
const PATIENCE: Duration = Duration::from_millis(200);

type Task = Box<dyn FnOnce() + Send>;

/// Work in order.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    work: VecDeque<(Vec<Point>, Task)>,
    added: u64,
    completed: u64,
    has_thread: bool,
}

/// The end of some work of a queue.
#[derive(Clone)]
pub(crate) struct Point {
    queue: Arc<Queue>,
    number: u64,
}

impl Point {
    pub(crate) fn is_reached(&self) -> bool {
        self.queue.state().completed >= self.number
    }

    pub(crate) fn wait(&self) {
        let mut state = self.queue.state();
        while state.completed < self.number {
            state = self.queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of all its work so far; `None` if that is reached.
    pub(crate) fn end(self: &Arc<Self>) -> Option<Point> {
        let state = self.state();
        (state.completed < state.added).then(|| Point { queue: self.clone(), number: state.added })
    }

    /// Adds work, which begins when its predecessors and those points are reached.
    pub(crate) fn add(self: &Arc<Self>, after: Vec<Point>, task: Task) -> Point {
        let mut state = self.state();
        state.added += 1;
        let number = state.added;
        state.work.push_back((after, task));
        if !state.has_thread {
            state.has_thread = true;
            let queue = self.clone();
            let started = thread::Builder::new().name("stream".to_owned()).spawn(move || queue.work());
            if started.is_err() {
                // The host has no thread left: the work is done here.
                drop(state);
                self.work();
                return Point { queue: self.clone(), number };
            }
        }
        drop(state);
        self.changed.notify_all();
        Point { queue: self.clone(), number }
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            let Some((after, task)) = state.work.pop_front() else {
                let (woken, timeout) =
                    self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if timeout.timed_out() && state.work.is_empty() {
                    state.has_thread = false;
                    return;
                }
                continue;
            };
            drop(state);
            after.iter().for_each(Point::wait);
            // A task reports its own failures. One that panics is complete, so that nobody waits for it.
            let _ = catch_unwind(AssertUnwindSafe(task));
            state = self.state();
            state.completed += 1;
            self.changed.notify_all();
        }
    }
}
