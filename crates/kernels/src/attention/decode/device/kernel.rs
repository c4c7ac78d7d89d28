//! The kernel: a producer's warp copies tiles of K and V into a ring, consumer warps multiply.
//!
//! ```text
//! producer     page of each box from the block table; tensor copies of K's tile, of V's tile, of the next K's ..
//! consumers    S = Q·Kᵀ | release K | softmax, P = 2^(S - max) | O = O 2^(max before - max) + P·V | release V
//!              each warp has its own keys of a tile, and an O of its own
//! end of a     the warps' results are combined in shared memory; a head that several CTAs share is combined
//! segment      by the CTA that finishes last, which a counter tells
//! ```
//!
//! Rows are the queries of a key head, `query * group + query head of the group`, padded to 16. The
//! products take 5% of the tensor cores' time (H200: 18 bytes of K and V per clock and SM, 16
//! multiply-adds per element); bytes in flight decide, which are those of the ring.

use warpwright::prelude::*;

use super::cache::{BoxPosition, Pool};
use super::partial::{COLUMNS, Partial, Partials};
use super::ring::{BoxLayout, Ring, Turn};
use super::schedule::{Segment, Walk};
use super::softmax::{OnlineSoftmax, row_of};
use crate::attention::decode::plan::{DecodePlan, PARTIAL_PADDING};
use crate::attention::decode::problem::{DecodeShape, Heads};
use crate::gemm::problem::types::MmaSyncOperand;

/// A type of K and V: `bf16` or `f16`.
pub trait CacheElement: MmaSyncOperand + DeviceFloat {}

impl CacheElement for bf16 {}
impl CacheElement for f16 {}

/// Decode attention, as it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecodeAttention {
    /// The heads.
    pub heads: Heads,
    /// Queries per sequence.
    pub queries: u32,
    /// Keys of a page.
    pub page_size: u32,
    /// Whether queries see a window only.
    pub has_window: bool,
    /// Whether scores are capped.
    pub has_softcap: bool,
    /// Whether there is a sink.
    pub has_sink: bool,
    /// How warps share the work.
    pub plan: DecodePlan,
}

/// What a launch reads, besides the pools of K and V.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct Inputs<T: Element> {
    queries: Global<T>,
    table: Global<u32>,
    lengths: Global<u32>,
    sink: Global<f32>,
    /// Sequences, entries of the block table per sequence, and keys that a query sees at most.
    sizes: [Reg<u32>; 3],
    /// The factor of Q·Kᵀ, and that of a capped score.
    scales: [Reg<f32>; 2],
}

/// Partial results that a thread loads at once, so that the latency of L2 is paid once for them.
const PARTIALS_AT_ONCE: u32 = 16;

impl DecodeAttention {
    /// `workspace` has [`workspace_elements`](Self::workspace_elements); `arrived` has a counter per
    /// CTA, 0 before and after.
    #[kernel]
    pub(crate) fn run<T: CacheElement, P: Pool<T>>(
        &self,
        keys: P,
        values: P,
        inputs: Inputs<T>,
        output: &mut Global<T>,
        lse: &mut Global<f32>,
        workspace: &mut Global<f32>,
        arrived: &mut Global<u32>,
    ) {
        launch::threads(self.plan.threads());
        launch::blocks_per_sm(self.plan.ctas_per_sm);
        keys.declare_boxes(self);
        values.declare_boxes(self);
        let ring = Ring::<T>::new(self, P::ARRIVALS);
        let partials = self.shared_partials();
        if self.plan.is_hopper {
            launch::grid_dependency_launch();
            launch::grid_dependency_wait();
        }
        // All threads make the call, which synchronizes the CTA.
        let [batch, pages_per_sequence, window] = inputs.sizes;
        let reach = window + (self.queries - 1);
        let walk = Walk::new(*self, inputs.lengths, (batch, pages_per_sequence), reach);
        if warp_id() == self.plan.consumer_warps() {
            self.produce(&ring, walk, &inputs, [keys, values]);
        } else {
            let results = Results { output: *output, lse: *lse, workspace: *workspace, arrived: *arrived };
            self.consume(&ring, walk, &inputs, &partials, &results);
        }
    }

