//! Token after token: a CTA for each value head of each sequence, a thread for each column of its state.
//!
//! The value heads of a key head convolve its q and k each for itself. They form a cluster: the first
//! of them stores the columns that the next token needs when all have read those of this one. Without
//! clusters, they are one CTA's, one after another.

use warpwright::prelude::*;

use super::clusters::CLUSTER;
use super::convolution::{convolved, moved};
use super::inputs::{ConvInputs, GateInputs, SequenceInputs};
use crate::delta_rule::decode::problem::DecodeShape;
use crate::delta_rule::problem::EPSILON;
use crate::overlap;
use crate::rows::RowElement;
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recurrent {
    shape: DecodeShape,
    /// Whether the value heads of a key head are a cluster.
    has_clusters: bool,
    overlaps: bool,
}

impl Recurrent {
    /// The kernel for a device whose launches overlap or not: clusters came with sm_90 as well.
    pub(crate) fn new(shape: DecodeShape, overlaps: bool) -> Self {
        Self { shape, has_clusters: overlaps && shape.group() <= CLUSTER, overlaps }
    }

    /// CTAs of a sequence.
    pub(crate) fn ctas(&self) -> u32 {
        self.shape.value_heads / self.heads()
    }

    /// A thread for each column of the state, and for each element of a key.
    fn threads(&self) -> u32 {
        self.shape.value_dim.max(self.shape.key_dim).next_multiple_of(32)
    }

    /// Value heads of a CTA.
    fn heads(&self) -> u32 {
        if self.has_clusters { 1 } else { self.shape.group() }
    }

    /// `conv_states` is (slots, width - 1, columns), `states` (slots, value heads, key_dim, value_dim), `y`
    /// (tokens, value heads, value_dim).
    #[kernel]
    pub(crate) fn run<T: RowElement, S: RowElement>(
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
            launch::cluster(self.shape.group(), 1, 1);
        }
        let DecodeShape { key_heads, value_heads, key_dim, value_dim, .. } = self.shape;
        let (sequence, thread) = (block_idx().y, thread_idx().x);
        // The predecessor may write how many tokens count.
        overlap::wait(self.overlaps);
        let (start, end) = sequences.tokens(sequence);
        // Threads without a column, or without an element of a key, have the last one, which they do not store.
        let (is_mine, is_of_key) = (thread.lt(value_dim), thread.lt(key_dim));
        let (column, element) = (thread.min(value_dim - 1), thread.min(key_dim - 1));
        let vectors = shared_array::<f32>(2 * key_dim);
        let slot_of_conv = |slot: Reg<u32>| self.shape.slot_of_conv(*conv_states, slot);
        if start < end {
            let (initial, has_zeros) = sequences.initial(sequence);
            let after = sequences.slot(sequence);
            let y = *y;
            let advance = |head: Reg<u32>, is_last: Reg<bool>| {
                let key_head = head / self.shape.group();
                let of_slot = |slot: Reg<u32>| self.shape.slot_of_head(*states, slot, head).at(column);
                let before = of_slot(initial);
                let rate = -inputs.a_log[head].exp();
                let bias = inputs.dt_bias[head];
                let weight = inputs.norm[column];
                let columns = [
                    key_head * key_dim + element,
                    (key_head + key_heads) * key_dim + element,
                    head * value_dim + column + 2 * key_heads * key_dim,
                ];
                let filters = columns.map(|column| self.shape.filter(conv.weights, column));
                let mut s: Vec<Reg<f32>> = (0..key_dim)
                    .map(|row| before.at(row * value_dim).load().convert::<f32>())
                    .map(|value| has_zeros.select(constant(0f32), value))
                    .collect();
                let [mut of_q, mut of_k, mut of_v] =
                    columns.map(|column| self.shape.window(slot_of_conv(initial).at(column), has_zeros));
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
                let is_first = (head % self.shape.group()).eq(0u32);
                if is_mine {
                    self.shape.store(to.at(columns[2]), &of_v);
                }
                // Each head convolves q and k with the columns of the token before.
                if is_of_key & if self.has_clusters { is_first } else { is_last } {
                    self.shape.store(to.at(columns[0]), &of_q);
                    self.shape.store(to.at(columns[1]), &of_k);
                }
            };
            let heads = self.heads();
            if heads == 1 {
                advance(block_idx().x, constant(true));
            } else {
                for index in constant(0u32)..heads {
                    advance(block_idx().x * heads + index, index.eq(heads - 1));
                }
            }
        }
    }

    /// A query or a key in shared memory.
    #[track_caller]
    fn elements(&self, from: Shared<f32>) -> Vec<Reg<f32>> {
        let lanes = if self.shape.key_dim.is_multiple_of(4) { 4 } else { 1 };
        (0..self.shape.key_dim)
            .step_by(lanes as usize)
            .flat_map(|at| vector::load_lanes(from.at(at), lanes, Access::new()))
            .collect()
    }
}
