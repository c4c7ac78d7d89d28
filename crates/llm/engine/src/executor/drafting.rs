//! Executors whose drafts can be seen.

use warpwright_llm_step::{Executor, Slot, Step, Token};

use crate::error::Result;

/// An executor whose drafts can be seen and replaced.
pub(super) trait Drafting: Executor {
    /// Makes what steps need before the first one.
    fn warm_up(&mut self) -> Result<()>;
    /// Refuses a step that contradicts the capacity.
    fn expect_step(&self, step: &Step) -> Result<()>;
    /// Ends the waits of other ranks for this one, which has failed.
    fn abort(&self);
    /// Makes the collective operations of all ranks as new, after all have recovered.
    fn rejoin(&self) -> Result<()>;
    /// The tokens that follow the last one of a slot, perhaps.
    fn drafted(&self, slot: Slot) -> Result<Vec<Token>>;
    /// Replaces the first ones of them.
    fn propose(&mut self, slot: Slot, tokens: &[Token]) -> Result<()>;
}
