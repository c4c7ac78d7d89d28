//! The blocks of queries in shared memory: Q with lse, and dO with delta.

use warpwright::layout::{ComposedLayout, Error, Layout};
use warpwright::prelude::*;

use super::range::Range;
use super::rows::row_tile;
use super::unit::Unit;
use crate::attention::problem::AttentionElement;

/// The stages of Q and dO between the producer and the consumers.
pub(super) struct QueryStages<T> {
    pub(super) q_tiles: StagedOperand<T>,
    pub(super) gradient_tiles: StagedOperand<T>,
    pub(super) lse_tiles: StagedOperand<f32>,
    pub(super) delta_tiles: StagedOperand<f32>,
    q: Pipeline,
    gradient: Pipeline,
    /// The CTAs that share Q and dO.
    cluster: ClusterGrid,
    /// Queries of a block.
    rows: u32,
}

/// The consumer's ends of the pipelines of Q and dO.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Stages {
    pub(super) q: Consumer,
    pub(super) gradient: Consumer,
}

impl<T: AttentionElement> QueryStages<T> {
    /// `counts` stages of Q and of dO, whose blocks have `rows` queries.
    #[track_caller]
    pub(super) fn new(
        [q_tile, gradient_tile]: [Result<TmaTile, Error>; 2],
        counts: [u32; 2],
        rows: u32,
        consumer: Role,
        cluster: ClusterGrid,
    ) -> Self {
        let mut stages = Pipeline::stages(counts[0]);
        let (q_tiles, lse_tiles) = (stages.operand(q_tile), stages.operand(row_tile(rows)));
        let q = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        let mut stages = Pipeline::stages(counts[1]);
        let (gradient_tiles, delta_tiles) = (stages.operand(gradient_tile), stages.operand(row_tile(rows)));
        let gradient = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        Self { q_tiles, gradient_tiles, lse_tiles, delta_tiles, q, gradient, cluster, rows }
    }

    /// The consumer's ends.
    #[track_caller]
    pub(super) fn consumer(&self) -> Stages {
        Stages { q: self.q.consumer(), gradient: self.gradient.consumer() }
    }

    /// Q and dO as operand B of S and dP, (query, d), and of dK and dV, (d, query).
    #[track_caller]
    pub(super) fn operands(&self, scores: &TiledMma, dk: &TiledMma, dv: &TiledMma) -> QueryOperands {
        let (q, gradient) = (self.q_tiles.tensor(), self.gradient_tiles.tensor());
        QueryOperands {
            q: scores.b_operand(q),
            gradient: scores.b_operand(gradient),
            q_transposed: dk.b_operand(&q.map(transposed)),
            gradient_transposed: dv.b_operand(&gradient.map(transposed)),
        }
    }
}

/// Q and dO as (query, d), and as (d, query).
pub(super) struct QueryOperands {
    pub(super) q: MatrixOperand,
    pub(super) gradient: MatrixOperand,
    pub(super) q_transposed: MatrixOperand,
    pub(super) gradient_transposed: MatrixOperand,
}

/// A tile with its first two modes exchanged.
pub(super) fn transposed(layout: &ComposedLayout) -> Result<ComposedLayout, Error> {
    layout.map_inner(|tile| Ok(Layout::of_modes([tile.mode(1)?, tile.mode(0)?, tile.mode(2)?])))
}

#[device]
impl<T: AttentionElement> QueryStages<T> {
    /// The producer: loads the blocks of a range, of each head of Q that shares a head of K, by the maps of
    /// Q, dO, lse and delta, and waits until they are read.
    pub(super) fn load(&self, [q, gradient, lse, delta]: [&TensorMap; 4], unit: Unit, range: Range) {
        let (mut q_stage, mut gradient_stage) = (self.q.producer(), self.gradient.producer());
        let [_, group] = unit.problem.heads;
        for number in 0..group {
            let head = unit.kv_head * group + number;
            let (q, gradient) = (unit.matrix(q, head), unit.matrix(gradient, head));
            let line = unit.line + number;
            for block in range.begin..range.end {
                let row = unit.starts[0] + block * self.rows;
                let padded = (unit.line_start + block) * self.rows;
                q_stage.load([
                    self.q_tiles.load(q, (row, constant(0)), self.cluster.multicast_b()),
                    self.lse_tiles.load(lse, (padded, line), None),
                ]);
                gradient_stage.load([
                    self.gradient_tiles.load(gradient, (row, constant(0)), self.cluster.multicast_b()),
                    self.delta_tiles.load(delta, (padded, line), None),
                ]);
            }
        }
        q_stage.tail();
        gradient_stage.tail();
    }
}
