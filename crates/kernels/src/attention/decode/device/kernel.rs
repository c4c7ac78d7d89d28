//! The kernel: a producer's warp copies tiles of K and V into a pipeline, consumer warps multiply.
//!
//! ```text
//! producer     page of each box from the block table; tensor copies of K's tile, of V's tile, of the next K's ..
//!              before the predecessor ends, up to the newest keys, if the cache is settled
//! consumers    S = Q·Kᵀ | release K | softmax, P = 2^(S - max) | O = O 2^(max before - max) + P·V | release V
//!              each warp has its own keys of a tile, and an O of its own
//! end of a     the warps' results are combined in shared memory; a head that several CTAs share is combined
//! segment      by the CTA that finishes last, known by a counter
//! ```
//!
//! Rows are the queries of a key head, `query * group + query head of the group`, padded to 16. The
//! products take 5% of the tensor cores' time (H200: 18 bytes of K and V per clock and SM, 16
//! multiply-adds per element); bytes in flight decide, which are those of the pipeline.

use warpwright::prelude::*;

use super::cache::{BoxPosition, Pool};
use super::configuration::{CacheElement, DecodeAttention, Inputs};
use super::results::{Results, levels};
use super::schedule::Walk;
use super::scores::clear_unseen;
use super::softmax::OnlineSoftmax;
use super::stages::{BoxLayout, TileStages};
use crate::attention::decode::problem::DecodeShape;

/// Words of a cache line.
const LINE_WORDS: u32 = 32;

