//! Steps with prompts.

use warpwright_llm_step::{Chunk, Output};

use super::chunks::{is_decode, some_of};
use super::model_executor::ModelExecutor;
use super::pending::Pending;
use super::{batches, logits};
use crate::error::Result;
use crate::layers::Shape;
use crate::number::Number;

/// Decodes from which they run apart from the prompts of their step. The kernels of prompts take
/// the states of all sequences out of their slots and back: with as many decodes, that takes longer than
/// to read the weights twice.
const MANY_DECODES: usize = 32;

impl<T: Number> ModelExecutor<T> {
    /// A step with prompts, and perhaps decodes.
    pub(super) fn mixed(&mut self, chunks: &[Chunk]) -> Result<Pending> {
        let (decodes, prompts): (Vec<usize>, Vec<usize>) =
            (0..chunks.len()).partition(|at| is_decode(&chunks[*at]));
        if decodes.len() < MANY_DECODES || prompts.is_empty() {
            return self.together(chunks);
        }
        let of_decodes = some_of(chunks, &decodes);
        let of_decodes = self.decode(Shape::of(&of_decodes, self.model.cache), &of_decodes)?;
        let of_prompts = self.together(&some_of(chunks, &prompts))?;
        Ok(Pending::of_parts(chunks.len(), [(decodes, of_decodes), (prompts, of_prompts)]))
    }

    /// One pass over all chunks. Nothing waits for the device, unless the host has to see logits.
    pub(super) fn together(&mut self, chunks: &[Chunk]) -> Result<Pending> {
        let Self { operations, stream, model, capacity, batches, drawings, free, .. } = self;
        let shape = Shape::of(chunks, model.cache);
        let batch = batches.next(operations.device(), batches::largest(capacity), shape)?;
        batch.fill(stream, chunks, capacity.page_tokens, capacity.slots)?;
        let x = model.forward((operations, stream), batch)?;
        let (mut pass, decoder, tokens) = model.pass((operations, stream), batch);
        let pending = match logits::drawn(decoder, &mut pass, (&x, chunks), tokens, (drawings, free))? {
            Some(drawn) => {
                Pending { outputs: vec![Output::default(); chunks.len()], drawn, ..Pending::default() }
            }
            None => {
                let outputs = logits::outputs(decoder, &mut pass, &x, chunks, tokens)?;
                Pending { outputs, ..Pending::default() }
            }
        };
        match capacity.drafts {
            0 => model.memory.give(x),
            _ => self.draft_after(chunks, x)?,
        }
        Ok(pending)
    }
}
