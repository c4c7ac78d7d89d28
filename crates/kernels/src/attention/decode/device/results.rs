//! The results of a segment: combined over the warps of the CTA, and over the CTAs that share a
//! head.
//!
//! ```text
//! workspace    outputs (CTA, 2, row, column), then statistics (CTA, 2, row, 2)
//!              a CTA has two partial results at most: of the head that it continues, and of the one that it begins
//! arrived      the CTAs that have stored their results of the head that CTA i begins
//! ```
//!
//! The counter wraps to 0 (`atom.inc`), which is where the next launch needs it. No CTA waits for
//! another.

use warpwright::prelude::*;

use super::kernel::{CacheElement, DecodeAttention, Inputs};
use super::partial::{COLUMNS, Partial, Partials};
use super::schedule::Segment;
use super::softmax::{OnlineSoftmax, row_of};
use crate::attention::decode::plan::PARTIAL_PADDING;

/// Partial results that a thread loads at once, so that the latency of L2 is paid once for all of
/// them: where few CTAs share a head, and where many do.
const AT_ONCE: [u32; 2] = [4, 32];

/// Where results are stored.
pub(super) struct Results<T: Element> {
    kernel: DecodeAttention,
    inputs: Inputs<T>,
    output: Global<T>,
    lse: Global<f32>,
    arrived: Global<u32>,
    /// The results of the warps along the keys, of the current segment.
    of_warps: Partials<SharedSpace>,
    of_ctas: Partials<GlobalSpace>,
    /// Whether this CTA has finished last.
    is_last: Shared<u32>,
}

#[device]
impl<T: CacheElement> Results<T> {
    pub(super) fn new(
        kernel: DecodeAttention,
        inputs: Inputs<T>,
        [lse, workspace]: [Global<f32>; 2],
        output: Global<T>,
        arrived: Global<u32>,
    ) -> Self {
        let (rows, head_dim) = (kernel.rows(), kernel.heads.head_dim);
        let (count, pitch) = (kernel.plan.key_warps * rows, head_dim + PARTIAL_PADDING);
        let statistics = dynamic_shared(count * 2);
        let outputs = dynamic_shared_aligned(count * pitch, 16);
        let of_warps = Partials { rows, pitch, statistics, outputs };
        let statistics = workspace.at(grid_dim().x * (2 * rows * head_dim));
        let of_ctas = Partials { rows, pitch: head_dim, statistics, outputs: workspace };
        Self { kernel, inputs, output, lse, arrived, of_warps, of_ctas, is_last: shared_array(1) }
    }

    /// Stores a warp's result.
    pub(super) fn store_warp(
        &self,
        (key_warp, row_warp): (Reg<u32>, Reg<u32>),
        softmax: &OnlineSoftmax,
        out: &Fragment<f32>,
    ) {
        let (pair, sums) = (lane_id() % 4, softmax.sums());
        for half in 0..2 {
            let row = row_warp * 16 + lane_id() / 4 + half as u32 * 8;
            if row < self.kernel.rows() {
                if pair == 0 {
                    let statistics = self.of_warps.statistics(key_warp, row);
                    statistics.store_vector([softmax.maximum[half], sums[half]]);
                }
                let at = self.of_warps.output(key_warp, row, pair * 2);
                for i in (0..out.len()).step_by(2).filter(|i| row_of(*i) == half) {
                    at.at(i / 4 * 8).store_vector([out.get(i), out.get(i + 1)]);
                }
            }
        }
    }

