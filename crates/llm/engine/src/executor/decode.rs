//! A decode: one token of each sequence, whose kernels are a CUDA graph for each number of sequences.
//!
//! Nothing waits for the host: a token is sampled on the device, and the next step reads it there. The
//! host reads it later.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use warpwright::runtime::{Device, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_llm_step::{Capacity, Chunk, Output};

use super::failures::sample_finite;
use super::kept::Decode;
use super::logits::is_on_host;
use super::model::Model;
use super::model_executor::ModelExecutor;
use super::pending::Pending;
use crate::error::{EngineError, Result};
use crate::layers::{Shape, padded};
use crate::number::Number;

impl<T: Number> ModelExecutor<T> {
    /// Makes the graph of decodes of a shape.
    pub(super) fn prepare_decode(&mut self, shape: Shape) -> Result<()> {
        let Self { operations, stream, model, capacity, decodes, free, .. } = self;
        let decode = kept(decodes, operations.device(), shape, capacity.vocabulary)?;
        free.reserve(operations.device(), shape.sequences as usize)?;
        model.capture_decode((operations, stream), decode, capacity)
    }

    /// Starts a decode.
    pub(super) fn decode(&mut self, shape: Shape, chunks: &[Chunk]) -> Result<Pending> {
        let Self { operations, stream, model, capacity, decodes, free, .. } = self;
        let (device, vocabulary) = (operations.device().clone(), capacity.vocabulary as usize);
        let decode = kept(decodes, &device, shape, capacity.vocabulary)?;
        decode.batch.fill(stream, chunks, capacity.page_tokens, capacity.slots)?;
        let samplings = chunks.iter().map(|chunk| chunk.sampling.as_ref());
        decode.drawing.set(stream, samplings.clone())?;
        if decode.graph.is_none() {
            model.capture_decode((operations, stream), decode, capacity)?;
        }
        if let Some(graph) = &decode.graph {
            graph.launch(stream)?;
        }
        let wants = |sampling: &warpwright_llm_step::Sampling| sampling.log_probabilities.is_some();
        let rows = samplings.clone().map(|sampling| sampling.is_some_and(wants)).enumerate().collect();
        let mut drawn = decode.drawing.read((&device, stream), free, rows)?;
        let on_host = |sampling: &&warpwright_llm_step::Sampling| is_on_host(sampling);
        for (at, (chunk, sampling)) in chunks.iter().zip(samplings).enumerate() {
            if let (Some(sampling), Some(logits)) = (sampling.filter(on_host), &model.logits) {
                let of_row = sample_finite(&logits.read(at * vocabulary..(at + 1) * vocabulary)?, sampling);
                model.tokens.last.write_at(chunk.slot.0 as usize, &[of_row.token])?;
                drawn.on_host.push((at, of_row));
            }
        }
        Ok(Pending {
            outputs: vec![Output::default(); chunks.len()],
            drawn: vec![drawn],
            ..Pending::default()
        })
    }
}

/// What is kept for decodes of a shape.
fn kept<'l>(
    decodes: &'l mut FxHashMap<Shape, Decode>,
    device: &Device,
    shape: Shape,
    vocabulary: u32,
) -> Result<&'l mut Decode> {
    Ok(match decodes.entry(shape) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(Decode::new(device, shape, vocabulary)?),
    })
}

impl<T: Number> Model<T> {
    /// Makes the graph of decodes of a shape. All shapes have their logits in the same memory.
    fn capture_decode(
        &mut self,
        (operations, stream): (&Operations, &Stream),
        decode: &mut Decode,
        capacity: &Capacity,
    ) -> Result<()> {
        let (rows, vocabulary) = (padded(capacity.sequences), capacity.vocabulary as usize);
        let mut logits = match self.logits.take() {
            Some(logits) => logits,
            None => operations.device().uninitialized(rows as usize * vocabulary)?,
        };
        let Decode { batch, drawing, graph } = decode;
        logits.resize(batch.shape.sequences as usize * vocabulary)?;
        *graph = Some(stream.capture(|stream| {
            let x = self.forward((operations, stream), batch)?;
            let (mut pass, decoder, tokens) = self.pass((operations, stream), batch);
            decoder.logits(&mut pass, &x, None, &mut logits)?;
            drawing.draw((operations, stream), &logits)?;
            let slots = (&*batch.slots, &*batch.lengths);
            operations.remember_tokens(stream, &drawing.sampled, slots, tokens)?;
            pass.note_sampling(logits.bytes());
            self.memory.give(x);
            Ok::<_, EngineError>(())
        })?);
        logits.resize(logits.capacity())?;
        self.logits = Some(logits);
        Ok(())
    }
}
