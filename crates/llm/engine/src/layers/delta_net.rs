//! The gated delta rule of Qwen 3.5.
//!
//! ```text
//! [qkv | z | b | a] = projection(x);  qkv = silu(conv(qkv));  o = delta rule(qkv, b, a)
//! y = output(norm(o) · silu(z))
//! ```

use warpwright::prelude::bf16;
use warpwright::runtime::Buffer;
use warpwright_kernels::causal_conv::{CausalConv, ConvSequences};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::delta_rule::decode::{DecodeBuffers, DecodeShape, Sequences};
use warpwright_kernels::delta_rule::{DeltaRuleInputs, HEAD, Heads, InitialState};
use warpwright_kernels::gated_norm::GatedNorm;
use warpwright_kernels::rows::Gain;

use super::cache::DeltaStates;
use super::linear::Linear;
use super::norm::Norm;
use super::pass::{Pass, Projected};
use crate::config::DeltaHeads;
use crate::data_type::StateType;
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// Tokens of a sequence from which chunks are faster than one token after another.
const MANY_TOKENS: u32 = 16;

/// The weights of a layer.
pub(crate) struct DeltaNet<T> {
    shape: DecodeShape,
    state: StateType,
    epsilon: f32,
    /// [qkv | z | b | a]; [qkv | z] where it is quantized.
    projection: Linear<T>,
    /// [b | a], where the other is quantized.
    gates: Option<Linear<T>>,
    conv_weights: Buffer<T>,
    // In f32 also in bf16 models: rounded to bf16, A_log changes greedy tokens within 21 to 39 steps.
    a_log: Buffer<f32>,
    dt_bias: Buffer<f32>,
    norm: Buffer<f32>,
    output: Linear<T>,
}

impl<T: Number> DeltaNet<T> {
    pub(crate) fn new(
        loader: &mut Loader<'_>,
        name: &str,
        heads: DeltaHeads,
        hidden: usize,
        epsilon: f32,
    ) -> Result<Self> {
        let DeltaHeads { keys, values, key_dim, value_dim, conv, state } = heads;
        let shape = DecodeShape { key_heads: keys, value_heads: values, key_dim, value_dim, width: conv };
        let name = |part: &str| format!("{name}.{part}");
        let (of_values, values) = ((values * value_dim) as usize, values as usize);
        let parts = [
            (&*name("in_proj_qkv.weight"), shape.columns() as usize),
            (&name("in_proj_z.weight"), of_values),
            (&name("in_proj_b.weight"), values),
            (&name("in_proj_a.weight"), values),
        ];
        let (large, small) =
            if loader.format.is_some() { (&parts[..2], &parts[2..]) } else { (&parts[..], &[][..]) };
        let conv_weights = loader.all(&name("conv1d.weight"), &[shape.columns() as usize, conv as usize])?;
        Ok(Self {
            shape,
            state,
            epsilon,
            projection: Linear::new(loader, large, hidden)?,
            gates: (!small.is_empty()).then(|| Linear::exact(loader, small, hidden)).transpose()?,
            conv_weights,
            a_log: loader.vector(&name("A_log"), values)?,
            dt_bias: loader.vector(&name("dt_bias"), values)?,
            norm: loader.vector(&name("norm.weight"), value_dim as usize)?,
            output: Linear::new(loader, &[(&name("out_proj.weight"), hidden)], of_values)?,
        })
    }

    /// Elements of a slot of the convolution, and words of one of the rule.
    pub(crate) fn state_lengths(&self) -> (usize, usize) {
        (self.shape.conv_state(), self.shape.state() * self.state.bytes() / size_of::<f32>())
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        let gates = self.gates.as_ref().map_or(0, Linear::bytes);
        self.projection.bytes() + gates + self.conv_weights.bytes() + self.output.bytes()
    }

