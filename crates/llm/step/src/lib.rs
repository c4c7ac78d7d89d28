//! What the scheduler hands to the engine in a step, and what comes back: plain data.
//!
//! A sequence lives in *pages* of the paged KV cache and in one *slot*, which holds its recurrent
//! state and the token that it sampled last. The scheduler owns both: it names pages and slots in
//! each [`Chunk`], and an [`Executor`] only reads and writes what a chunk names.

mod capacity;
mod chunk;
mod executor;
mod output;
pub mod random;
mod sample;
mod sampling;
pub mod toy;

pub use capacity::Capacity;
pub use chunk::{Chunk, Page, Score, Slot, Token, Tokens};
pub use executor::{CopyState, Executor, ExecutorError, Step};
pub use output::{Output, Sampled};
pub use sample::{log_probabilities, sample};
pub use sampling::{Adjustment, Sampling, TokenMask};
