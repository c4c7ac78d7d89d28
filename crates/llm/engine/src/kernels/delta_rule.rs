//! Causal convolution, the gated delta rule and its norm, token after token, for any head: a CTA for
//! each value head of each sequence, a thread for each column of its state.
//!
//! ```text
//! q, k, v = silu(conv(columns of the projection))
//! S ← e^g S;  δ = β (v - Sᵀ k);  S ← S + k δᵀ;  o = Sᵀ q      q, k normalized, q / sqrt(key_dim)
//! y = norm(o) · silu(z)
//! ```
//!
//! The value heads of a key head convolve its q and k each for itself. They form a cluster: the first
//! of them stores the columns that the next token needs when all have read those of this one. Without
//! clusters, they are one CTA's, one after another.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::operations::{Operations, Result};
use warpwright_kernels::overlap::{self, overlaps};
use warpwright_kernels::vector;

use super::delta_step::DeltaStep;
use super::sequences::{SequenceInputs, Sequences};
use crate::number::Number;

/// The heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotDeltaRule {
    pub(crate) key_heads: u32,
    pub(crate) value_heads: u32,
    pub(crate) key_dim: u32,
    pub(crate) value_dim: u32,
    /// Tokens that a result of the convolution depends on.
    pub(crate) width: u32,
}

/// What is added to the sum of squares of a query or a key.
pub(super) const EPSILON: f32 = 1e-6;

impl SlotDeltaRule {
    /// Elements of a token's queries, keys and values.
    pub(crate) fn columns(&self) -> u32 {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Elements of a convolution's state: (width - 1, columns).
    pub(crate) fn conv_state(&self) -> usize {
        (self.width as usize - 1) * self.columns() as usize
    }

    /// Value heads of a key head.
    pub(super) fn group(&self) -> u32 {
        self.value_heads / self.key_heads
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
    /// Whether the value heads of a key head are a cluster.
    has_clusters: bool,
    overlaps: bool,
}

/// CTAs of a cluster on every GPU that has clusters.
pub(super) const CLUSTER: u32 = 8;

/// What is convolved.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct ConvInputs<T: Element> {
    /// The projection, whose first columns are [q | k | v], and elements from row to row.
    pub(super) x: Global<T>,
    pub(super) stride: Reg<u32>,
    /// (columns, width).
    pub(super) weights: Global<T>,
}

/// What the kernel reads beside the tokens.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct GateInputs<T: Element> {
    /// z: its first column, and elements from row to row.
    pub(super) z: Global<T>,
    pub(super) z_column: Reg<u32>,
    pub(super) z_stride: Reg<u32>,
    pub(super) gates: Global<T>,
    /// The first columns of b and a, and elements from row to row.
    pub(super) columns: [Reg<u32>; 3],
    pub(super) a_log: Global<f32>,
    pub(super) dt_bias: Global<f32>,
    pub(super) norm: Global<f32>,
    pub(super) epsilon: Reg<f32>,
}

#[device]
impl<T: Number> GateInputs<T> {
    /// b and a of a token and a value head.
    pub(super) fn gates_of(&self, token: Reg<u32>, head: Reg<u32>) -> [Reg<f32>; 2] {
        let [of_b, of_a, stride] = self.columns;
        let of_token = self.gates.at(token.mul_wide(stride));
        [of_b, of_a].map(|first| of_token.at(first + head).load().convert::<f32>())
    }
}

impl DeltaKernel {
    /// A thread for each column of the state, and for each element of a key.
    fn threads(&self) -> u32 {
        self.rule.value_dim.max(self.rule.key_dim).next_multiple_of(32)
    }

    /// Value heads of a CTA.
    fn heads(&self) -> u32 {
        if self.has_clusters { 1 } else { self.rule.group() }
    }