impl DecodeAttention {
    /// `workspace` has [`workspace_elements`](Self::workspace_elements); `arrived` has
    /// [`counters`](Self::counters), 0 before and after.
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
        let stages = TileStages::<T>::new(self, P::ARRIVALS);
        let results = Results::new(*self, inputs, [*lse, *workspace], *output, *arrived);
        let [batch, pages_per_sequence, window, team_ctas] = inputs.sizes;
        if self.plan.is_hopper {
            launch::grid_dependency_launch();
        }
        if self.plan.is_hopper && !self.is_settled {
            // The first bytes of K depend on a length and then on a page. While the predecessor ends, each
            // CTA fetches a line of these into L2. A prefetch reads nothing, so it need not wait.
            for (from, length) in [(inputs.lengths, batch), (inputs.table, batch * pages_per_sequence)] {
                let line = block_idx().x * LINE_WORDS;
                if thread_idx().x == 0 && line < length {
                    from.at(line).prefetch_l2();
                }
            }
            launch::grid_dependency_wait();
        }
        // All threads make the call, which synchronizes the CTA.
        let reach = window + (self.queries - 1);
        let walk = Walk::new(*self, inputs.lengths, (batch, pages_per_sequence), reach, team_ctas);
        if warp_id() == self.plan.consumer_warps() {
            self.produce(&stages, walk, &inputs, [keys, values]);
        } else {
            self.consume(&stages, walk, &inputs, &results);
        }
    }

    /// The producer's warp: a lane for each box of a tile.
    #[device]
    fn produce<T: CacheElement, P: Pool<T>>(
        &self,
        stages: &TileStages<T>,
        mut walk: Walk,
        inputs: &Inputs<T>,
        pools: [P; 2],
    ) {
        let (box_keys, key_warps) = (self.plan.box_keys, self.plan.key_warps);
        let mut state = PipelineState::start();
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
                if self.is_settled {
                    let end = segment.first_key + (first + present) * box_keys;
                    if end > segment.length - segment.length.min(self.queries) {
                        // The predecessor may write keys of the tile.
                        launch::grid_dependency_wait();
                    }
                }
                for pool in &pools {
                    let full = stages.pipeline.acquire(state);
                    pool.fill(self, stages, state.stage(), full, position, present);
                    state = state.next(self.plan.stages);
                }
                page = next_page;
            }
        }
    }

    /// The consumer warps.
    #[device]
    fn consume<T: CacheElement>(
        &self,
        stages: &TileStages<T>,
        mut walk: Walk,
        inputs: &Inputs<T>,
        results: &Results<T>,
    ) {
        if self.is_settled {
            launch::grid_dependency_wait();
        }
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
        let mut v: Fragment<T> = part.b_fragment((stages.boxes.span, box_keys));
        let mut scores: Fragment<f32> = part.c_fragment((rows, box_keys));
        let mut weights: Fragment<T> = part.a_fragment((rows, box_keys));
        let mut out: Fragment<f32> = part.c_fragment((rows, head_dim));
        let scores_at = part.c_coordinates((rows, box_keys));

        // K has k contiguous, and V n: its 8x8 matrices are transposed on the way to registers.
        let k_load = TiledCopy::into_b::<T>("SM75_U32x4_LDSM_N", &mma).thread(thread);
        let v_load = TiledCopy::into_b::<T>("SM75_U16x8_LDSM_T", &mma).thread(thread);
        let k_boxes = k_load.source(&stages.boxes.keys_tensor(stages.memory, stages.all_boxes())).hoisted();
        let (k_target, v_target) = (k_load.retile(&k), v_load.retile(&v));
        let v_boxes = v_load.source(&stages.boxes.values_tensor(stages.memory, stages.all_boxes())).hoisted();

        let mut state = PipelineState::start();
        while walk.is_unfinished() {
            let segment = walk.next();
            self.load_queries(&mut q, inputs, &segment, row_warp);
            out.clear();
            let mut softmax = OnlineSoftmax::new();
            for first in (0..segment.boxes).step_by(plan.key_warps) {
                let (k_state, v_state) = (state, state.next(plan.stages));
                state = v_state.next(plan.stages);
                if key_warp < segment.boxes - first {
                    let first_key = segment.first_key + (first + key_warp) * box_keys;
                    let is_partial = self.is_partial(&segment, first_key, inputs.sizes[2]);

                    stages.pipeline.wait(k_state);
                    let k_box = k_state.stage() * plan.key_warps + key_warp;
                    scores.clear();
                    for step in 0..head_dim / 16 {
                        let at = (All, All, step);
                        k_load.load_matrix(&k_target.slice(at), &k_boxes.slice((All, All, step, k_box)));
                        gemm(&mma, &mut scores, &q.slice(at), &k.slice(at));
                    }
                    stages.release(k_state);

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

                    stages.pipeline.wait(v_state);
                    let v_box = v_state.stage() * plan.key_warps + key_warp;
                    for panel in 0..stages.boxes.panels() {
                        v_load.load_matrix(&v_target, &v_boxes.slice((All, All, All, panel, v_box)));
                        if is_partial {
                            clear_unseen(&mut v, &segment, first_key);
                        }
                        let mut columns = panel_of(&out, panel, stages.boxes.panels());
                        for step in 0..box_keys / 16 {
                            let at = (All, All, step);
                            gemm(&mma, &mut columns, &weights.slice(at), &v.slice(at));
                        }
                    }
                    stages.release(v_state);
                } else {
                    // The last tile of a segment may lack the warp's box.
                    stages.skip(k_state);
                    stages.skip(v_state);
                }
            }
            results.store_warp((key_warp, row_warp), &softmax, &out);
            results.combine(&segment);
        }
    }

    /// Rows of the product.
    pub(super) fn rows(&self) -> u32 {
        self.queries * self.heads.group()
    }

    /// CTAs of a launch, where `resident` fit the device: each has a tile's boxes at least, if the
    /// sequences are as long as the block table allows.
    pub(crate) fn ctas(&self, shape: &DecodeShape, resident: u32) -> u32 {
        let heads = u64::from(shape.batch) * u64::from(self.heads.key_heads);
        let boxes = heads * (shape.cache.capacity() / u64::from(self.plan.box_keys) + 1);
        let tiles = u32::try_from(boxes.div_ceil(self.plan.key_warps.into())).unwrap_or(u32::MAX);
        tiles.min(resident).min(self.plan.ctas.unwrap_or(resident))
    }

    /// Columns of a panel of the tiles.
    pub(crate) fn panel_columns<T: Element>(&self) -> u32 {
        BoxLayout::new::<T>(self).span
    }

    /// CTAs of a team in a grid of `ctas`: as many as there are heads, if they make up whole teams.
    pub(crate) fn team_ctas(&self, ctas: u32) -> u32 {
        let is_team =
            |members: &u32| self.heads.key_heads.is_multiple_of(*members) && ctas.is_multiple_of(*members);
        (1..=self.heads.key_heads.min(ctas)).rev().find(is_team).unwrap_or(1)
    }

    /// Counters of a grid of `ctas`: at each level, of the heads that a CTA continues and begins.
    pub(crate) fn counters(&self, ctas: u32) -> usize {
        2 * ctas as usize * levels(ctas) as usize
    }

    /// Elements of the workspace for a grid of `ctas`: two partial results per CTA, of its first
    /// segment and of its last, and the statistics of each level.
    pub(crate) fn workspace_elements(&self, ctas: u32) -> usize {
        let row = self.heads.head_dim + 2 * levels(ctas);
        2 * ctas as usize * self.rows() as usize * row as usize
    }
}

/// The accumulators of one panel of columns.
fn panel_of(out: &Fragment<f32>, panel: u32, panels: u32) -> Fragment<f32> {
    let elements = out.len() / panels;
    out.window(panel * elements, Layout::new((4, 1, elements / 4), (1, 0, 4)))
}