    /// x += the result for the normalized tokens, whose sequences' states are updated.
    pub(crate) fn add(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &mut Buffer<T>,
        states: &mut DeltaStates<T>,
    ) -> Result<()> {
        let projected = match &self.gates {
            Some(gates) => {
                let (normalized, rows) = self.projection.apply_and_keep_normalized(pass, norm, x)?;
                let gates = gates.apply(pass, &normalized)?;
                pass.memory.give(normalized);
                Projected { rows, gates: Some(gates) }
            }
            None => Projected { rows: self.projection.apply_to_normalized(pass, norm, x)?, gates: None },
        };
        let gated = match self.state {
            StateType::F32 => self.mix::<f32>(pass, &projected, states)?,
            StateType::Bf16 => self.mix::<bf16>(pass, &projected, states)?,
        };
        self.note(pass, &projected, &gated);
        self.output.add_to(pass, &gated, x)?;
        pass.memory.give(gated);
        match &mut pass.verified {
            Some(verified) => verified.projected.push(projected),
            None => projected.give(pass),
        }
        Ok(())
    }

    /// Updates the states by tokens that were projected before, up to `ends` of the sequences.
    pub(crate) fn repeat(
        &self,
        pass: &mut Pass<'_, T>,
        (projected, ends): (Projected<T>, &Buffer<u32>),
        states: &mut DeltaStates<T>,
    ) -> Result<()> {
        let sequences = Sequences { ends, ..pass.batch.packed() };
        let gated = match self.state {
            StateType::F32 => self.by_tokens::<f32>(pass, &projected, sequences, states)?,
            StateType::Bf16 => self.by_tokens::<bf16>(pass, &projected, sequences, states)?,
        };
        self.note(pass, &projected, &gated);
        pass.memory.give(gated);
        projected.give(pass);
        Ok(())
    }

    /// Notes the rule: each sequence reads and writes its state, and a token decays it, reads it twice and
    /// updates it.
    fn note(&self, pass: &mut Pass<'_, T>, projected: &Projected<T>, gated: &Buffer<T>) {
        let shape = pass.batch.shape;
        let (of_conv, of_rule) = self.state_lengths();
        let of_sequence = 2 * (of_conv * size_of::<T>() + of_rule * size_of::<f32>());
        let bytes = shape.sequences as usize * of_sequence + projected.rows.bytes() + gated.bytes();
        pass.note(
            "convolution and delta rule",
            bytes,
            7 * u64::from(shape.tokens) * self.shape.state() as u64,
        );
    }