    /// The producer's warp: a lane for each box of a tile.
    #[device]
    fn produce<T: CacheElement, P: Pool<T>>(
        &self,
        ring: &Ring<T>,
        mut walk: Walk,
        inputs: &Inputs<T>,
        pools: [P; 2],
    ) {
        let (box_keys, key_warps) = (self.plan.box_keys, self.plan.key_warps);
        let mut turn = Turn::first(self.plan.stages);
        while walk.is_unfinished() {
            let segment = walk.next();
            let pages = inputs.table.at(segment.sequence as u64 * inputs.sizes[1] as u64);
            // Lanes past the end take the page of the last box, and copy nothing.
            let key_of = |box_index: Reg<u32>| {
                segment.first_key + (box_index + lane_id()).min(segment.boxes.max(1) - 1) * box_keys
            };
            let page_of = |key: Reg<u32>| pages.at(key / self.page_size).load();
            let mut page = page_of(key_of(constant(0)));
            for first in (0..segment.boxes).step_by(key_warps) {
                // The next tile's pages are loaded while this one waits for its stage.
                let next_page = page_of(key_of(first + key_warps));
                let key = key_of(first) % self.page_size;
                let position = BoxPosition { page, key, head: segment.head };
                let present = (segment.boxes - first).min(key_warps);
                for pool in &pools {
                    let full = ring.acquire(&turn);
                    pool.fill(self, ring, &turn, full, position, present);
                    turn = turn.after();
                }
                page = next_page;
            }
        }
    }

    /// The consumer warps.
    #[device]
    fn consume<T: CacheElement>(
        &self,
        ring: &Ring<T>,
        mut walk: Walk,
        inputs: &Inputs<T>,
        partials: &Partials<SharedSpace>,
        results: &Results<T>,
    ) {
        let (plan, rows) = (self.plan, self.plan.padded_rows());
        let (head_dim, box_keys) = (self.heads.head_dim, self.plan.box_keys);
        let warp = warp::broadcast(warp_id(), 0);
        // The warp's boxes are `key_warp` of each tile, its rows the MMA of index `row_warp`.
        let (key_warp, row_warp) = (warp / plan.row_warps, warp % plan.row_warps);

        let mma = TiledMma::new(T::ATOM, (plan.row_warps, 1));
        let thread = row_warp * 32 + lane_id();
        let part = mma.thread(thread);
        let mut q: Fragment<T> = part.a_fragment((rows, head_dim));
        let k: Fragment<T> = part.b_fragment((box_keys, head_dim));
        let mut v: Fragment<T> = part.b_fragment((ring.boxes.span, box_keys));
        let mut scores: Fragment<f32> = part.c_fragment((rows, box_keys));
        let mut weights: Fragment<T> = part.a_fragment((rows, box_keys));
        let mut out: Fragment<f32> = part.c_fragment((rows, head_dim));
        let scores_at = part.c_coordinates((rows, box_keys));

        // K has k contiguous, and V n: its 8x8 matrices are transposed on the way to registers.
        let k_load = TiledCopy::into_b::<T>("SM75_U32x4_LDSM_N", &mma).thread(thread);
        let v_load = TiledCopy::into_b::<T>("SM75_U16x8_LDSM_T", &mma).thread(thread);
        let k_boxes = k_load.source(&ring.boxes.keys_tensor(ring.memory, ring.all_boxes())).hoisted();
        let (k_target, v_target) = (k_load.retile(&k), v_load.retile(&v));
        let v_boxes = v_load.source(&ring.boxes.values_tensor(ring.memory, ring.all_boxes())).hoisted();

        let mut turn = Turn::first(plan.stages);
        while walk.is_unfinished() {
            let segment = walk.next();
            self.load_queries(&mut q, inputs, &segment, row_warp);
            out.clear();
            let mut softmax = OnlineSoftmax::new();
            for first in (0..segment.boxes).step_by(plan.key_warps) {
                let (k_turn, v_turn) = (turn, turn.after());
                turn = v_turn.after();
                if key_warp < segment.boxes - first {
                    let first_key = segment.first_key + (first + key_warp) * box_keys;
                    let is_partial = self.is_partial(&segment, first_key, inputs.sizes[2]);

                    ring.wait(&k_turn);
                    let k_box = k_turn.stage * plan.key_warps + key_warp;
                    scores.clear();
                    for step in 0..head_dim / 16 {
                        let at = (All, All, step);
                        k_load.load_matrix(&k_target.slice(at), &k_boxes.slice((All, All, step, k_box)));
                        gemm(&mma, &mut scores, &q.slice(at), &k.slice(at));
                    }
                    ring.release(&k_turn);

                    self.score(&mut scores, inputs.scales);
                    if is_partial {
                        self.mask(&mut scores, &scores_at, &segment, first_key, inputs.sizes[2]);
                    }
                    softmax.update(&mut scores, &mut out);
                    for i in (0..scores.len()).step_by(2) {
                        let [low, high] =
                            [scores.get(i), scores.get(i + 1)].map(|weight| weight.convert::<T>());
                        weights.set_pair(i, low, high);
                    }

                    ring.wait(&v_turn);
                    let v_box = v_turn.stage * plan.key_warps + key_warp;
                    for panel in 0..ring.boxes.panels() {
                        v_load.load_matrix(&v_target, &v_boxes.slice((All, All, All, panel, v_box)));
                        if is_partial {
                            clear_unseen(&mut v, &segment, first_key);
                        }
                        let mut columns = panel_of(&out, panel, ring.boxes.panels());
                        for step in 0..box_keys / 16 {
                            let at = (All, All, step);
                            gemm(&mma, &mut columns, &weights.slice(at), &v.slice(at));
                        }
                    }
                    ring.release(&v_turn);
                } else {
                    // The last tile of a segment may lack the warp's box.
                    ring.skip(&k_turn);
                    ring.skip(&v_turn);
                }
            }
            self.store_partial(partials, (key_warp, row_warp), &softmax, &out);
            self.finish(&segment, inputs, partials, results);
        }
    }

