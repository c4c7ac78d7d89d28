//! A decode: one token of each sequence, whose kernels are a CUDA graph for each number of sequences.
//!
//! Nothing waits for the host: a token is sampled on the device, and the next step reads it there. The
//! host reads it later.

use std::collections::hash_map::Entry;

use warpwright::runtime::{Buffer, Device, Graph};
use warpwright_llm_step::{Chunk, Output, sample};

use super::drawing::Drawing;
use super::logits::is_on_host;
use super::{ModelExecutor, Pending};
use crate::error::{EngineError, Result};
use crate::kernels::tokens::remember;
use crate::layers::{Batch, Shape};
use crate::number::Number;

/// What is kept for decodes of a shape.
pub(super) struct Decode {
    batch: Batch,
    drawing: Drawing,
    /// The logits, after a step.
    logits: Buffer<f32>,
    graph: Option<Graph>,
}

impl Decode {
    fn new(device: &Device, shape: Shape, vocabulary: u32) -> Result<Self> {
        let count = shape.sequences as usize;
        Ok(Self {
            batch: Batch::new(device, shape)?,
            drawing: Drawing::new(device, count, vocabulary)?,
            logits: device.uninitialized(count * vocabulary as usize)?,
            graph: None,
        })
    }
}

impl<T: Number> ModelExecutor<T> {
    /// Starts a decode.
    pub(super) fn decode(&mut self, shape: Shape, chunks: &[Chunk]) -> Result<Pending> {
        let Self { operations, stream, model, capacity, decodes, free, .. } = self;
        let (device, vocabulary) = (operations.device().clone(), capacity.vocabulary);
        let decode = match decodes.entry(shape) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Decode::new(&device, shape, vocabulary)?),
        };
        decode.batch.fill(stream, chunks, capacity.page_tokens, capacity.slots)?;
        let samplings = chunks.iter().map(|chunk| chunk.sampling.as_ref());
        decode.drawing.set(stream, samplings.clone())?;
        if decode.graph.is_none() {
            let Decode { batch, drawing, logits, .. } = decode;
            let graph = stream.capture(|stream| {
                let x = model.forward((operations, stream), batch)?;
                let (mut pass, decoder, tokens) = model.pass((operations, stream), batch);
                decoder.logits(&mut pass, &x, None, logits)?;
                drawing.draw((operations, stream), logits)?;
                let to = (&*batch.slots, &*batch.lengths);
                remember((operations, stream), &drawing.sampled, to, tokens)?;
                pass.note_sampling(logits.bytes());
                model.memory.give(x);
                Ok::<_, EngineError>(())
            })?;
            decode.graph = Some(graph);
        }
        if let Some(graph) = &decode.graph {
            graph.launch(stream)?;
        }
        let wants = |sampling: &warpwright_llm_step::Sampling| sampling.log_probabilities.is_some();
        let rows = samplings.clone().map(|sampling| sampling.is_some_and(wants)).enumerate().collect();
        let mut drawn = decode.drawing.read((&device, stream), free, rows)?;
        for (at, (chunk, sampling)) in chunks.iter().zip(samplings).enumerate() {
            if let Some(sampling) = sampling.filter(|sampling| is_on_host(sampling)) {
                let logits = decode.logits.read(at * vocabulary as usize..(at + 1) * vocabulary as usize)?;
                let of_row = sample(&logits, sampling);
                model.tokens.last.write_at(chunk.slot.0 as usize, &[of_row.token])?;
                drawn.on_host.push((at, of_row));
            }
        }
        Ok(Pending { outputs: vec![Output::default(); chunks.len()], drawn: vec![drawn] })
    }
}