    /// The buffer of b and a, their first columns, and elements from row to row.
    fn gates<'l>(&self, projected: &'l Projected<T>) -> (&'l Buffer<T>, [u32; 3]) {
        let heads = self.shape.value_heads;
        match (&projected.gates, &self.gates) {
            (Some(buffer), Some(gates)) => (buffer, [0, heads, gates.n]),
            _ => {
                let of_b = self.shape.columns() + heads * self.shape.value_dim;
                (&projected.rows, [of_b, of_b + heads, self.projection.n])
            }
        }
    }

    /// norm(o) · silu(z) of all tokens, with states of type `S`.
    fn mix<S: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        projected: &Projected<T>,
        states: &mut DeltaStates<T>,
    ) -> Result<Buffer<T>> {
        if self.has_chunks(pass) {
            return self.by_chunks::<S>(pass, projected, states);
        }
        let slots = pass.verified.as_ref().map_or(&*pass.batch.slots, |verified| verified.nobody);
        self.by_tokens::<S>(pass, projected, Sequences { slots, ..pass.batch.packed() }, states)
    }

    /// One token after another: a decode, f32, and heads that the library lacks.
    fn by_tokens<S: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        projected: &Projected<T>,
        sequences: Sequences<'_>,
        states: &mut DeltaStates<T>,
    ) -> Result<Buffer<T>> {
        let DecodeShape { value_heads, value_dim, .. } = self.shape;
        let stride = self.projection.n;
        let mut gated = pass.rows_of(value_heads * value_dim)?;
        let (gates, gate_columns) = self.gates(projected);
        let buffers = DecodeBuffers {
            x: &projected.rows,
            stride,
            conv_weights: &self.conv_weights,
            z: MatrixColumns { buffer: &projected.rows, offset: self.shape.columns(), stride },
            gates,
            gate_columns,
            a_log: &self.a_log,
            dt_bias: &self.dt_bias,
            norm: &self.norm,
            epsilon: self.epsilon,
            conv_states: &mut states.conv,
            states: states.rule.cast_mut::<S>(),
            y: &mut gated,
        };
        pass.operations.delta_rule_decode(pass.stream, &self.shape, sequences, buffers)?;
        Ok(gated)
    }

    /// Whether the library's kernels, which multiply chunks of tokens, take the layer and the tokens.
    fn has_chunks(&self, pass: &Pass<'_, T>) -> bool {
        let DecodeShape { key_dim, value_dim, width, .. } = self.shape;
        let is_layer = (key_dim, value_dim, width) == (HEAD, HEAD, 4);
        T::IS_BF16 && pass.has_wgmma() && is_layer && pass.batch.longest >= MANY_TOKENS
    }

    /// Chunks of tokens at once. States are gathered from their slots and go back to them.
    fn by_chunks<S: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        projected: &Projected<T>,
        states: &mut DeltaStates<T>,
    ) -> Result<Buffer<T>> {
        let DecodeShape { key_heads, value_heads, value_dim, width, .. } = self.shape;
        let (channels, values, stride) = (self.shape.columns(), value_heads * value_dim, self.projection.n);
        let (batch, on) = (pass.batch, pass.on());
        let (sequences, tokens) = (batch.shape.sequences as usize, batch.shape.tokens);
        let (of_conv, of_rule) = self.state_lengths();

        let mut before = pass.memory.take(sequences * of_conv)?;
        let mut last = pass.memory.take(sequences * of_conv)?;
        on.0.gather_rows(on.1, (&states.conv, of_conv as u32), (&batch.initial, 0), &mut before)?;
        let mut qkv = pass.rows_of(channels)?;
        let conv = CausalConv { channels, width, weights: &self.conv_weights, bias: None };
        let of_qkv = MatrixColumns { buffer: &projected.rows, offset: 0, stride };
        let packed = ConvSequences { starts: &batch.starts, initial: Some(&before), last: &mut last };
        on.0.causal_conv(on.1, conv, (of_qkv, tokens), packed, &mut qkv)?;
        on.0.scatter_rows(on.1, &last, &batch.slots, (&mut states.conv, of_conv as u32))?;

        let (buffer, [of_b, of_a, stride]) = self.gates(projected);
        let [a, b] = [of_a, of_b].map(|offset| MatrixColumns { buffer: buffer.cast(), offset, stride });
        let mut rule = pass.floats.take(sequences * of_rule)?;
        on.0.gather_rows(on.1, (&states.rule, of_rule as u32), (&batch.initial, 0), &mut rule)?;
        let mut o = pass.rows_of(values)?;
        let inputs = DeltaRuleInputs {
            heads: Heads { keys: key_heads, values: value_heads },
            qkv: qkv.cast(),
            a,
            b,
            a_log: &self.a_log,
            dt_bias: &self.dt_bias,
        };
        on.0.delta_rule(
            on.1,
            inputs,
            &batch.starts,
            (rule.cast_mut::<S>(), InitialState::Given),
            o.cast_mut(),
        )?;
        on.0.scatter_rows(on.1, &rule, &batch.slots, (&mut states.rule, of_rule as u32))?;

        let mut gated = pass.rows_of(values)?;
        let norm = GatedNorm {
            tokens,
            heads: value_heads,
            head_dim: value_dim,
            weights: &self.norm,
            gain: Gain::Weight,
            epsilon: self.epsilon,
        };
        let z = MatrixColumns { offset: channels, ..of_qkv };
        on.0.gated_rms_norm(on.1, norm, MatrixColumns::all(&o, values), z, &mut gated)?;
        pass.floats.give(rule);
        [before, last, qkv, o].into_iter().for_each(|buffer| pass.memory.give(buffer));
        Ok(gated)
    }
}
