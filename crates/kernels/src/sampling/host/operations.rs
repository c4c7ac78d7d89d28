//! Sampling for programs.

use warpwright::runtime::{LaunchCounts, Storable, Stream};

use super::super::device::{FIRST_TILES, Residency, Sample, keys_of_cta};
use super::super::problem::SamplingBuffers;
use crate::operations::{OperationError, Operations, Result, Scratch};
use crate::overlap::{self, overlaps};
use crate::rows::RowElement;
use crate::vector;

/// The workspace of a stream.
#[derive(Default)]
struct SamplingScratch {
    words: Scratch<u32>,
    log_probabilities: Scratch<f32>,
}

/// What a configuration shall have; `None` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SamplingTuning {
    /// CTAs per row: a cluster.
    pub ctas: Option<u32>,
    /// Threads of a CTA: a multiple of 32 from 64 on.
    pub threads: Option<u32>,
    /// Do not keep rows, each of which one CTA reads: for many rows without a history.
    pub streamed: bool,
}

/// Keys of a CTA, if that takes no more than [`PORTABLE_CTAS`].
const CTA_KEYS: u32 = 1 << 12;
/// CTAs of a cluster while shared memory holds the keys. (H200, top-k and top-p of a row of 248,320 tokens, us:
/// 9.1 with 8 CTAs and 8.4 with 16, but of 8 rows 11.0 and 12.5; before CTAs had equal parts, 9.7 with 8, 11.4 with 6
/// and 19.5 with 4.)
const PORTABLE_CTAS: u32 = 8;
/// Threads of a CTA at most. With 256, a CTA holds 512 candidates, and some rows of 248,320 have more: their
/// searches take 80 us. (H200, top-k and top-p of 32 rows: 111 us.)
const MAX_THREADS: u32 = 512;
/// Rows and tokens from which a CTA streams a row. (H200, top-k and top-p of 248,320 tokens: 24 rows take 21 us
/// in shared memory, 32 rows 32; streamed, 8 to 32 rows take 25.)
const STREAMED_ROWS: u32 = 25;
const STREAMED_VOCABULARY: u32 = 1 << 15;
/// Tiles in flight at most.
const MAX_STAGES: u32 = 12;
/// CTAs of a cluster at most, on Hopper with the non-portable size.
const MAX_CTAS: u32 = 16;
/// Shared memory beside the keys: at most 1024 threads with two candidates and a sum each, and
/// exchanges.
const OTHER_SHARED_BYTES: u32 = 28 << 10;