    /// `conv_states` is (slots, width - 1, columns), `states` (slots, value heads, key_dim, value_dim), `y`
    /// (tokens, value heads, value_dim).
    #[kernel]
    fn run<T: Number, S: Number>(
        &self,
        conv: ConvInputs<T>,
        inputs: GateInputs<T>,
        sequences: SequenceInputs,
        conv_states: &mut Global<T>,
        states: &mut Global<S>,
        y: &mut Global<T>,
    ) {
        launch::threads(self.threads());
        if self.has_clusters {
            launch::cluster(self.rule.group(), 1, 1);
        }
        let SlotDeltaRule { key_heads, value_heads, key_dim, value_dim, .. } = self.rule;
        let (sequence, thread) = (block_idx().y, thread_idx().x);
        // The predecessor may write how many tokens count.
        overlap::wait(self.overlaps);
        let (start, end) = sequences.tokens(sequence);
        // Threads without a column, or without an element of a key, have the last one, which they do not store.
        let (is_mine, is_of_key) = (thread.lt(value_dim), thread.lt(key_dim));
        let (column, element) = (thread.min(value_dim - 1), thread.min(key_dim - 1));
        let vectors = shared_array::<f32>(2 * key_dim);
        let slot_of_conv = |slot: Reg<u32>| self.rule.slot_of_conv(*conv_states, slot);
        if start < end {
            let (initial, has_zeros) = sequences.initial(sequence);
            let after = sequences.slot(sequence);
            for index in 0..self.heads() {
                let head = block_idx().x * self.heads() + index;
                let key_head = head / self.rule.group();
                let of_slot = |slot: Reg<u32>| {
                    let head = slot.convert::<u64>() * u64::from(value_heads) + head.convert::<u64>();
                    states.at(head * u64::from(key_dim * value_dim)).at(column)
                };
                let before = of_slot(initial);
                let rate = -inputs.a_log[head].exp();
                let bias = inputs.dt_bias[head];
                let weight = inputs.norm[column];
                let columns = [
                    key_head * key_dim + element,
                    (key_head + key_heads) * key_dim + element,
                    head * value_dim + column + 2 * key_heads * key_dim,
                ];
                let filters = columns.map(|column| self.rule.filter(conv.weights, column));
                let mut s: Vec<Reg<f32>> = (0..key_dim)
                    .map(|row| before.at(row * value_dim).load().convert::<f32>())
                    .map(|value| has_zeros.select(constant(0f32), value))
                    .collect();
                let [mut of_q, mut of_k, mut of_v] =
                    columns.map(|column| self.rule.window(slot_of_conv(initial).at(column), has_zeros));
                if self.has_clusters {
                    cluster_arrive();
                }
                overlap::launch(self.overlaps);
                for token in start..end {
                    let row = conv.x.at(token.mul_wide(conv.stride));
                    let newest = columns.map(|column| row.at(column).load().convert::<f32>());
                    let q = convolved(&of_q, newest[0], &filters[0]);
                    let k = convolved(&of_k, newest[1], &filters[1]);
                    let v = convolved(&of_v, newest[2], &filters[2]);
                    of_q = moved(&of_q, newest[0]);
                    of_k = moved(&of_k, newest[1]);
                    of_v = moved(&of_v, newest[2]);
                    if is_of_key {
                        vectors.at(thread).store(q);
                        vectors.at(thread + key_dim).store(k);
                    }
                    sync_threads();
                    let parts = [q * q, k * k].map(|part| is_of_key.select(part, 0f32));
                    let [b, a] = inputs.gates_of(token, head);
                    let beta = b.sigmoid();
                    let z = inputs
                        .z
                        .at(token.mul_wide(inputs.z_stride))
                        .at(inputs.z_column + head * value_dim + column);
                    let z = z.load().convert::<f32>();
                    let decay = (rate * (a + bias).softplus()).exp();
                    let roots = parts.map(|part| (block::reduce_sum(part) + EPSILON).rsqrt());
                    let (scale_of_q, scale_of_k) = (roots[0] * (1.0 / (key_dim as f32).sqrt()), roots[1]);
                    let recalled = self
                        .elements(vectors.at(key_dim))
                        .iter()
                        .zip(&s)
                        .fold(constant(0f32), |sum, (k, s)| k.mul_add(*s, sum));
                    let delta = beta * (v - recalled * scale_of_k * decay) * scale_of_k;
                    let keys = self.elements(vectors.at(key_dim));
                    s = s.iter().zip(&keys).map(|(s, k)| k.mul_add(delta, *s * decay)).collect::<Vec<_>>();
                    let queries = self.elements(vectors.at(0u32));
                    let read = queries.iter().zip(&s).fold(constant(0f32), |sum, (q, s)| q.mul_add(*s, sum))
                        * scale_of_q;
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
                    let to = of_slot(after);
                    for (row, value) in s.iter().enumerate() {
                        to.at(row as u32 * value_dim).store(value.convert::<S>());
                    }
                }
                if self.has_clusters {
                    cluster_wait();
                }
                let to = slot_of_conv(after);
                let is_first = (head % self.rule.group()).eq(0u32);
                let is_last = index + 1 == self.heads();
                if is_mine {
                    self.rule.store(to.at(columns[2]), &of_v);
                }
                if is_last && is_of_key & (is_first | !self.has_clusters) {
                    self.rule.store(to.at(columns[0]), &of_q);
                    self.rule.store(to.at(columns[1]), &of_k);
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
    /// The convolution's state in a slot.
    #[track_caller]
    pub(super) fn slot_of_conv<T: Number>(&self, states: Global<T>, slot: Reg<u32>) -> Global<T> {
        states.at(slot.mul_wide((self.width - 1) * self.columns()))
    }

    /// The filter of a column.
    #[track_caller]
    pub(super) fn filter<T: Number>(&self, weights: Global<T>, column: Reg<u32>) -> Vec<Reg<f32>> {
        (0..self.width).map(|at| weights.at(column * self.width + at).load().convert::<f32>()).collect()
    }

    /// The tokens of a column before the first one.
    #[track_caller]
    pub(super) fn window<T: Number>(&self, from: Global<T>, has_zeros: Reg<bool>) -> Vec<Reg<f32>> {
        let load = |at: u32| from.at(at * self.columns()).load().convert::<f32>();
        (0..self.width - 1).map(|at| has_zeros.select(constant(0f32), load(at))).collect()
    }

    /// Stores the tokens of a column.
    #[track_caller]
    pub(super) fn store<T: Number>(&self, to: Global<T>, window: &[Reg<f32>]) {
        for (at, value) in window.iter().enumerate() {
            to.at(at as u32 * self.columns()).store(value.convert::<T>());
        }
    }
}

/// SiLU of the filter's sum over the tokens before and the newest one.
#[track_caller]
pub(super) fn convolved(window: &[Reg<f32>], newest: Reg<f32>, filter: &[Reg<f32>]) -> Reg<f32> {
    let tokens = window.iter().chain([&newest]).zip(filter);
    tokens.fold(constant(0f32), |sum, (x, weight)| x.mul_add(*weight, sum)).silu()
}

/// The tokens before the next one.
pub(super) fn moved(window: &[Reg<f32>], newest: Reg<f32>) -> Vec<Reg<f32>> {
    window[1..].iter().copied().chain([newest]).collect()
}

/// What a layer convolves: columns [q | k | v] of a projection, with weights (columns, width).
#[derive(Clone, Copy)]
pub(crate) struct DeltaConv<'l, T> {
    pub(crate) x: &'l Buffer<T>,
    pub(crate) stride: u32,
    pub(crate) weights: &'l Buffer<T>,
}

impl<'l, T> DeltaConv<'l, T> {
    /// The arguments of a kernel.
    pub(super) fn inputs(self) -> (&'l Buffer<T>, u32, &'l Buffer<T>) {
        (self.x, self.stride, self.weights)
    }
}

impl SlotDeltaRule {
    /// y = norm(o) · silu(z) for all tokens of the sequences; one of each where it is a step.
    pub(crate) fn launch<T: Number, S: Number>(
        self,
        (operations, stream): (&Operations, &Stream),
        conv: DeltaConv<'_, T>,
        gates: DeltaGates<'_, T>,
        (sequences, is_step): (Sequences<'_>, bool),
        (conv_states, states): (&mut Buffer<T>, &mut Buffer<S>),
        y: &mut Buffer<T>,
    ) -> Result<()> {
        let overlaps = overlaps(operations);
        let (conv, inputs) = (conv.inputs(), gates.inputs());
        let count = sequences.slots.len() as u32;
        let sm_count = operations.device().properties().sm_count;
        if let Some(step) = DeltaStep::new(self, count, sm_count).filter(|_| overlaps && is_step) {
            let kernel = operations.kernel(step, DeltaStep::run::<T, S>)?;
            let shape = overlap::shape(kernel.shape((step.ctas(), count)), true);
            kernel.launch(stream, shape, (conv, inputs, sequences.inputs(), conv_states, states, y))?;
            return Ok(());
        }
        // Both came with sm_90.
        let has_clusters = overlaps && self.group() <= CLUSTER;
        let delta = DeltaKernel { rule: self, has_clusters, overlaps };
        let kernel = operations.kernel(delta, DeltaKernel::run::<T, S>)?;
        let shape = overlap::shape(kernel.shape((self.value_heads / delta.heads(), count)), overlaps);
        kernel.launch(stream, shape, (conv, inputs, sequences.inputs(), conv_states, states, y))?;
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

/// [`GateInputs`] of a launch.
type GateArguments<'l, T> = (
    &'l Buffer<T>,
    u32,
    u32,
    &'l Buffer<T>,
    [u32; 3],
    &'l Buffer<f32>,
    &'l Buffer<f32>,
    &'l Buffer<f32>,
    f32,
);

impl<'l, T> DeltaGates<'l, T> {
    /// The arguments of a kernel.
    pub(super) fn inputs(self) -> GateArguments<'l, T> {
        let Self { z, gates, columns, a_log, dt_bias, norm, epsilon } = self;
        (z.buffer, z.offset, z.stride, gates, columns, a_log, dt_bias, norm, epsilon)
    }
}