    /// Each thread's elements of Q. Padding rows repeat the last one, and nothing reads their
    /// results.
    #[device]
    fn load_queries<T: CacheElement>(
        &self,
        q: &mut Fragment<T>,
        inputs: &Inputs<T>,
        segment: &Segment,
        row_warp: Reg<u32>,
    ) {
        let rows = [0, 8].map(|half| {
            let row = (row_warp * 16 + lane_id() / 4 + half).min(self.rows() - 1);
            inputs
                .queries
                .at(self.query_row(segment, row) as u64 * u64::from(self.heads.head_dim))
                .at(lane_id() % 4 * 2)
        });
        // Of 16 columns, a thread has a pair of both rows, and a pair 8 columns further of both.
        for i in (0..q.len()).step_by(2) {
            let column = i / 8 * 16 + i / 4 % 2 * 8;
            q.set_word(i, rows[row_of(i)].at(column).cast::<u32>().load());
        }
    }

    /// The row of Q, O and LSE of a row of the product.
    #[device]
    fn query_row(&self, segment: &Segment, row: Reg<u32>) -> Reg<u32> {
        let (heads, group) = (self.heads, self.heads.group());
        let query = segment.sequence * self.queries + row / group;
        query * heads.query_heads + segment.head * group + row % group
    }

    /// Rows of the product.
    fn rows(&self) -> u32 {
        self.queries * self.heads.group()
    }

    /// Whether some query does not see some key of a box.
    #[device]
    fn is_partial(&self, segment: &Segment, first_key: Reg<u32>, window: Reg<u32>) -> Reg<bool> {
        let ends = (first_key + (self.plan.box_keys + self.queries)).gt(segment.length + 1);
        if self.has_window { ends | (first_key + window).lt(segment.length) } else { ends }
    }

    /// Scales the scores to units of log2(e).
    #[device]
    fn score(&self, scores: &mut Fragment<f32>, [scale, cap]: [Reg<f32>; 2]) {
        for i in 0..scores.len() {
            let mut score = scores.get(i) * scale;
            if self.has_softcap {
                // tanh(x) = 1 - 2 / (1 + e^2x), with 2 log2(e) in the scale: 2^-23 off at most, which
                // is relative to the cap.
                score = cap - (cap + cap) * fast::recip(fast::exp2(score) + 1.0);
            }
            scores.set(i, score);
        }
    }

