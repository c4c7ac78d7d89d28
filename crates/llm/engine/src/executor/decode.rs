//! A decode: one token of each sequence, whose kernels are a CUDA graph for each number of sequences.
//!
//! Nothing waits for the host: a token is sampled on the device, and the next step reads it there. The
//! host reads it later.

use std::collections::hash_map::Entry;

use warpwright::runtime::{Buffer, Device, Graph, HostBuffer};
use warpwright_kernels::sampling::{PARAMETER_WORDS, SamplingBuffers};
use warpwright_llm_step::{Chunk, Output, Sampled, sample};

use super::ModelExecutor;
use super::logits::{is_on_host, parameters};
use crate::error::{EngineError, Result};
use crate::kernels::tokens::remember;
use crate::layers::{Batch, Shape};
use crate::number::Number;
use crate::upload::Upload;

/// What is kept for decodes of a shape.
pub(super) struct Decode {
    batch: Batch,
    parameters: Upload<u32>,
    sampled: Buffer<u32>,
    log_probabilities: Buffer<f32>,
    /// The logits, after a step.
    logits: Buffer<f32>,
    graph: Option<Graph>,
    /// Memory of the host for results.
    free: Vec<Results>,
}

/// Tokens and log-probabilities on the host.
struct Results {
    tokens: HostBuffer<u32>,
    log_probabilities: HostBuffer<f32>,
}

/// A decode whose results are copied to the host.
pub(super) struct InFlight {
    shape: Shape,
    results: Results,
    /// Whether each chunk wants its log-probability.
    wanted: Vec<bool>,
    /// What the reference sampler drew.
    drawn: Vec<(usize, Sampled)>,
}

impl Decode {
    fn new(device: &Device, shape: Shape, vocabulary: u32) -> Result<Self> {
        let count = shape.sequences as usize;
        Ok(Self {
            batch: Batch::new(device, shape)?,
            parameters: Upload::new(device, count * PARAMETER_WORDS)?,
            sampled: device.uninitialized(count)?,
            log_probabilities: device.uninitialized(count)?,
            logits: device.uninitialized(count * vocabulary as usize)?,
            graph: None,
            free: vec![],
        })
    }
}

/// Whether a chunk is one token whose successor is sampled.
pub(super) fn is_decode(chunk: &Chunk) -> bool {
    chunk.tokens.len() == 1 && chunk.score.is_none() && chunk.sampling.is_some()
}

impl<T: Number> ModelExecutor<T> {
    /// Starts a decode.
    pub(super) fn decode(&mut self, shape: Shape, chunks: &[Chunk]) -> Result<InFlight> {
        let Self { operations, stream, model, capacity, decodes, .. } = self;
        let (device, vocabulary) = (operations.device().clone(), capacity.vocabulary);
        let decode = match decodes.entry(shape) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Decode::new(&device, shape, vocabulary)?),
        };
        decode.batch.fill(stream, chunks, capacity.page_tokens, capacity.slots)?;
        let samplings = chunks.iter().map(|chunk| chunk.sampling.as_ref());
        let mut words: Vec<u32> =
            samplings.clone().flat_map(|sampling| parameters(sampling).words()).collect();
        words.resize(shape.sequences as usize * PARAMETER_WORDS, 0);
        decode.parameters.set(stream, &words)?;
        if decode.graph.is_none() {
            let Decode { batch, parameters, sampled, log_probabilities, logits, .. } = decode;
            let graph = stream.capture(|stream| {
                let x = model.forward((operations, stream), batch, None)?;
                let (mut pass, decoder, last) = model.pass((operations, stream), batch);
                decoder.logits(&mut pass, &x, None, logits)?;
                let buffers = SamplingBuffers {
                    logits,
                    parameters,
                    history: None,
                    tokens: sampled,
                    log_probabilities: Some(log_probabilities),
                };
                operations.sample(stream, (shape.sequences, vocabulary), buffers)?;
                remember((operations, stream), sampled, &batch.slots, last)?;
                pass.note_sampling(logits.bytes());
                model.memory.give(x);
                Ok::<_, EngineError>(())
            })?;
            decode.graph = Some(graph);
        }
        if let Some(graph) = &decode.graph {
            graph.launch(stream)?;
        }
        let mut results = match decode.free.pop() {
            Some(results) => results,
            None => Results {
                tokens: device.host_buffer(shape.sequences as usize)?,
                log_probabilities: device.host_buffer(shape.sequences as usize)?,
            },
        };
        stream.copy_to_host(&mut results.tokens, &decode.sampled)?;
        stream.copy_to_host(&mut results.log_probabilities, &decode.log_probabilities)?;
        let mut drawn = vec![];
        for (at, (chunk, sampling)) in chunks.iter().zip(samplings.clone()).enumerate() {
            if let Some(sampling) = sampling.filter(|sampling| is_on_host(sampling)) {
                let logits = decode.logits.read(at * vocabulary as usize..(at + 1) * vocabulary as usize)?;
                let of_row = sample(&logits, sampling);
                model.last.write_at(chunk.slot.0 as usize, &[of_row.token])?;
                drawn.push((at, of_row));
            }
        }
        let wanted = |sampling: Option<&warpwright_llm_step::Sampling>| {
            sampling.is_some_and(|sampling| sampling.log_probabilities.is_some())
        };
        Ok(InFlight { shape, results, wanted: samplings.map(wanted).collect(), drawn })
    }

    /// Waits for a decode.
    pub(super) fn finish(&mut self, step: InFlight) -> Result<Vec<Output>> {
        let InFlight { shape, results, wanted, drawn } = step;
        let (tokens, log_probabilities) = (results.tokens.as_slice()?, results.log_probabilities.as_slice()?);
        let output = |(at, is_wanted): (usize, &bool)| {
            let log_probability = if *is_wanted { log_probabilities[at] } else { 0.0 };
            Output {
                sampled: vec![Sampled { token: tokens[at], log_probability, top: vec![] }],
                scored: vec![],
            }
        };
        let mut outputs: Vec<Output> = wanted.iter().enumerate().map(output).collect();
        for (at, of_row) in drawn {
            outputs[at].sampled = vec![of_row];
        }
        if let Some(decode) = self.decodes.get_mut(&shape) {
            decode.free.push(results);
        }
        Ok(outputs)
    }
}
