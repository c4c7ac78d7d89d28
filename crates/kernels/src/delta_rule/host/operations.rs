//! The gated delta rule for programs.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, DeviceProperties, LaunchCounts, Storable, Stream};

use super::super::device::chunk_factors::ChunkFactors;
use super::super::device::chunk_recurrence::ChunkRecurrence;
use super::super::device::token_factors::FACTORS;
use super::super::device::triangle::TRIANGLE;
use super::super::problem::{CHUNK, HEAD, Heads, Precision};
use crate::columns::MatrixColumns;
use crate::operations::{OperationError, Operations, Result, Scratch, both, expect_length};
use crate::rows::RowElement;

/// The inputs of a gated delta rule, of tokens one after another.
#[derive(Clone, Copy)]
pub struct DeltaRuleInputs<'a> {
    /// The heads.
    pub heads: Heads,
    /// (tokens, [`Heads::columns`]): the queries of all key heads, their keys, and the values of all
    /// value heads. Queries and keys are normalized by the kernels.
    pub qkv: &'a Buffer<bf16>,
    /// (tokens, value heads): the log-decay is -exp(`a_log`) · softplus(`a` + `dt_bias`).
    pub a: MatrixColumns<'a, bf16>,
    /// (tokens, value heads): β is the sigmoid of `b`.
    pub b: MatrixColumns<'a, bf16>,
    /// (value heads): the logarithm of the decay's rate.
    pub a_log: &'a Buffer<f32>,
    /// (value heads): what is added to `a`.
    pub dt_bias: &'a Buffer<f32>,
}

impl DeltaRuleInputs<'_> {
    /// The number of tokens.
    ///
    /// # Errors
    /// A buffer has another length than the heads and the tokens need.
    fn tokens(&self) -> Result<u32> {
        self.heads.check()?;
        let (values, columns) = (self.heads.values, self.heads.columns() as usize);
        let tokens = self.qkv.len() / columns;
        expect_length("qkv of the gated delta rule", tokens * columns, self.qkv.len())?;
        expect_length("a_log of the gated delta rule", values as usize, self.a_log.len())?;
        expect_length("dt_bias of the gated delta rule", values as usize, self.dt_bias.len())?;
        let tokens = u32::try_from(tokens).ok().filter(|tokens| *tokens <= MAX_TOKENS).ok_or_else(|| {
            let reason = format!("{tokens} tokens are more than {MAX_TOKENS}; pass them in parts");
            OperationError::Shape { what: "the gated delta rule", reason }
        })?;
        self.a.check("a of the gated delta rule", (tokens, values))?;
        self.b.check("b of the gated delta rule", (tokens, values))?;
        Ok(tokens)
    }
}

/// Tokens at most: kernels count chunks and heads in 32 bits.
const MAX_TOKENS: u32 = 1 << 26;
/// Sequences at most: they are an extent of a grid.
const MAX_SEQUENCES: usize = 65_535;

/// The states that sequences begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InitialState {
    /// Zero: the state buffer is written only.
    Zero,
    /// Those in the state buffer.
    Given,
}

/// How a prefill is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefill {
    /// What its products multiply.
    pub precision: Precision,
    /// Warpgroups of a CTA, each with half of a head's columns of v: 1 or 2.
    pub consumers: u32,
}

impl Prefill {
    /// One whose CTAs suit the heads of that many sequences on a device.
    pub fn new(precision: Precision, heads: Heads, sequences: usize, properties: &DeviceProperties) -> Self {
        // With an SM for each half of a head, a warpgroup has one to itself. Two warpgroups on an SM take
        // about as long as one after the other, and load K, Q, T and P once.
        let heads = sequences * heads.values as usize;
        Self { precision, consumers: if 2 * heads > properties.sm_count as usize { 2 } else { 1 } }
    }
}

/// The workspace of a stream.
#[derive(Default)]
struct ChunkScratch {
    inverses: Scratch<bf16>,
    scores: Scratch<bf16>,
    factors: Scratch<f32>,
}

impl Operations {
    /// The tokens of packed sequences: sequence i has those from `sequence_starts[i]` to
    /// `sequence_starts[i + 1]`, the first of which is 0 and the last the number of tokens. `o` =
    /// the rows that the queries read, (tokens, value heads, 128), and `states` (sequences, value
    /// heads, 128 k, 128 v) become the final ones.
    ///
    /// Products are of bf16 and summed in f32; gates, sums of log-decays, the triangular inverse and the
    /// state between chunks are f32. For products of [`Precision::F32`], see
    /// [`delta_rule_by`](Self::delta_rule_by).
    ///
    /// # Errors
    /// A buffer does not have the length that the heads, the tokens and the sequences need, the
    /// device is not of sm_90a, or it refuses.
    pub fn delta_rule<S: RowElement + Storable>(
        &self,
        stream: &Stream,
        inputs: DeltaRuleInputs<'_>,
        sequence_starts: &Buffer<u32>,
        states: (&mut Buffer<S>, InitialState),
        o: &mut Buffer<bf16>,
    ) -> Result<LaunchCounts> {
        let sequences = sequence_starts.len().saturating_sub(1);
        let prefill = Prefill::new(Precision::default(), inputs.heads, sequences, self.device().properties());
        self.delta_rule_by(prefill, stream, inputs, sequence_starts, states, o)
    }

