//! What the producer loads of the queries: Q with lse, and dO with delta.

use warpwright::prelude::*;

use super::range::Range;
use super::unit::Unit;
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
    pub(super) fn load(&self, mut q_stage: Producer, mut gradient_stage: Producer, unit: Unit, range: Range) {
        let ([_, group], [q, gradient, lse, delta]) = (unit.problem.heads, self.maps);
        for number in 0..group {
            let head = unit.kv_head * group + number;
            let (q, gradient) = (unit.matrix(q, head), unit.matrix(gradient, head));
            let line = unit.line + number;
            for block in range.begin..range.end {
                let row = unit.starts[0] + block * self.rows;
                let padded = (unit.line_start + block) * self.rows;
                q_stage.load([
                    self.q.load(q, (row, constant(0)), self.cluster.multicast_b()),
                    self.lse.load(lse, (padded, line), None),
                ]);
                gradient_stage.load([
                    self.gradient.load(gradient, (row, constant(0)), self.cluster.multicast_b()),
                    self.delta.load(delta, (padded, line), None),
                ]);
            }
        }
        q_stage.tail();
        gradient_stage.tail();
    }
}
