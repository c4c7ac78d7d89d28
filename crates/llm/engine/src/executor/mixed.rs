//! Steps with prompts.

use warpwright_llm_step::{Chunk, Output};

use super::{ModelExecutor, Pending, decode, kept_batch, logits};
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
        let is_decode = |at: &usize| decode::is_decode(&chunks[*at]);
        let (decodes, prompts): (Vec<usize>, Vec<usize>) = (0..chunks.len()).partition(is_decode);
        if decodes.len() < MANY_DECODES || prompts.is_empty() {
            return self.together(chunks);
        }
        let of = |indices: &[usize]| -> Vec<Chunk> { indices.iter().map(|at| chunks[*at].clone()).collect() };
        let of_decodes = of(&decodes);
        let of_decodes = self.decode(Shape::of(&of_decodes, self.capacity.page_tokens), &of_decodes)?;
        let of_prompts = self.together(&of(&prompts))?;
        let mut all = Pending { outputs: vec![Output::default(); chunks.len()], drawn: vec![] };
        all.add(&decodes, of_decodes);
        all.add(&prompts, of_prompts);
        Ok(all)
    }

    /// One pass over all chunks. Nothing waits for the device, unless the host has to see logits.
    fn together(&mut self, chunks: &[Chunk]) -> Result<Pending> {
        let Self { operations, stream, model, capacity, batches, drawings, free, .. } = self;
        let batch = kept_batch(batches, operations.device(), Shape::of(chunks, capacity.page_tokens))?;
        batch.fill(stream, chunks, capacity.page_tokens, capacity.slots)?;
        let x = model.forward((operations, stream), batch, None)?;
        let (mut pass, decoder, last) = model.pass((operations, stream), batch);
        let pending = match logits::drawn(decoder, &mut pass, (&x, chunks), last, (drawings, free))? {
            Some(drawn) => Pending { outputs: vec![Output::default(); chunks.len()], drawn },
            None => {
                Pending { outputs: logits::outputs(decoder, &mut pass, &x, chunks, last)?, drawn: vec![] }
            }
        };
        model.memory.give(x);
        Ok(pending)
    }
}
