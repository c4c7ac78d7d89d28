//! The stages of the recurrence: what a chunk takes, in shared memory, from the copies of one thread
//! to the warps that read it.

use warpwright::prelude::*;

use super::chunk::{BOXES, Columns, SQUARE, load_boxes};
use super::token_factors::FACTORS;
use super::triangle::{TRIANGLE, clear_above, load_triangle};
use crate::delta_rule::problem::Precision;

/// Shared memory of [`Stages::count`] chunks.
#[derive(Clone, Copy)]
pub(super) struct Stages {
    pub(super) k: Shared<bf16>,
    pub(super) q: Shared<bf16>,
    /// 64 columns of v per warpgroup.
    pub(super) v: Shared<bf16>,
    /// (parts, stages, [`SQUARE`]).
    pub(super) inverse: Shared<bf16>,
    /// (parts, stages, [`SQUARE`]).
    pub(super) score: Shared<bf16>,
    pub(super) factors: Shared<f32>,
    pub(super) pipeline: TransactionPipeline,
    /// Warpgroups that read.
    pub(super) consumers: u32,
    pub(super) precision: Precision,
}

#[device]
impl Stages {
    pub(super) fn new(consumers: u32, precision: Precision) -> Self {
        let (stages, parts) = (Self::count_of(precision), precision.parts());
        let boxes = |count: u32| dynamic_shared_aligned::<bf16>(stages * count * SQUARE, 1024);
        let (k, q, v) = (boxes(BOXES), boxes(BOXES), boxes(consumers));
        let (inverse, score) = (boxes(parts), boxes(parts));
        let factors = dynamic_shared_aligned::<f32>(stages * FACTORS, 16);
        let pipeline = TransactionPipeline::stages(stages).released_by_warps(consumers * 4);
        Self { k, q, v, inverse, score, factors, pipeline, consumers, precision }
    }

    /// With two warpgroups, a chunk is 65 KiB, and 81 in [`Precision::F32`]; outputs are staged in 24 of the
    /// 227 KiB of a CTA.
    fn count_of(precision: Precision) -> u32 {
        match precision {
            Precision::Bf16 => 3,
            Precision::F32 => 2,
        }
    }

    /// Chunks that shared memory holds.
    pub(super) fn count(&self) -> u32 {
        Self::count_of(self.precision)
    }

    /// The position of a sequence's chunk `chunk`.
    #[track_caller]
    pub(super) fn state(&self, chunk: Reg<u32>) -> PipelineState {
        PipelineState::after(chunk, self.count())
    }

    /// The memory of each part of a triangle: its stages.
    pub(super) fn parts(&self, triangle: Shared<bf16>) -> Vec<Shared<bf16>> {
        (0..self.precision.parts()).map(|part| triangle.at(part * self.count() * SQUARE)).collect()
    }

    /// Initializes the parts of triangles that no copy writes. All threads synchronize after it.
    pub(super) fn begin(&self) {
        let thread = thread_idx().x;
        for stage in 0..self.precision.parts() * self.count() {
            clear_above(self.inverse.at(stage * SQUARE), thread);
            clear_above(self.score.at(stage * SQUARE), thread);
        }
        fence_proxy_async_shared();
    }

    /// Starts the copies of a chunk's queries, keys and values from `token` on, into a stage that is
    /// empty.
    pub(super) fn load_tokens(&self, qkv: &TensorMap, at: Columns, token: Reg<u32>, stage: Reg<u32>) {
        let barrier = self.pipeline.full(stage);
        let tokens = (2 * BOXES + self.consumers) * SQUARE;
        let triangles = 2 * self.precision.parts() * TRIANGLE;
        barrier.arrive_and_expect((tokens + triangles) * 2 + FACTORS * 4);
        let of = |memory: Shared<bf16>, boxes: u32| memory.at(stage * (boxes * SQUARE));
        load_boxes(qkv, (at.k, token), BOXES, of(self.k, BOXES), barrier);
        load_boxes(qkv, (at.q, token), BOXES, of(self.q, BOXES), barrier);
        load_boxes(qkv, (at.v, token), self.consumers, of(self.v, self.consumers), barrier);
    }

    /// Starts the copies of what `chunk_factors` computed of the chunk: T - I, P and the factors of its
    /// tokens.
    pub(super) fn load_factors(
        &self,
        (inverses, scores, factors): (Global<bf16>, Global<bf16>, Global<f32>),
        unit: Reg<u64>,
        stage: Reg<u32>,
    ) {
        let barrier = self.pipeline.full(stage);
        let triangle = unit * u64::from(self.precision.parts() * TRIANGLE);
        for (from, to) in [(inverses, self.inverse), (scores, self.score)] {
            let from = from.at(triangle);
            for (part, to) in (0..).zip(self.parts(to)) {
                load_triangle(from.at(part * TRIANGLE), to.at(stage * SQUARE), barrier);
            }
        }
        let from = factors.at(unit * u64::from(FACTORS));
        bulk::load(from, FACTORS, self.factors.at(stage * FACTORS), barrier);
    }
}
