//! Tokens that the device draws from rows of logits, and the host reads later.

use rustc_hash::FxHashMap;
use warpwright::runtime::{Buffer, Device, HostBuffer, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sampling::{PARAMETER_WORDS, SamplingBuffers, SamplingParameters};
use warpwright_llm_step::{Output, Sampled, Sampling};

use super::in_turn::STEPS;
use crate::error::{EngineError, Result};
use crate::upload::Upload;

/// The memory of the device for a number of rows.
pub(super) struct Drawing {
    vocabulary: u32,
    parameters: Upload<u32>,
    pub(super) sampled: Buffer<u32>,
    log_probabilities: Buffer<f32>,
}

/// Memory of the host for results, by the number of rows or sequences.
#[derive(Default)]
pub(super) struct FreeResults {
    results: FxHashMap<usize, Vec<Results>>,
    counts: FxHashMap<usize, Vec<HostBuffer<u32>>>,
}

impl FreeResults {
    /// Makes memory for results of that number of rows, if there is none.
    pub(super) fn reserve(&mut self, device: &Device, count: usize) -> Result<()> {
        let free = self.results.entry(count).or_default();
        if free.is_empty() {
            for _ in 0..STEPS {
                free.push(Results {
                    tokens: device.host_buffer(count)?,
                    log_probabilities: device.host_buffer(count)?,
                });
            }
        }
        Ok(())
    }

    /// The same of counts of that number of sequences.
    pub(super) fn reserve_counts(&mut self, device: &Device, count: usize) -> Result<()> {
        let free = self.counts.entry(count).or_default();
        if free.is_empty() {
            for _ in 0..STEPS {
                free.push(device.host_buffer(count)?);
            }
        }
        Ok(())
    }
}

/// Tokens and log-probabilities on the host.
pub(super) struct Results {
    tokens: HostBuffer<u32>,
    log_probabilities: HostBuffer<f32>,
}

/// Tokens that are copied to the host.
pub(super) struct Drawn {
    results: Results,
    /// The chunk of each row, and whether its log-probability is wanted.
    pub(super) rows: Vec<(usize, bool)>,
    /// What the reference sampler drew in place of the device.
    pub(super) on_host: Vec<(usize, Sampled)>,
    /// The rows of each sequence, and how many of them count; `None`: all do.
    counts: Option<(HostBuffer<u32>, usize)>,
}

impl Drawing {
    pub(super) fn new(device: &Device, rows: usize, vocabulary: u32) -> Result<Self> {
        Ok(Self {
            vocabulary,
            parameters: Upload::new(device, rows * PARAMETER_WORDS)?,
            sampled: device.uninitialized(rows)?,
            log_probabilities: device.uninitialized(rows)?,
        })
    }

    /// How the tokens of rows are drawn. Further rows take the most probable one.
    pub(super) fn set<'l>(
        &mut self,
        stream: &Stream,
        samplings: impl Iterator<Item = Option<&'l Sampling>>,
    ) -> Result<()> {
        let mut words: Vec<u32> = samplings.flat_map(|sampling| parameters(sampling).words()).collect();
        let greedy = SamplingParameters { temperature: 0.0, ..Default::default() }.words();
        words.extend(greedy.iter().copied().cycle().take(self.parameters.len() - words.len()));
        self.parameters.set(stream, &words)
    }

    /// How the token of each row is drawn, for a kernel that writes it.
    pub(super) fn parameters_mut(&mut self) -> &mut Buffer<u32> {
        self.parameters.device_mut()
    }

    /// Draws the tokens.
    pub(super) fn draw(
        &mut self,
        (operations, stream): (&Operations, &Stream),
        logits: &Buffer<f32>,
    ) -> Result<()> {
        let shape = (self.sampled.len() as u32, self.vocabulary);
        let buffers = SamplingBuffers {
            logits,
            parameters: &self.parameters,
            history: None,
            tokens: &mut self.sampled,
            log_probabilities: Some(&mut self.log_probabilities),
        };
        operations.sample(stream, shape, buffers)?;
        Ok(())
    }

    /// Copies the results to the host, without waiting. `rows` are the chunks of the first ones.
    pub(super) fn read(
        &self,
        (device, stream): (&Device, &Stream),
        free: &mut FreeResults,
        rows: Vec<(usize, bool)>,
    ) -> Result<Drawn> {
        let count = self.sampled.len();
        free.reserve(device, count)?;
        let mut results = free.results.get_mut(&count).and_then(Vec::pop).expect("some are reserved");
        stream.copy_to_host(&mut results.tokens, &self.sampled)?;
        stream.copy_to_host(&mut results.log_probabilities, &self.log_probabilities)?;
        Ok(Drawn { results, rows, on_host: vec![], counts: None })
    }
}

impl Drawn {
    /// Leaves rows out: the first `counts` of the `each` rows of a sequence count.
    pub(super) fn count(
        &mut self,
        (device, stream): (&Device, &Stream),
        free: &mut FreeResults,
        (counts, each): (&Buffer<u32>, usize),
    ) -> Result<()> {
        free.reserve_counts(device, counts.len())?;
        let mut on_host = free.counts.get_mut(&counts.len()).and_then(Vec::pop).expect("some are reserved");
        stream.copy_to_host(&mut on_host, counts)?;
        self.counts = Some((on_host, each));
        Ok(())
    }

    /// Waits for the tokens and adds them to the outputs of their chunks.
    pub(super) fn finish(self, outputs: &mut [Output], free: &mut FreeResults) -> Result<()> {
        let Self { results, rows, on_host, counts } = self;
        let (tokens, log_probabilities) = (results.tokens.as_slice()?, results.log_probabilities.as_slice()?);
        let of_rows = counts.as_ref().map(|(counts, each)| Ok::<_, EngineError>((counts.as_slice()?, *each)));
        let of_rows = of_rows.transpose()?;
        let has_token =
            |row: usize| of_rows.is_none_or(|(counts, each)| row % each < counts[row / each] as usize);
        for (at, (chunk, wants_log_probability)) in
            rows.into_iter().enumerate().filter(|(at, _)| has_token(*at))
        {
            let found = log_probabilities[at];
            // One that is not finite tells of logits that are not.
            let log_probability = if wants_log_probability || !found.is_finite() { found } else { 0.0 };
            outputs[chunk].sampled.push(Sampled { token: tokens[at], log_probability, top: vec![] });
        }
        for (chunk, sampled) in on_host {
            outputs[chunk].sampled = vec![sampled];
        }
        free.results.entry(results.tokens.len()).or_default().push(results);
        if let Some((counts, _)) = counts {
            free.counts.entry(counts.len()).or_default().push(counts);
        }
        Ok(())
    }
}

/// What the device reads. Of a row that is not sampled, it takes the most probable token.
pub(super) fn parameters(sampling: Option<&Sampling>) -> SamplingParameters {
    let Some(sampling) = sampling else {
        return SamplingParameters { temperature: 0.0, ..Default::default() };
    };
    SamplingParameters {
        temperature: sampling.temperature,
        top_k: sampling.top_k,
        top_p: sampling.top_p,
        min_p: sampling.min_p,
        seed: sampling.seed,
        position: sampling.offset,
        ..Default::default()
    }
}
