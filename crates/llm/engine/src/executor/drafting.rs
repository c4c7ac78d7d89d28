//! Drafts, and executors whose drafts can be seen.

use warpwright_llm_step::{Executor, Slot, Step, Token};

use crate::error::Result;

/// What follows the last token of a slot, perhaps.
pub(super) struct Draft {
    /// The token that the slot sampled last, and its position.
    pub(super) after: Token,
    pub(super) position: u32,
    pub(super) tokens: Vec<Token>,
}

/// An executor whose drafts can be seen and replaced.
pub(super) trait Drafting: Executor {
    /// Refuses a step that contradicts the capacity.
    fn expect_step(&self, step: &Step) -> Result<()>;
    /// Ends the waits of other ranks for this one, which has failed.
    fn abort(&self);
    /// The tokens that follow the last one of a slot, perhaps.
    fn drafted(&self, slot: Slot) -> &[Token];
    /// Replaces them, if the slot has any.
    fn propose(&mut self, slot: Slot, tokens: &[Token]);
}
