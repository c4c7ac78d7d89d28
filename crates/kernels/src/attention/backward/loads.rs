//! What the producer loads of the queries: Q with lse, and dO with delta.

use warpwright::prelude::*;

use super::range::{BackwardProblem, Range};
use crate::attention::problem::AttentionElement;

/// The maps of Q, dO, lse and delta, and where their tiles go.
pub(super) struct QueryLoads<'k, T: AttentionElement> {
    pub(super) maps: [&'k TensorMap; 4],
    pub(super) q: &'k StagedOperand<T>,
    pub(super) gradient: &'k StagedOperand<T>,
    pub(super) lse: &'k StagedOperand<f32>,
    pub(super) delta: &'k StagedOperand<f32>,
    /// The CTAs that share Q and dO.
    pub(super) cluster: ClusterGrid,
    /// Queries of a block.
    pub(super) rows: u32,
}

#[device]
impl<T: AttentionElement> QueryLoads<'_, T> {
    /// Loads the blocks of a range, of each head of Q that shares a head of K, and waits until they are
    /// read.
    pub(super) fn load(
        &self,
        mut q_stage: Producer,
        mut gradient_stage: Producer,
        problem: BackwardProblem,
        (sequence, kv_head): (Reg<u32>, Reg<u32>),
        range: Range,
    ) {
        let ([kv_heads, group], [q, gradient, lse, delta]) = (problem.heads, self.maps);
        for number in 0..group {
            let head = kv_head * group + number;
            let q = MappedMatrix::from(q).batch(head).batch(sequence);
            let gradient = MappedMatrix::from(gradient).batch(head).batch(sequence);
            let line = sequence * kv_heads * group + head;
            for block in range.begin..range.end {
                let row = block * self.rows;
                q_stage.load([
                    self.q.load(q, (row, constant(0)), self.cluster.multicast_b()),
                    self.lse.load(lse, (row, line), None),
                ]);
                gradient_stage.load([
                    self.gradient.load(gradient, (row, constant(0)), self.cluster.multicast_b()),
                    self.delta.load(delta, (row, line), None),
                ]);
            }
        }
        q_stage.tail();
        gradient_stage.tail();
    }
}