impl Operations {
    /// A token for each row of logits, (rows, vocabulary): by temperature, top-k, top-p and min-p,
    /// with penalties of earlier tokens, and greedily at temperature 0. Parameters and history are
    /// read when the kernel runs, so that a CUDA graph may be replayed with others.
    ///
    /// The order is that of vLLM: repetition, frequency and presence penalty, temperature, min-p,
    /// top-k, top-p. The same seed and position give the same token on every device. A row with a
    /// NaN, or of minus infinities only, has the token [`NO_TOKEN`](crate::sampling::NO_TOKEN) and
    /// the log-probability NaN. Infinite logits share the whole probability.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # use warpwright_kernels::sampling::{SamplingBuffers, SamplingParameters};
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let logits = device.buffer_from(&[1.0f32, 3.0, 2.0, f32::NEG_INFINITY])?;
    /// let greedy = SamplingParameters { temperature: 0.0, ..Default::default() };
    /// let parameters = device.buffer_from(&greedy.words())?;
    /// let mut tokens = device.uninitialized::<u32>(1)?;
    /// let buffers = SamplingBuffers {
    ///     logits: &logits,
    ///     parameters: &parameters,
    ///     history: None,
    ///     tokens: &mut tokens,
    ///     log_probabilities: None,
    /// };
    /// operations.sample(&stream, (1, 4), buffers)?;
    /// assert_eq!(tokens.to_vec()?, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, the vocabulary has no token or more than
    /// 2^22, or the device refuses.
    pub fn sample<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        shape: (u32, u32),
        buffers: SamplingBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.tuned_sample(stream, shape, buffers, &SamplingTuning::default())
    }

    /// As [`sample`](Self::sample), with a configuration of the caller.
    pub fn tuned_sample<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (rows, vocabulary): (u32, u32),
        buffers: SamplingBuffers<'_, T>,
        tuning: &SamplingTuning,
    ) -> Result<LaunchCounts> {
        buffers.check((rows, vocabulary))?;
        if rows == 0 {
            return Ok(LaunchCounts::default());
        }
        let sample = self.sample_kernel::<T>((rows, vocabulary), &buffers, tuning)?;
        let kernel = self.kernel(sample, Sample::run::<T>)?;
        let grid = self.grid("sampling", u64::from(rows) * u64::from(sample.ctas))?;
        let SamplingBuffers { logits, parameters, history, tokens, log_probabilities } = buffers;
        let (earlier, counts, capacity) = match history {
            Some(history) => (history.tokens, history.counts, history.capacity),
            None => (parameters, parameters, 0),
        };
        self.with_scratch(stream, |scratch: &mut SamplingScratch| {
            let elements = grid as usize * sample.workspace_words() as usize;
            let workspace = scratch.words.at_least(self.device(), elements)?;
            let log_probabilities = match log_probabilities {
                Some(buffer) => buffer,
                None => scratch.log_probabilities.at_least(self.device(), 1)?,
            };
            let inputs = (parameters, earlier, counts, capacity);
            let launch = overlap::shape(kernel.shape(grid), sample.overlaps);
            Ok(kernel.launch(stream, launch, (logits, inputs, tokens, log_probabilities, workspace))?)
        })
    }

    fn sample_kernel<T: RowElement + Storable>(
        &self,
        (rows, vocabulary): (u32, u32),
        buffers: &SamplingBuffers<'_, T>,
        tuning: &SamplingTuning,
    ) -> Result<Sample> {
        let capability = self.device().properties().capability;
        let has_clusters = capability.compute_capability >= (9, 0);
        let lanes = vector::widest(vocabulary.into(), T::BYTES);
        let available = capability.shared_bytes_per_cta_opt_in.saturating_sub(OTHER_SHARED_BYTES);
        let portable = vocabulary.div_ceil(CTA_KEYS).next_power_of_two().min(PORTABLE_CTAS);
        let fits = |ctas: u32| keys_of_cta(vocabulary, ctas) <= available / 4;
        let wanted = if fits(portable) { portable } else { MAX_CTAS };
        let has_history = buffers.history.is_some();
        if tuning.streamed && has_history {
            let reason = "rows with a history are kept for its penalties; do not stream them".to_owned();
            return Err(OperationError::Shape { what: "sampling", reason });
        }
        let are_many = rows >= STREAMED_ROWS && vocabulary >= STREAMED_VOCABULARY;
        let is_automatic = tuning.ctas.is_none() && tuning.threads.is_none();
        let is_streamed = tuning.streamed || (are_many && is_automatic && !has_history);
        let ctas = tuning.ctas.filter(|_| has_clusters).unwrap_or(if has_clusters { wanted } else { 1 });
        let ctas = if is_streamed { 1 } else { ctas };
        let vectors = (vocabulary / lanes).div_ceil(ctas);
        let threads = tuning.threads.unwrap_or(vectors.next_power_of_two().clamp(128, MAX_THREADS));
        if !threads.is_multiple_of(32) {
            let reason = format!("CTAs of {threads} threads; give a multiple of 32");
            return Err(OperationError::Shape { what: "sampling", reason });
        }
        let mut sample = Sample {
            vocabulary,
            ctas,
            threads,
            lanes,
            residency: Residency::Streamed,
            stages: 0,
            has_history,
            has_log_probabilities: buffers.log_probabilities.is_some(),
            overlaps: overlaps(self),
        };
        if is_streamed {
            // Two CTAs fit on an SM.
            let half = capability.shared_bytes_per_sm / 2 - capability.shared_bytes_reserved;
            let room = half.saturating_sub(OTHER_SHARED_BYTES).min(available);
            sample.stages = (room / sample.stage_bytes::<T>()).clamp(FIRST_TILES, MAX_STAGES);
        } else {
            sample.residency = if fits(ctas) { Residency::Shared } else { Residency::Workspace };
        }
        Ok(sample)
    }
}