    /// Minus infinity for the keys that a query does not see. Query i of n is at position length - n
    /// + i.
    #[device]
    fn mask(
        &self,
        scores: &mut Fragment<f32>,
        at: &Coordinates,
        segment: &Segment,
        first_key: Reg<u32>,
        window: Reg<u32>,
    ) {
        for i in 0..scores.len() {
            let key = first_key + at.column(i) + self.queries;
            let position = segment.length + at.row(i) / self.heads.group();
            let mut is_seen = key.le(position);
            if self.has_window {
                is_seen = is_seen & (key + window).gt(position);
            }
            scores.set(i, is_seen.select(scores.get(i), f32::NEG_INFINITY));
        }
    }

    /// Shared memory for a partial result per warp along the keys.
    #[track_caller]
    fn shared_partials(&self) -> Partials<SharedSpace> {
        let (rows, pitch) = (self.rows(), self.heads.head_dim + PARTIAL_PADDING);
        let count = self.plan.key_warps * rows;
        Partials {
            rows,
            pitch,
            statistics: dynamic_shared(count * 2),
            outputs: dynamic_shared_aligned(count * pitch, 16),
        }
    }

    /// CTAs of a launch, where `resident` fit the device: each has a tile's boxes at least, if the
    /// sequences are as long as the block table allows.
    pub(crate) fn ctas(&self, shape: &DecodeShape, resident: u32) -> u32 {
        let heads = u64::from(shape.batch) * u64::from(self.heads.key_heads);
        let boxes = heads * (shape.capacity() / u64::from(self.plan.box_keys) + 1);
        let tiles = u32::try_from(boxes.div_ceil(self.plan.key_warps.into())).unwrap_or(u32::MAX);
        tiles.min(resident).min(self.plan.ctas.unwrap_or(resident))
    }

    /// Columns of a panel of the tiles.
    pub(crate) fn panel_columns<T: Element>(&self) -> u32 {
        BoxLayout::new::<T>(self).span
    }

    /// Elements of the workspace for a grid of `ctas`: two partial results per CTA, of its first
    /// segment and of its last.
    pub(crate) fn workspace_elements(&self, ctas: u32) -> usize {
        2 * ctas as usize * self.rows() as usize * (self.heads.head_dim as usize + 2)
    }

    /// A warp's result to shared memory.
    #[device]
    fn store_partial(
        &self,
        partials: &Partials<SharedSpace>,
        (key_warp, row_warp): (Reg<u32>, Reg<u32>),
        softmax: &OnlineSoftmax,
        out: &Fragment<f32>,
    ) {
        let (pair, sums) = (lane_id() % 4, softmax.sums());
        for half in 0..2 {
            let row = row_warp * 16 + lane_id() / 4 + half as u32 * 8;
            if row < self.rows() {
                if pair == 0 {
                    partials.statistics(key_warp, row).store_vector([softmax.maximum[half], sums[half]]);
                }
                let at = partials.output(key_warp, row, pair * 2);
                for i in (0..out.len()).step_by(2).filter(|i| row_of(*i) == half) {
                    at.at(i / 4 * 8).store_vector([out.get(i), out.get(i + 1)]);
                }
            }
        }
    }

