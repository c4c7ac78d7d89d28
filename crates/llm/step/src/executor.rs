//! What runs steps.

use crate::{Capacity, Chunk, Output, Slot};

/// One forward pass over chunks of several sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Copies of state, done in this order before any chunk: snapshots of prefixes, and sequences
    /// that start from one.
    pub copies: Vec<CopyState>,
    /// The chunks. They do not depend on each other.
    pub chunks: Vec<Chunk>,
}

/// The state of slot `from` replaces that of slot `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyState {
    /// The source.
    pub from: Slot,
    /// The destination.
    pub to: Slot,
}

/// Runs steps in the order in which they are submitted.
///
/// The state after a step is that of its chunks run one after the other. Whether steps run before
/// `submit` returns, while the host works, or in `wait` is up to the executor.
pub trait Executor: Send {
    /// What the executor can hold.
    fn capacity(&self) -> Capacity;

    /// Queues a step. It does not wait for the device.
    fn submit(&mut self, step: Step) -> Result<(), ExecutorError>;

    /// Waits for the oldest step whose results have not been read. One output per chunk, in the
    /// order of the chunks.
    fn wait(&mut self) -> Result<Vec<Output>, ExecutorError>;

    /// Makes the executor ready for other steps after one failed: those that were submitted are forgotten.
    ///
    /// # Errors
    /// It runs no further step.
    fn recover(&mut self) -> Result<(), ExecutorError> {
        Err(ExecutorError::new("the executor runs no step after one that failed"))
    }
}

/// A step failed. What the executor holds is lost: pages, state and steps that were submitted.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ExecutorError(Box<dyn std::error::Error + Send + Sync>);

impl ExecutorError {
    /// From the executor's own error, or from a message.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ExecutorError {
        ExecutorError(source.into())
    }
}
