//! The results of a segment: combined over the warps of the CTA, and over the CTAs that share a
//! head.
//!
//! ```text
//! CTAs of a head   0  1  2  3  4  5    6  7  8  9  10 11    12 13
//! level 0          |______________|    |_______________|    |___|    the last to finish of 6 combines their results
//! level 1          |____________________________________________|    the last to finish of 3 combines those
//!
//! workspace        outputs (CTA, 2, row, column), then statistics (level, CTA, 2, row, 2)
//! arrived          (level, CTA, 2): the members of a group that have stored their results, at its first CTA
//! ```
//!
//! A CTA has two partial results at most: of the head that it continues, and of the one that it
//! begins. A counter wraps to 0 (`atom.inc`), which is where the next launch needs it. No CTA waits
//! for another. One CTA would load all results of a long sequence for microseconds; the groups of a
//! level are combined at the same time.

use warpwright::prelude::*;

use super::configuration::{CacheElement, DecodeAttention, Inputs};
use super::partial::{COLUMNS, Partial, Partials};
use super::schedule::Segment;
use super::softmax::{OnlineSoftmax, row_of};
use crate::attention::decode::plan::PARTIAL_PADDING;

/// CTAs of a group: their results are loaded at once, so that the latency of L2 is paid once.
const GROUP: u32 = 6;

/// Elements that a thread combines at once, where it has more than one.
const ELEMENTS_AT_ONCE: u32 = 2;

/// Levels of groups of `ctas` CTAs that share a head.
pub(super) fn levels(ctas: u32) -> u32 {
    let mut levels = 1;
    let mut members = GROUP;
    while members < ctas {
        members = members.saturating_mul(GROUP);
        levels += 1;
    }
    levels
}

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
    /// CTAs of a team.
    team_ctas: Reg<u32>,
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
        let team_ctas = inputs.team_ctas();
        let (rows, head_dim) = (kernel.rows(), kernel.heads.head_dim);
        let (count, pitch) = (kernel.plan.key_warps * rows, head_dim + PARTIAL_PADDING);
        let statistics = dynamic_shared(count * 2);
        let outputs = dynamic_shared_aligned(count * pitch, 16);
        let of_warps = Partials { rows, pitch, statistics, outputs };
        let statistics = workspace.at(grid_dim().x * (2 * rows * head_dim));
        let of_ctas = Partials { rows, pitch: head_dim, statistics, outputs: workspace };
        let is_last = shared_array(1);
        Self { kernel, inputs, output, lse, arrived, of_warps, of_ctas, team_ctas, is_last }
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
    /// output; otherwise the CTAs that share the head combine theirs. All consumers make the call.
    pub(super) fn combine(&self, segment: &Segment) {
        self.consumers().sync();
        let slot = self.slot(segment, block_idx().x / self.team_ctas);
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
        if segment.is_whole() {
            // The next segment's results of warps wait for this.
            self.consumers().sync();
        } else {
            self.combine_ctas(segment);
        }
    }

    /// Combines the results of the CTAs that share the head, level by level: those of a group are
    /// combined by the CTA that finishes last.
    fn combine_ctas(&self, segment: &Segment) {
        let team = block_idx().x / self.team_ctas;
        // Teams from one member of a group to the next, and the slots of the levels below.
        let mut step = constant(1u32);
        let mut below = constant(0u32);
        let mut is_last = constant(true);
        while is_last {
            let group = Group {
                first: segment.first_team + (team - segment.first_team) / (step * GROUP) * (step * GROUP),
                step: step.duplicate(),
                below: below.duplicate(),
            };
            let others = ((segment.last_team - group.first) / step).min(GROUP - 1);
            is_last = self.is_last(below + self.slot(segment, group.first), others);
            if is_last {
                self.combine_group(segment, &group, others);
            }
            step *= GROUP;
            below += grid_dim().x * 2;
            is_last = is_last & step.le(segment.last_team - segment.first_team);
        }
    }

    /// Whether this CTA is the last of a group to store its results, those of all its threads.
    fn is_last(&self, counter: Reg<u32>, others: Reg<u32>) -> Reg<bool> {
        self.consumers().sync();
        if thread_idx().x == 0 {
            // The increment releases what all threads have stored, and acquires what the other CTAs
            // have.
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let before = self.arrived.at(counter).atomic_increment(others, counting);
            self.is_last.store(before.eq(others).to_u32());
        }
        self.consumers().sync();
        self.is_last.load().ne(0)
    }

    /// Combines the results of a group in the order of the keys: to the output, or to the result of
    /// its first member.
    fn combine_group(&self, segment: &Segment, group: &Group, others: Reg<u32>) {
        let slots = grid_dim().x * 2;
        let is_whole = (group.step * GROUP).gt(segment.last_team - segment.first_team);
        let at_once = self.elements().div_ceil(self.stride()).min(ELEMENTS_AT_ONCE);
        for first in (self.first()..self.elements()).step_by(self.stride() * at_once) {
            let elements: Vec<_> = (0..at_once).map(|next| first + next * self.stride()).collect();
            let partials: Vec<Vec<Partial>> = elements
                .iter()
                .map(|element| {
                    // Past the end the thread reads its own first element again: another's may be
                    // stored by then.
                    let (row, column) = self.position(element.lt(self.elements()).select(*element, first));
                    let member = |index: u32| {
                        let team = group.first + others.min(index) * group.step;
                        let slot = self.slot(segment, team);
                        let outputs = self.of_ctas.output(slot, row, column);
                        let [maximum, sum] =
                            self.of_ctas.statistics(group.below + slot, row).load_vector::<2>();
                        let maximum = others.ge(index).select(maximum, f32::NEG_INFINITY);
                        Partial { maximum, sum, columns: outputs.load_vector() }
                    };
                    (0..GROUP).map(member).collect()
                })
                .collect();
            for (element, partials) in elements.iter().zip(&partials) {
                if *element < self.elements() {
                    let (row, column) = self.position(*element);
                    let all = Partial::combined(partials);
                    if is_whole {
                        self.store(segment, (row, column), all);
                    } else {
                        let slot = self.slot(segment, group.first);
                        let above = group.below + slots + slot;
                        self.of_ctas.store_parts([above, slot], row, column, &all);
                    }
                }
            }
        }
    }

    /// The consumers of the CTA.
    fn consumers(&self) -> NamedBarrier {
        NamedBarrier::new(1, 32 * self.kernel.plan.consumer_warps())
    }

    /// The partial result of a segment's head that the CTA of a team has.
    fn slot(&self, segment: &Segment, team: Reg<u32>) -> Reg<u32> {
        let cta = team * self.team_ctas + block_idx().x % self.team_ctas;
        cta * 2 + team.eq(segment.first_team).to_u32()
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
        let mut values = all.columns.map(|value| value * factor);
        if self.kernel.has_gates {
            let [first, token_stride, head_stride] = self.inputs.gate_strides;
            let (token, head) = (query_row / heads.query_heads, query_row % heads.query_heads);
            let gates =
                self.inputs.gates.at(token.mul_wide(token_stride)).at(head * head_stride + first + column);
            values = std::array::from_fn(|index| {
                values[index] * gates.at(index as u32).load().convert::<f32>().sigmoid()
            });
        }
        output.store_vector(values.map(|value| value.convert::<T>()));
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

/// CTAs that combine their results of a head.
struct Group {
    /// The team of the first.
    first: Reg<u32>,
    /// Teams from one to the next.
    step: Reg<u32>,
    /// The slots of the levels below.
    below: Reg<u32>,
}
