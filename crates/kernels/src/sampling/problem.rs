//! What is sampled, and how.

use warpwright::runtime::{Buffer, Storable};

use crate::operations::{OperationError, Result, expect_length};

/// The token of a row that has none: a logit is NaN, or all are minus infinity.
pub const NO_TOKEN: u32 = u32::MAX;

/// Words of the parameters of a row.
pub const PARAMETER_WORDS: usize = 12;

/// Tokens of a vocabulary at most: masses of 2^40 add up in 64 bits.
const MAX_VOCABULARY: u32 = 1 << 22;

/// The operation's name in errors.
const OPERATION: &str = "sampling";

/// How a row is sampled. The device reads it as [`words`](Self::words), so that it may change
/// within a CUDA graph.
///
/// Filters keep the tokens of the highest logits. Tokens of equal logits are kept or dropped
/// together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingParameters {
    /// The divisor of the logits. At 0 and below, and for NaN, the token of the highest logit is
    /// taken; of equal logits, the lowest token.
    pub temperature: f32,
    /// Keeps the tokens whose logits are at least the `top_k`-th highest; 0 keeps all.
    pub top_k: u32,
    /// Keeps the fewest tokens whose probabilities add up to this part of those that the other
    /// filters keep. Outside of 0 to 1, and at 1, it keeps all.
    pub top_p: f32,
    /// Keeps the tokens that are at least this probable relative to the most probable one.
    pub min_p: f32,
    /// The logits of earlier tokens are divided by it where they are positive, else multiplied.
    pub repetition_penalty: f32,
    /// Is subtracted for each time that a token occurred.
    pub frequency_penalty: f32,
    /// Is subtracted from the logit of each token whose count is not 0.
    pub presence_penalty: f32,
    /// Entries of the row's history.
    pub history: u32,
    /// The seed.
    pub seed: u64,
    /// The position within the sequence of random numbers of the seed: another one for each token.
    pub position: u64,
}

impl Default for SamplingParameters {
    /// Samples by the probabilities of the logits, seed and position 0.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            history: 0,
            seed: 0,
            position: 0,
        }
    }
}

impl SamplingParameters {
    /// The words that the device reads: the fields in their order, f32 as bits, the low word of the
    /// seed and of the position (words 10 and 11) first.
    pub fn words(&self) -> [u32; PARAMETER_WORDS] {
        let [low, high] = [self.seed, self.position].map(|word| [word as u32, (word >> 32) as u32]);
        [
            self.temperature.to_bits(),
            self.top_k,
            self.top_p.to_bits(),
            self.min_p.to_bits(),
            self.repetition_penalty.to_bits(),
            self.frequency_penalty.to_bits(),
            self.presence_penalty.to_bits(),
            self.history,
            low[0],
            low[1],
            high[0],
            high[1],
        ]
    }
}

/// The earlier tokens of each row, for penalties.
#[derive(Clone, Copy)]
pub struct SamplingHistory<'l> {
    /// (rows, capacity): distinct tokens of a row, as many as its
    /// [`history`](SamplingParameters::history). Those outside of the vocabulary are ignored.
    pub tokens: &'l Buffer<u32>,
    /// (rows, capacity): how often each occurred in the output; 0 for one of the prompt alone.
    pub counts: &'l Buffer<u32>,
    /// Entries per row.
    pub capacity: u32,
}

/// The buffers of a call.
pub struct SamplingBuffers<'l, T> {
    /// (rows, vocabulary).
    pub logits: &'l Buffer<T>,
    /// (rows, [`PARAMETER_WORDS`]).
    pub parameters: &'l Buffer<u32>,
    /// Earlier tokens; `None`: the penalties are ignored.
    pub history: Option<SamplingHistory<'l>>,
    /// (rows): the tokens.
    pub tokens: &'l mut Buffer<u32>,
    /// (rows): the natural logarithms of the tokens' probabilities by the logits alone, without
    /// penalties, temperature and filters.
    pub log_probabilities: Option<&'l mut Buffer<f32>>,
}

impl<T: Storable> SamplingBuffers<'_, T> {
    pub(super) fn check(&self, (rows, vocabulary): (u32, u32)) -> Result<()> {
        let refuse = |reason: String| Err(OperationError::Shape { what: OPERATION, reason });
        if vocabulary == 0 || vocabulary > MAX_VOCABULARY {
            return refuse(format!("a vocabulary of {vocabulary} tokens; give 1 to {MAX_VOCABULARY}"));
        }
        let rows = rows as usize;
        expect_length("the logits of sampling", rows * vocabulary as usize, self.logits.len())?;
        expect_length("the parameters of sampling", rows * PARAMETER_WORDS, self.parameters.len())?;
        expect_length("the tokens of sampling", rows, self.tokens.len())?;
        if let Some(history) = &self.history {
            let entries = rows * history.capacity as usize;
            expect_length("the earlier tokens of sampling", entries, history.tokens.len())?;
            expect_length("the counts of sampling", entries, history.counts.len())?;
        }
        match &self.log_probabilities {
            Some(buffer) => expect_length("the log-probabilities of sampling", rows, buffer.len()),
            None => Ok(()),
        }
    }
}
