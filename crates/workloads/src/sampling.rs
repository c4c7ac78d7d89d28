//! Sampling as a workload.

use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, compare,
    data_types,
};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;
use warpwright_kernels::sampling::SamplingTuning;
use warpwright_kernels::sampling::reference;
use warpwright_kernels::sampling::{SamplingBuffers, SamplingHistory, SamplingParameters};

data_types! {
    /// Types of logits.
    pub(crate) enum LogitType by with_logit_type { f32, bf16, f16 }
}

/// A token for each row of logits.
#[derive(Clone, Debug, Options)]
pub(crate) struct SamplingWorkload {
    /// Rows.
    #[option(default = 3, max = 1 << 14)]
    rows: u32,
    /// Tokens of the vocabulary.
    #[option(default = 1000, min = 1)]
    vocabulary: u32,
    /// Data type of the logits.
    #[option(name = "type")]
    element: LogitType,
    /// The divisor of the logits; 0 is greedy.
    #[option(default = 1.0)]
    temperature: f32,
    /// Tokens that are kept; 0: all.
    #[option(default = 50)]
    top_k: u32,
    /// Part of the probability that is kept.
    #[option(default = 0.9)]
    top_p: f32,
    /// Least probability, relative to the highest.
    #[option(default = 0.0)]
    min_p: f32,
    /// Earlier tokens of each row, with penalties.
    #[option(default = 0, max = 1 << 12)]
    history: u32,
    /// Compute log-probabilities.
    log_probabilities: bool,
    /// The configuration.
    #[option(flatten)]
    tuning: SamplingTuningOptions,
}

/// The buffers of a launch.
struct Set<T> {
    logits: Buffer<T>,
    parameters: Buffer<u32>,
    history: Option<[Buffer<u32>; 2]>,
    tokens: Buffer<u32>,
    log_probabilities: Option<Buffer<f32>>,
    seed: u64,
}

impl SamplingWorkload {
    /// The parameters of a row.
    fn parameters(&self, seed: u64, row: u32) -> SamplingParameters {
        SamplingParameters {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: 1.25,
            frequency_penalty: 0.5,
            presence_penalty: 0.25,
            history: self.history,
            seed: seed ^ 0x1234_5678_9abc_def0,
            position: u64::from(row) << 30,
        }
    }

    /// The earlier tokens of a row: distinct, and some beyond the vocabulary.
    fn history(&self, seed: u64, row: u32) -> Vec<(u32, u32)> {
        let mut random = Random::new(seed.wrapping_add(row.into()));
        let first = random.below(self.vocabulary.into()) as u32;
        (0..self.history).map(|entry| (first + 3 * entry, random.below(3) as u32)).collect()
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (rows, vocabulary, tuning) = (self.rows, self.vocabulary, self.tuning.tuning());
        let has_log_probabilities = self.log_probabilities;
        let operations = Operations::new(setup.device());
        let (this, of_rows) = (self.clone(), rows as usize);
        let capacity = self.history;
        let buffers = setup.buffers(self.work(), |seed| {
            let words = (0..rows).flat_map(|row| this.parameters(seed, row).words()).collect::<Vec<_>>();
            let entries: Vec<(u32, u32)> = (0..rows).flat_map(|row| this.history(seed, row)).collect();
            let column =
                |of: fn(&(u32, u32)) -> u32| setup.input(entries.len(), |_| entries.iter().map(of).collect());
            let history = if capacity > 0 { Some([column(|e| e.0)?, column(|e| e.1)?]) } else { None };
            Ok(Set {
                logits: setup.values::<T>(Values::Normal, seed, of_rows * vocabulary as usize)?,
                parameters: setup.input(words.len(), |_| words)?,
                history,
                tokens: setup.output(of_rows)?,
                log_probabilities: has_log_probabilities.then(|| setup.output(of_rows)).transpose()?,
                seed,
            })
        })?;
        let this = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<T>| {
                let history = set.history.as_ref();
                let buffers = SamplingBuffers {
                    logits: &set.logits,
                    parameters: &set.parameters,
                    history: history.map(|[tokens, counts]| SamplingHistory { tokens, counts, capacity }),
                    tokens: &mut set.tokens,
                    log_probabilities: set.log_probabilities.as_mut(),
                };
                Ok(operations.tuned_sample(stream, (rows, vocabulary), buffers, &tuning)?)
            })
            .verify(move |set| {
                let logits: Vec<f32> = set.logits.to_vec()?.into_iter().map(|x| x.exact() as f32).collect();
                let tokens = set.tokens.to_vec()?;
                let log_probabilities = set.log_probabilities.as_ref().map(Buffer::to_vec).transpose()?;
                let mut compared = vec![];
                for row in 0..rows {
                    let at = row as usize;
                    let of_row = &logits[at * vocabulary as usize..][..vocabulary as usize];
                    let history = this.history(set.seed, row);
                    let (token, logarithm) =
                        reference::sample(of_row, &this.parameters(set.seed, row), &history);
                    let [found, expected] = [tokens[at], token].map(f64::from);
                    compared.push(Compared { found, expected, tolerance: 0.0 });
                    if let Some(found) = &log_probabilities {
                        let found = f64::from(found[at]);
                        let tolerance = 1e-5 + 1e-6 * logarithm.abs();
                        compared.push(Compared { found, expected: logarithm, tolerance });
                    }
                }
                Ok(compare(compared, |element| vec![element as usize])?)
            }))
    }
}

impl Workload for SamplingWorkload {
    const NAME: &'static str = "sampling";

    /// Every logit is read once.
    fn work(&self) -> Work {
        let elements = f64::from(self.rows) * f64::from(self.vocabulary);
        let bytes = with_logit_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: elements, bytes: elements * bytes }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_logit_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}

/// What `tune` sets; `auto` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Options)]
struct SamplingTuningOptions {
    /// CTAs per row: a cluster.
    #[option(min = 1, max = 16, search = [8, 16])]
    ctas: Option<u32>,
    /// Threads of a CTA: a multiple of 32 from 64 on.
    #[option(min = 64, max = 1024, search = [256, 512, 1024])]
    threads: Option<u32>,
    /// Do not keep rows, each of which one CTA reads: for many rows without a history.
    streamed: bool,
}

impl SamplingTuningOptions {
    fn tuning(self) -> SamplingTuning {
        let Self { ctas, threads, streamed } = self;
        SamplingTuning { ctas, threads, streamed }
    }
}