    /// Combines the warps' results of a segment. The result of a head that this CTA alone has is the
    /// output; otherwise the CTA that finishes last combines those of all CTAs that share the head.
    /// All consumers make the call.
    pub(super) fn combine(&self, segment: &Segment) {
        let consumers = NamedBarrier::new(1, 32 * self.kernel.plan.consumer_warps());
        consumers.sync();
        let slot = slot(segment, block_idx().x);
        for element in (self.first()..self.elements()).step_by(self.stride()) {
            let (row, column) = self.position(element);
            let warps = 0..self.kernel.plan.key_warps;
            let of_warps: Vec<_> =
                warps.map(|warp| self.of_warps.load(constant(warp), row, column)).collect();
            let all = Partial::combined(&of_warps);
            if segment.is_whole() {
                self.store(segment, (row, column), all);
            } else {
                self.of_ctas.store(slot, row, column, &all);
            }
        }
        // The next segment's results of warps wait for this, too.
        consumers.sync();
        if !segment.is_whole() {
            // The increment of thread 0 releases what all threads have stored, and acquires what the
            // other CTAs have.
            let others = segment.last_cta - segment.first_cta;
            if thread_idx().x == 0 {
                let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
                let before = self.arrived.at(segment.first_cta).atomic_increment(others, counting);
                self.is_last.store(before.eq(others).to_u32());
            }
            consumers.sync();
            if self.is_last.load() != 0 {
                if others < AT_ONCE[0] {
                    self.combine_ctas(segment, AT_ONCE[0]);
                } else {
                    self.combine_ctas(segment, AT_ONCE[1]);
                }
            }
        }
    }

    /// Combines the results of all CTAs that share the head, in their order, `at_once` at once.
    fn combine_ctas(&self, segment: &Segment, at_once: u32) {
        for element in (self.first()..self.elements()).step_by(self.stride()) {
            let (row, column) = self.position(element);
            let mut all = Partial::empty();
            for first in (segment.first_cta..segment.last_cta + 1).step_by(at_once) {
                let mut of_ctas = vec![all];
                for next in 0..at_once {
                    let cta = first + next;
                    let mut partial =
                        self.of_ctas.load(slot(segment, cta.min(segment.last_cta)), row, column);
                    let is_another = cta.le(segment.last_cta);
                    partial.maximum = is_another.select(partial.maximum, f32::NEG_INFINITY);
                    of_ctas.push(partial);
                }
                all = Partial::combined(&of_ctas);
            }
            self.store(segment, (row, column), all);
        }
    }

    /// Stores the output of a row, from a column on, and LSE.
    fn store(&self, segment: &Segment, (row, column): (Reg<u32>, Reg<u32>), mut all: Partial) {
        let heads = self.kernel.heads;
        let query_row = self.kernel.query_row(segment, row);
        if self.kernel.has_sink {
            let head = segment.head * heads.group() + row % heads.group();
            let maximum = self.inputs.sink[head] * std::f32::consts::LOG2_E;
            let sink = Partial { maximum, sum: constant(1.0), ..Partial::empty() };
            all = Partial::combined(&[all, sink]);
        }
        let factor = all.sum.gt(0.0).select(fast::recip(all.sum), 0.0f32);
        let output = self.output.at(query_row as u64 * u64::from(heads.head_dim)).at(column);
        output.store_vector(all.columns.map(|value| (value * factor).convert::<T>()));
        if column == 0 {
            self.lse[query_row] = (all.maximum + fast::log2(all.sum)) * std::f32::consts::LN_2;
        }
    }

    /// The first of the elements (row, column) that this thread combines, and the step to its next:
    /// consecutive threads have consecutive columns.
    fn first(&self) -> Reg<u32> {
        thread_idx().x * COLUMNS
    }

    fn stride(&self) -> u32 {
        32 * self.kernel.plan.consumer_warps() * COLUMNS
    }

    /// Elements of a result.
    fn elements(&self) -> u32 {
        self.kernel.rows() * self.kernel.heads.head_dim
    }

    /// The row and the column of an element.
    fn position(&self, element: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let head_dim = self.kernel.heads.head_dim;
        (element / head_dim, element % head_dim)
    }
}

/// The partial result of a CTA of a segment's head.
fn slot(segment: &Segment, cta: Reg<u32>) -> Reg<u32> {
    cta * 2 + cta.eq(segment.first_cta).to_u32()
}