    /// [`delta_rule`](Self::delta_rule) with a given precision and shape of CTAs. With [`Precision::F32`], each
    /// number that bf16 rounds is multiplied as a sum of two bf16.
    ///
    /// # Errors
    /// As [`delta_rule`](Self::delta_rule).
    pub fn delta_rule_by<S: RowElement + Storable>(
        &self,
        prefill: Prefill,
        stream: &Stream,
        inputs: DeltaRuleInputs<'_>,
        sequence_starts: &Buffer<u32>,
        (states, initial): (&mut Buffer<S>, InitialState),
        o: &mut Buffer<bf16>,
    ) -> Result<LaunchCounts> {
        let (heads, tokens) = (inputs.heads, inputs.tokens()?);
        let Prefill { precision, consumers } = prefill;
        let sequences = sequence_starts.len().saturating_sub(1);
        if !matches!(consumers, 1 | 2) {
            let reason = format!("{consumers} warpgroups of a CTA; pass 1 or 2");
            return Err(OperationError::Shape { what: "the gated delta rule", reason });
        }
        if sequences > MAX_SEQUENCES {
            let reason = format!("{sequences} sequences are more than {MAX_SEQUENCES}; pass them in parts");
            return Err(OperationError::Shape { what: "the gated delta rule", reason });
        }
        expect_length("the states of the gated delta rule", sequences * heads.state(), states.len())?;
        expect_output(heads, tokens, o)?;
        if tokens == 0 {
            if initial == InitialState::Zero {
                stream.fill_zero(states)?;
            }
            return Ok(LaunchCounts::default());
        }
        let sequences = sequences as u32;
        let chunks = tokens / CHUNK + sequences;
        if sequences == 0 {
            let reason = format!("{tokens} tokens are of no sequence; pass where sequences start and end");
            return Err(OperationError::Shape { what: "the gated delta rule", reason });
        }
        let has_initial = initial == InitialState::Given;
        let recurrence = ChunkRecurrence { heads, consumers, has_initial, precision };
        let DeltaRuleInputs { qkv, a, b, a_log, dt_bias, .. } = inputs;
        self.with_scratch(stream, |scratch: &mut ChunkScratch| {
            let units = chunks as usize * heads.values as usize;
            let triangles = units * (precision.parts() * TRIANGLE) as usize;
            let inverses = scratch.inverses.at_least(self.device(), triangles)?;
            let scores = scratch.scores.at_least(self.device(), triangles)?;
            let factors = scratch.factors.at_least(self.device(), units * FACTORS as usize)?;
            let extents = [tokens.into(), heads.columns().into()];
            let chunk_factors = ChunkFactors { heads, precision };
            let kernel = self.kernel(chunk_factors, ChunkFactors::run)?;
            let map = kernel.tensor_map("qkv", qkv, &extents)?;
            let gates = (a.buffer, b.buffer, a_log, dt_bias);
            let of_gates = [a.offset, a.stride, b.offset, b.stride];
            let to = (&mut *inverses, &mut *scores, &mut *factors);
            let grid = self.grid("the gated delta rule", chunk_factors.ctas(chunks))?;
            let arguments = (
                &map,
                gates.0,
                gates.1,
                gates.2,
                gates.3,
                sequence_starts,
                to.0,
                to.1,
                to.2,
                of_gates,
                sequences,
            );
            let first = kernel.launch(stream, kernel.shape(grid).overlapping(), arguments)?;
            let kernel = self.kernel(recurrence, ChunkRecurrence::run::<S>)?;
            let map = kernel.tensor_map("qkv", qkv, &extents)?;
            let arguments = (&map, &*inverses, &*scores, &*factors, sequence_starts, states, o, sequences);
            let chains = sequences * recurrence.chains_of_sequence();
            let grid = chains.min(self.device().properties().sm_count);
            let second = kernel.launch(stream, kernel.shape(grid).overlapping(), arguments)?;
            Ok(both(first, second))
        })
    }
}

/// Refuses an output that does not have a row of 128 for each token and value head.
fn expect_output(heads: Heads, tokens: u32, o: &Buffer<bf16>) -> Result<()> {
    let length = tokens as usize * (heads.values * HEAD) as usize;
    expect_length("the output of the gated delta rule", length, o.len())
}
