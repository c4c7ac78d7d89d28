//! Logits that are no numbers, and the layer that they come from.
//!
//! The sampler tells of them: a row with a NaN has no token, and a log-probability beside an infinite logit is NaN. Then
//! the chunk is computed again, and its rows are read after each layer: that takes time only where an answer has failed.

use warpwright::prelude::bf16;
use warpwright::runtime::Buffer;
use warpwright_kernels::sampling::NO_TOKEN;
use warpwright_llm_step::{Chunk, CopyState, Output, Sampled, Sampling, Token, Tokens, sample};

use super::{ModelExecutor, Pending, batches};
use crate::error::Result;
use crate::layers::decoder::Cache;
use crate::layers::decoder::Decoder;
use crate::layers::{Pass, Shape};
use crate::number::Number;

/// What stands for a token where logits are not finite.
pub(super) const FAILED: Sampled = Sampled { token: NO_TOKEN, log_probability: f32::NAN, top: vec![] };

/// Samples a row of logits on the host.
pub(super) fn sample_finite(logits: &[f32], sampling: &Sampling) -> Sampled {
    if logits.iter().all(|logit| logit.is_finite()) { sample(logits, sampling) } else { FAILED }
}

fn has_failed(output: &Output) -> bool {
    let mut all = output.sampled.iter().chain(&output.scored);
    all.any(|sampled| sampled.token == NO_TOKEN || !sampled.log_probability.is_finite())
}

/// The token that each slot sampled last, as far as outputs have been read.
pub(super) struct LastTokens(Vec<Token>);

impl LastTokens {
    pub(super) fn new(slots: u32) -> Self {
        Self(vec![0; slots as usize])
    }

    fn copy(&mut self, copies: &[CopyState]) {
        for CopyState { from, to } in copies {
            self.0[to.0 as usize] = self.0[from.0 as usize];
        }
    }
}

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
