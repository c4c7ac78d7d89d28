//! The gated delta rule and its norm, token after token, for any head: a CTA for each value head of
//! each sequence, a thread for each column of its state.
//!
//! ```text
//! S ← e^g S;  δ = β (v - Sᵀ k);  S ← S + k δᵀ;  o = Sᵀ q      q, k normalized, q / sqrt(key_dim)
//! y = norm(o) · silu(z)
//! ```

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::operations::{Operations, Result};
use warpwright_kernels::vector;

use super::overlap::{self, overlaps};
use super::sequences::{SequenceInputs, Sequences};
use crate::number::Number;

/// The heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotDeltaRule {
    pub(crate) key_heads: u32,
    pub(crate) value_heads: u32,
    pub(crate) key_dim: u32,
    pub(crate) value_dim: u32,
}

/// What is added to the sum of squares of a query or a key.
const EPSILON: f32 = 1e-6;

impl SlotDeltaRule {
    /// Elements of a token's queries, keys and values.
    pub(crate) fn columns(&self) -> u32 {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Elements of a state.
    pub(crate) fn state(&self) -> usize {
        self.value_heads as usize * self.key_dim as usize * self.value_dim as usize
    }
}

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DeltaKernel {
    rule: SlotDeltaRule,
    overlaps: bool,
}

/// What the kernel reads beside the tokens.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
struct GateInputs<T: Element> {
    /// z: its first column, and elements from row to row.
    z: Global<T>,
    z_column: Reg<u32>,
    z_stride: Reg<u32>,
    gates: Global<T>,
    /// The first columns of b and a, and elements from row to row.
    columns: [Reg<u32>; 3],
    a_log: Global<f32>,
    dt_bias: Global<f32>,
    norm: Global<f32>,
    epsilon: Reg<f32>,
}

impl DeltaKernel {
    /// A thread for each column of the state, and for each element of a key.
    fn threads(&self) -> u32 {
        self.rule.value_dim.max(self.rule.key_dim).next_multiple_of(32)
    }

    /// `qkv` is (tokens, columns), `states` (slots, value heads, key_dim, value_dim), `y` (tokens, value
    /// heads, value_dim).
    #[kernel]
    fn run<T: Number>(
        &self,
        qkv: &Global<T>,
        inputs: GateInputs<T>,
        sequences: SequenceInputs,
        states: &mut Global<f32>,
        y: &mut Global<T>,
    ) {
        launch::threads(self.threads());
        let SlotDeltaRule { key_heads, value_heads, key_dim, value_dim } = self.rule;
        let (sequence, head, thread) = (block_idx().y, block_idx().x, thread_idx().x);
        let (start, end) = sequences.tokens(sequence);
        // Threads without a column have the last one, which they do not store.
        let is_mine = thread.lt(value_dim);
        let column = thread.min(value_dim - 1);
        let [of_b, of_a, stride] = inputs.columns;
        let vectors = shared_array::<f32>(2 * key_dim);
        if start < end {
            let of_slot = |slot: Reg<u32>| {
                let head = slot.convert::<u64>() * u64::from(value_heads) + head.convert::<u64>();
                states.at(head * u64::from(key_dim * value_dim)).at(column)
            };
            let (initial, has_zeros) = sequences.initial(sequence);
            let before = of_slot(initial);
            let rate = -inputs.a_log[head].exp();
            let bias = inputs.dt_bias[head];
            let weight = inputs.norm[column];
            overlap::wait(self.overlaps);
            let mut s: Vec<Reg<f32>> = (0..key_dim)
                .map(|row| has_zeros.select(constant(0f32), before.at(row * value_dim).load()))
                .collect();
            overlap::launch(self.overlaps);
            let key_head = head / (value_heads / key_heads);
            for token in start..end {
                let row = qkv.at(token.mul_wide(self.rule.columns()));
                let mut parts = [constant(0f32), constant(0f32)];
                if thread < key_dim {
                    let q = row.at(key_head * key_dim + thread).load().convert::<f32>();
                    let k = row.at((key_head + key_heads) * key_dim + thread).load().convert::<f32>();
                    vectors.at(thread).store(q);
                    vectors.at(thread + key_dim).store(k);
                    parts = [q * q, k * k];
                }
                let v = row.at(2 * key_heads * key_dim).at(head * value_dim + column).load().convert::<f32>();
                let of_token = inputs.gates.at(token.mul_wide(stride));
                let gate = |first: Reg<u32>| of_token.at(first + head).load().convert::<f32>();
                let (beta, a) = (gate(of_b).sigmoid(), gate(of_a));
                let z = inputs
                    .z
                    .at(token.mul_wide(inputs.z_stride))
                    .at(inputs.z_column + head * value_dim + column);
                let z = z.load().convert::<f32>();
                let decay = (rate * (a + bias).softplus()).exp();
                // The reductions are barriers: all elements are in shared memory after them.
                let roots = parts.map(|part| (block::reduce_sum(part) + EPSILON).rsqrt());
                let (of_q, of_k) = (roots[0] * (1.0 / (key_dim as f32).sqrt()), roots[1]);
                let recalled = self
                    .elements(vectors.at(key_dim))
                    .iter()
                    .zip(&s)
                    .fold(constant(0f32), |sum, (k, s)| k.mul_add(*s, sum));
                let delta = beta * (v - recalled * of_k * decay) * of_k;
                let keys = self.elements(vectors.at(key_dim));
                s = s.iter().zip(&keys).map(|(s, k)| k.mul_add(delta, *s * decay)).collect::<Vec<_>>();
                let queries = self.elements(vectors.at(0u32));
                let read =
                    queries.iter().zip(&s).fold(constant(0f32), |sum, (q, s)| q.mul_add(*s, sum)) * of_q;
                let squares = block::reduce_sum(is_mine.select(read * read, 0f32));
                let root = (squares * (1.0 / value_dim as f32) + inputs.epsilon).rsqrt();
                if is_mine {
                    let to = y.at(token.mul_wide(value_heads * value_dim)).at(head * value_dim + column);
                    to.store((read * root * weight * z.silu()).convert::<T>());
                }
                // The next token overwrites shared memory.
                sync_threads();
            }
            if is_mine {
                let after = of_slot(sequences.slot(sequence));
                for (row, value) in s.iter().enumerate() {
                    after.at(row as u32 * value_dim).store(*value);
                }
            }
        }
    }

