//! The operation for programs.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{LaunchCounts, Storable, Stream};

use super::super::device::bulk::Bulk;
use super::super::device::clusters::Clusters;
use super::super::device::recurrent::Recurrent;
use super::super::problem::{DecodeBuffers, DecodeShape, OPERATION, Sequences};
use crate::operations::{OperationError, Operations, Result, Scratch};
use crate::overlap::{self, overlaps};
use crate::rows::RowElement;

/// The kernel that computes a decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Algorithm {
    /// Any tokens of any heads, token after token.
    #[default]
    Recurrent,
    /// One token of each sequence, a head's state in the registers of a cluster (sm_90): few sequences.
    Clusters,
    /// One token of each sequence, a head's state in shared memory by bulk copies (sm_90): many sequences.
    Bulk,
}

/// The workspace of a stream: counts of readers, zero between launches.
#[derive(Default)]
struct Readers(Scratch<u32>);

/// A kernel and what it is launched with.
#[derive(Clone, Copy)]
enum Choice {
    Recurrent(Recurrent),
    Clusters(Clusters),
    Bulk(Bulk),
}

impl Choice {
    /// The kernel of an algorithm; `None` if it does not take the heads and the tokens.
    fn of<S: RowElement>(
        algorithm: Algorithm,
        operations: &Operations,
        shape: DecodeShape,
        (sequences, one_token): (u32, bool),
    ) -> Option<Self> {
        let (overlaps, sm_count) = (overlaps(operations), operations.device().properties().sm_count);
        let is_step = overlaps && one_token;
        match algorithm {
            Algorithm::Recurrent => Some(Self::Recurrent(Recurrent::new(shape, overlaps))),
            Algorithm::Clusters if is_step => Clusters::new(shape, sequences, sm_count).map(Self::Clusters),
            Algorithm::Bulk if is_step => Bulk::new::<S>(shape).map(Self::Bulk),
            _ => None,
        }
    }

    /// The fastest one.
    fn fastest<S: RowElement>(operations: &Operations, shape: DecodeShape, of: (u32, bool)) -> Self {
        // H200, 32 heads: 4 sequences take as long by the clusters, 8 are 3 % of a decode slower.
        let are_many = of.0 * shape.value_heads >= operations.device().properties().sm_count;
        let bulk = are_many.then_some(Algorithm::Bulk);
        let mut in_order = bulk.into_iter().chain([Algorithm::Clusters]);
        in_order
            .find_map(|algorithm| Self::of::<S>(algorithm, operations, shape, of))
            .unwrap_or_else(|| Self::Recurrent(Recurrent::new(shape, overlaps(operations))))
    }
}

impl Operations {
    /// y = norm(o) · silu(z) of the tokens of sequences, whose states in slots are updated: the causal
    /// convolution of queries, keys and values with silu, the gated delta rule and RMSNorm of each head.
    /// Slots and ends are read when the kernel runs, so that a CUDA graph may be replayed with others. A
    /// sequence may begin with any slot that no other one writes.
    ///
    /// Everything is computed in f32. A state of f16 or bf16 is rounded when it is stored, and loses digits
    /// with every call.
    ///
    /// # Errors
    /// The shape is refused, a buffer does not have the length that it and the sequences need, or the device
    /// refuses.
    pub fn delta_rule_decode<T: RowElement + Storable, S: RowElement + Storable>(
        &self,
        stream: &Stream,
        shape: &DecodeShape,
        sequences: Sequences<'_>,
        buffers: DecodeBuffers<'_, T, S>,
    ) -> Result<LaunchCounts> {
        self.delta_rule_decode_by(None, stream, shape, sequences, buffers)
    }

    /// As [`delta_rule_decode`](Self::delta_rule_decode), by a given kernel; `None`: the fastest one.
    ///
    /// # Errors
    /// As there, or the kernel does not take the heads and the tokens.
    pub fn delta_rule_decode_by<T: RowElement + Storable, S: RowElement + Storable>(
        &self,
        algorithm: Option<Algorithm>,
        stream: &Stream,
        shape: &DecodeShape,
        sequences: Sequences<'_>,
        buffers: DecodeBuffers<'_, T, S>,
    ) -> Result<LaunchCounts> {
        let count = buffers.check(shape, &sequences)?;
        let of = (count, sequences.one_token);
        let choice = match algorithm {
            None => Choice::fastest::<S>(self, *shape, of),
            Some(algorithm) => {
                Choice::of::<S>(algorithm, self, *shape, of).ok_or_else(|| OperationError::Shape {
                    what: OPERATION,
                    reason: format!(
                        "{algorithm:?} needs sm_90, one token of each sequence, and heads of 32, 64 or 128 elements: pass no algorithm"
                    ),
                })?
            }
        };
        if count == 0 || buffers.y.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let DecodeBuffers { x, stride, conv_weights, z, gates, gate_columns, a_log, dt_bias, norm, .. } =
            buffers;
        let conv = (x, stride, conv_weights);
        let inputs =
            (z.buffer, z.offset, z.stride, gates, gate_columns, a_log, dt_bias, norm, buffers.epsilon);
        let settled = sequences.settled;
        let sequences = (sequences.starts, sequences.ends, sequences.initial, sequences.slots);
        let DecodeBuffers { conv_states, states, y, .. } = buffers;
        match choice {
            Choice::Recurrent(recurrent) => {
                let kernel = self.kernel(recurrent, Recurrent::run::<T, S>)?;
                let launch = overlap::shape(kernel.shape((recurrent.ctas(), count)), overlaps(self));
                Ok(kernel.launch(stream, launch, (conv, inputs, sequences, conv_states, states, y))?)
            }
            Choice::Clusters(clusters) => {
                let kernel = self.kernel(clusters, Clusters::run::<T, S>)?;
                let launch = overlap::shape(kernel.shape((clusters.ctas(), count)), settled);
                Ok(kernel.launch(stream, launch, (conv, inputs, sequences, conv_states, states, y))?)
            }
            Choice::Bulk(bulk) => self.with_scratch(stream, |scratch: &mut Readers| {
                let readers = scratch.0.at_least_kept(stream, (count * shape.key_heads) as usize)?;
                let kernel = self.kernel(bulk, Bulk::run::<T, S>)?;
                let launch = overlap::shape(kernel.shape((shape.value_heads, count)), settled);
                let arguments = (conv, inputs, sequences, conv_states, states, readers, y);
                Ok(kernel.launch(stream, launch, arguments)?)
            }),
        }
    }
}
