//! Steps that the executor refuses.

use std::collections::BTreeSet;

use warpwright_llm_step::{Chunk, Slot, Step, Tokens};

use super::model_executor::ModelExecutor;
use crate::error::{EngineError, Result};
use crate::number::Number;

fn refuse<V>(reason: String) -> Result<V> {
    Err(EngineError::Step(reason))
}

impl<T: Number> ModelExecutor<T> {
    fn expect_slot(&self, slot: Slot) -> Result<()> {
        let slots = self.capacity.slots;
        if slot.0 < slots { Ok(()) } else { refuse(format!("slot {} of {slots} does not exist", slot.0)) }
    }

    /// Refuses copies and chunks that contradict the capacity or each other.
    pub(super) fn check(&self, step: &Step) -> Result<()> {
        let capacity = self.capacity;
        let of_chunk = |chunk: &Chunk| u64::from(chunk.tokens.len()) + u64::from(chunk.draft);
        let tokens: u64 = step.chunks.iter().map(of_chunk).sum();
        if tokens > capacity.tokens.into() || step.chunks.len() > capacity.sequences as usize {
            let chunks = step.chunks.len();
            return refuse(format!(
                "{tokens} tokens in {chunks} chunks are more than {} in {}",
                capacity.tokens, capacity.sequences
            ));
        }
        let slots: BTreeSet<u32> = step.chunks.iter().map(|chunk| chunk.slot.0).collect();
        if slots.len() != step.chunks.len() {
            return refuse("two chunks have the same slot".to_owned());
        }
        let mut slots = step.copies.iter().flat_map(|copy| [copy.from, copy.to]);
        slots.try_for_each(|slot| self.expect_slot(slot))?;
        step.chunks.iter().try_for_each(|chunk| self.check_chunk(chunk))
    }

    fn check_chunk(&self, chunk: &Chunk) -> Result<()> {
        let capacity = self.capacity;
        self.expect_slot(chunk.slot)?;
        let count = chunk.tokens.len();
        let end = u64::from(chunk.position) + u64::from(count);
        if count == 0 || end > capacity.context.into() {
            let (first, most) = (chunk.position, capacity.context);
            return refuse(format!("a chunk has the tokens {first} to {end}; give 1 or more, up to {most}"));
        }
        if end > chunk.pages.len() as u64 * u64::from(capacity.page_tokens) {
            return refuse(format!("{} pages do not hold {end} tokens", chunk.pages.len()));
        }
        if let Some(page) = chunk.pages.iter().find(|page| page.0 >= capacity.pages) {
            return refuse(format!("page {} of {} does not exist", page.0, capacity.pages));
        }
        if let Tokens::Known(tokens) = &chunk.tokens
            && let Some(token) = tokens.iter().find(|token| **token >= capacity.vocabulary)
        {
            return refuse(format!("token {token} is not in the vocabulary of {}", capacity.vocabulary));
        }
        let targets = chunk.score.as_ref().map_or(0, |score| score.targets.len());
        if targets > count as usize || chunk.draft > capacity.drafts {
            let draft = chunk.draft;
            return refuse(format!("{targets} targets and {draft} drafts of a chunk of {count} tokens"));
        }
        Ok(())
    }
}
