//! Steps with prompts.

use warpwright_llm_step::{Chunk, Output};

use super::{ModelExecutor, decode, kept_batch, logits};
use crate::error::Result;
use crate::layers::Shape;
use crate::number::Number;

/// Decodes from which they run apart from the prompts of their step. The kernels of prompts take
/// the states of all sequences out of their slots and back: with as many decodes, that takes longer than
/// to read the weights twice.
const MANY_DECODES: usize = 32;

impl<T: Number> ModelExecutor<T> {
    /// A step with prompts, and perhaps decodes.
    pub(super) fn mixed(&mut self, chunks: &[Chunk]) -> Result<Vec<Output>> {
        let is_decode = |at: &usize| decode::is_decode(&chunks[*at]);
        let (decodes, prompts): (Vec<usize>, Vec<usize>) = (0..chunks.len()).partition(is_decode);
        if decodes.len() < MANY_DECODES || prompts.is_empty() {
            return self.together(chunks);
        }
        let of = |indices: &[usize]| -> Vec<Chunk> { indices.iter().map(|at| chunks[*at].clone()).collect() };
        let of_decodes = of(&decodes);
        let in_flight = self.decode(Shape::of(&of_decodes, self.capacity.page_tokens), &of_decodes)?;
        let of_prompts = self.together(&of(&prompts))?;
        let of_decodes = self.finish(in_flight)?;
        let mut outputs = vec![Output::default(); chunks.len()];
        let all = decodes.into_iter().zip(of_decodes).chain(prompts.into_iter().zip(of_prompts));
        all.for_each(|(at, output)| outputs[at] = output);
        Ok(outputs)
    }

    /// One pass over all chunks.
    fn together(&mut self, chunks: &[Chunk]) -> Result<Vec<Output>> {
        let Self { operations, stream, model, capacity, batches, .. } = self;
        let batch = kept_batch(batches, operations.device(), Shape::of(chunks, capacity.page_tokens))?;
        batch.fill(stream, chunks, capacity.page_tokens, capacity.slots)?;
        let x = model.forward((operations, stream), batch, None)?;
        let (mut pass, decoder, last) = model.pass((operations, stream), batch);
        let outputs = logits::outputs(decoder, &mut pass, &x, chunks, last)?;
        model.memory.give(x);
        Ok(outputs)
    }
}