    /// Combines the warps' results. The result of a head that this CTA alone has is the output;
    /// otherwise the CTA that finishes last combines the results of all that share the head.
    #[device]
    fn finish<T: CacheElement>(
        &self,
        segment: &Segment,
        inputs: &Inputs<T>,
        partials: &Partials<SharedSpace>,
        results: &Results<T>,
    ) {
        let threads = 32 * self.plan.consumer_warps();
        let consumers = NamedBarrier::new(1, threads);
        let first = thread_idx().x * COLUMNS;
        let elements = self.rows() * self.heads.head_dim;
        let shared = self.global_partials(results.workspace);
        let slot = |cta: Reg<u32>| cta * 2 + cta.eq(segment.first_cta).to_u32();
        consumers.sync();
        for element in (first..elements).step_by(threads * COLUMNS) {
            let (row, column) = (element / self.heads.head_dim, element % self.heads.head_dim);
            let of_warps: Vec<_> =
                (0..self.plan.key_warps).map(|warp| partials.load(constant(warp), row, column)).collect();
            let all = Partial::combined(&of_warps);
            if segment.is_whole() {
                self.store(segment, inputs, results, (row, column), all);
            } else {
                shared.store(slot(block_idx().x), row, column, &all);
            }
        }
        let is_last = shared_array::<u32>(1);
        // The barrier also keeps the next segment's results off those that are being read.
        consumers.sync();
        if !segment.is_whole() {
            // The increment of thread 0 releases what all have stored, and acquires what the other
            // CTAs have.
            if thread_idx().x == 0 {
                let others = segment.last_cta - segment.first_cta;
                let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
                let before = results.arrived.at(segment.first_cta).atomic_increment(others, counting);
                is_last.store(before.eq(others).to_u32());
            }
            consumers.sync();
            if is_last.load() != 0 {
                for element in (first..elements).step_by(threads * COLUMNS) {
                    let (row, column) = (element / self.heads.head_dim, element % self.heads.head_dim);
                    let mut all = Partial::empty();
                    for cta in (segment.first_cta..segment.last_cta + 1).step_by(PARTIALS_AT_ONCE) {
                        let mut of_ctas = vec![all];
                        for other in 0..PARTIALS_AT_ONCE {
                            let other = cta + other;
                            let mut partial = shared.load(slot(other.min(segment.last_cta)), row, column);
                            let is_another = other.le(segment.last_cta);
                            partial.maximum = is_another.select(partial.maximum, f32::NEG_INFINITY);
                            of_ctas.push(partial);
                        }
                        all = Partial::combined(&of_ctas);
                    }
                    self.store(segment, inputs, results, (row, column), all);
                }
            }
        }
    }

    /// The partial results of the CTAs.
    #[device]
    fn global_partials(&self, workspace: Global<f32>) -> Partials<GlobalSpace> {
        let (rows, pitch) = (self.rows(), self.heads.head_dim);
        let statistics = workspace.at(grid_dim().x * (2 * rows * pitch));
        Partials { rows, pitch, statistics, outputs: workspace }
    }

    /// Stores the output of a row, four columns of it, and LSE.
    #[device]
    fn store<T: CacheElement>(
        &self,
        segment: &Segment,
        inputs: &Inputs<T>,
        results: &Results<T>,
        (row, column): (Reg<u32>, Reg<u32>),
        mut all: Partial,
    ) {
        let query_row = self.query_row(segment, row);
        if self.has_sink {
            let head = segment.head * self.heads.group() + row % self.heads.group();
            let sink = Partial {
                maximum: inputs.sink[head] * std::f32::consts::LOG2_E,
                sum: constant(1.0),
                ..Partial::empty()
            };
            all = Partial::combined(&[all, sink]);
        }
        let factor = all.sum.gt(0.0).select(fast::recip(all.sum), 0.0f32);
        let output = results.output.at(query_row as u64 * u64::from(self.heads.head_dim)).at(column);
        output.store_vector(all.columns.map(|value| (value * factor).convert::<T>()));
        if column == 0 {
            results.lse[query_row] = (all.maximum + fast::log2(all.sum)) * std::f32::consts::LN_2;
        }
    }
}

/// What a launch writes.
struct Results<T> {
    output: Global<T>,
    lse: Global<f32>,
    workspace: Global<f32>,
    arrived: Global<u32>,
}

/// The accumulators of one panel of columns.
fn panel_of(out: &Fragment<f32>, panel: u32, panels: u32) -> Fragment<f32> {
    let elements = out.len() / panels;
    out.window(panel * elements, Layout::new((4, 1, elements / 4), (1, 0, 4)))
}

/// Zeros for the values of keys that no query sees: the page may hold anything there, also NaN,
/// which a weight of 0 does not hide.
///
/// Of 16 keys, a thread has two neighbors and, in its next register, those 8 keys further.
#[device]
fn clear_unseen<T: CacheElement>(v: &mut Fragment<T>, segment: &Segment, first_key: Reg<u32>) {
    let keys_of_step = v.slice((All, All, 0)).len();
    for i in (0..v.len()).step_by(2) {
        let key = first_key + lane_id() % 4 * 2 + (i / keys_of_step * 16 + i / 2 % 2 * 8);
        let [low, high] = [0, 1].map(|next| {
            let key = key + next;
            let is_seen = key.ge(segment.first_seen) & key.lt(segment.length);
            is_seen.select(v.get(i + next), T::ZERO)
        });
        v.set_pair(i, low, high);
    }
}