    /// A query or a key in shared memory.
    #[track_caller]
    fn elements(&self, from: Shared<f32>) -> Vec<Reg<f32>> {
        let lanes = if self.rule.key_dim.is_multiple_of(4) { 4 } else { 1 };
        (0..self.rule.key_dim)
            .step_by(lanes as usize)
            .flat_map(|at| vector::load_lanes(from.at(at), lanes, Access::new()))
            .collect()
    }
}

impl SlotDeltaRule {
    /// y = norm(o) · silu(z) for all tokens of the sequences.
    pub(crate) fn launch<T: Number>(
        self,
        (operations, stream): (&Operations, &Stream),
        qkv: &Buffer<T>,
        gates: DeltaGates<'_, T>,
        sequences: Sequences<'_>,
        states: &mut Buffer<f32>,
        y: &mut Buffer<T>,
    ) -> Result<()> {
        let overlaps = overlaps(operations);
        let kernel = operations.kernel(DeltaKernel { rule: self, overlaps }, DeltaKernel::run::<T>)?;
        let shape = overlap::shape(kernel.shape((self.value_heads, sequences.slots.len() as u32)), overlaps);
        let DeltaGates { z, gates, columns, a_log, dt_bias, norm, epsilon } = gates;
        let inputs = (z.buffer, z.offset, z.stride, gates, columns, a_log, dt_bias, norm, epsilon);
        kernel.launch(stream, shape, (qkv, inputs, sequences.inputs(), states, y))?;
        Ok(())
    }
}

/// The gates of a layer's tokens, columns of projections, and its norm.
#[derive(Clone, Copy)]
pub(crate) struct DeltaGates<'l, T> {
    pub(crate) z: MatrixColumns<'l, T>,
    pub(crate) gates: &'l Buffer<T>,
    /// The first columns of b and a, and elements from row to row.
    pub(crate) columns: [u32; 3],
    /// (value heads).
    pub(crate) a_log: &'l Buffer<f32>,
    pub(crate) dt_bias: &'l Buffer<f32>,
    /// (value_dim).
    pub(crate) norm: &'l Buffer<f32>,
    pub(crate) epsilon: f32,
}
