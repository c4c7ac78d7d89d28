//! The layer that logits which are no numbers come from.
//!
//! The chunk is computed again, and its rows are read after each layer: that takes time only where an answer has failed.

use warpwright::prelude::bf16;
use warpwright::runtime::Buffer;
use warpwright_llm_step::{Chunk, Output, Tokens};

use super::batches;
use super::failures::has_failed;
use super::model_executor::ModelExecutor;
use super::pending::Pending;
use crate::error::Result;
use crate::layers::cache::Cache;
use crate::layers::decoder::Decoder;
use crate::layers::{Pass, Shape};
use crate::number::Number;

impl<T: Number> ModelExecutor<T> {
    /// Replaces outputs of logits that are not finite by the reason.
    pub(super) fn find_failures(
        &mut self,
        Pending { copies, chunks, .. }: Pending,
        outputs: &mut [Output],
    ) -> Result<()> {
        self.last_tokens.copy(&copies);
        for (chunk, output) in chunks.into_iter().zip(outputs) {
            let slot = chunk.slot.0 as usize;
            if has_failed(output) {
                *output = Output { failed: Some(self.reason(chunk)?), ..Output::default() };
            } else if let Some(sampled) = output.sampled.last() {
                self.last_tokens.0[slot] = sampled.token;
            }
        }
        Ok(())
    }

    /// Why the logits of a chunk are not finite.
    fn reason(&mut self, mut chunk: Chunk) -> Result<String> {
        if chunk.tokens == Tokens::Last {
            chunk.tokens = Tokens::Known(vec![self.last_tokens.0[chunk.slot.0 as usize]]);
        }
        let chunk = Chunk { sampling: None, draft: 0, score: None, ..chunk };
        let rows = chunk.tokens.len() as usize;
        let chunks = [chunk];
        let Self { operations, stream, model, capacity, batches, .. } = self;
        let shape = Shape::of(&chunks, model.cache);
        let batch = batches.next(operations.device(), batches::largest(capacity), shape)?;
        batch.fill(stream, &chunks, capacity.page_tokens, capacity.slots)?;
        model.resolve((operations, stream), batch)?;
        let (mut pass, decoder, _, caches) = model.parts((operations, stream), batch, None);
        let from = first_not_finite(decoder, &mut pass, caches, rows)?;
        Ok(format!("the logits of a token are NaN or infinite: {from}"))
    }
}

/// What first makes rows that are not finite.
fn first_not_finite<T: Number>(
    decoder: &Decoder<T>,
    pass: &mut Pass<'_, T>,
    caches: &mut [Cache<T>],
    rows: usize,
) -> Result<String> {
    let elements = rows * decoder.embedding.k as usize;
    let mut x = decoder.embed(pass)?;
    let mut from = (!is_finite(&x, elements)?).then(|| "the embedding has such numbers".to_owned());
    for (layer, (block, cache)) in decoder.blocks.iter().zip(caches).enumerate() {
        if from.is_some() {
            break;
        }
        block.add(pass, &mut x, cache)?;
        if !is_finite(&x, elements)? {
            from = Some(format!("layer {layer} is the first that computes such numbers"));
        }
    }
    pass.memory.give(x);
    Ok(from.unwrap_or_else(|| "the last norm or the head computes them, no layer before".to_owned()))
}

/// Whether the first elements of a buffer are finite.
fn is_finite<T: Number>(x: &Buffer<T>, elements: usize) -> Result<bool> {
    Ok(match T::IS_BF16 {
        true => x.cast::<bf16>().read(0..elements)?.into_iter().all(|number| number.to_f32().is_finite()),
        false => x.cast::<f32>().read(0..elements)?.into_iter().all(f32::is_finite),
    })
}
