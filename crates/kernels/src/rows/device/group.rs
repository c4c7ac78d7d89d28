//! The threads that share a row, and the reduction over them.
//!
//! A reduction goes up level by level, and at each level every thread ends with the result:
//!
//! ```text
//! lanes    butterfly of 5 shuffles                                  all lanes have the result of their warp
//! warps    one value per warp to shared memory, barrier, each lane
//!          reads one, butterfly                                     all threads have the result of their CTA
//! CTAs     one value per CTA to the shared memory of every CTA of
//!          the cluster, whose mbarrier counts them; butterfly       all threads have the result of the row
//! ```
//!
//! Values cross the cluster by `st.async`. A cluster barrier would work too, but its arrival is a
//! release: it waits for all stores of the CTA, and those are the row before. Where the whole grid
//! shares a row, values go through global memory: [`GridReduction`].

use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::prelude::*;

use super::super::plan::{Plan, RowScheduler};
use super::grid_reduction::GridReduction;
use super::merge::{Merge, Source, neutral};

/// Values of a partial result at most.
const MAX_VALUES: u32 = 2;
/// Partial results of one level at most: the warps of a CTA.
const MAX_PARTIALS: u32 = 32;
/// Buffers for the values of warps: a barrier separates the uses of two.
const WARP_BUFFERS: u32 = 2;

/// Buffers for the values of CTAs.
///
/// A CTA that has all values of a row knows that every CTA has sent its own, and so has finished
/// waiting for the row it waited for before. That is the previous row; with a staggered scheduler a
/// CTA waits for a row after it has sent the next one, so it is the row three before.
const fn cta_buffers(scheduler: RowScheduler) -> u32 {
    match scheduler {
        RowScheduler::Staggered => 4,
        _ => 2,
    }
}

/// The threads that share a row.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Group {
    plan: Plan,
    /// This thread's rank among the threads of its CTA that share the row.
    pub(super) rank: Reg<u32>,
    /// The CTA's rank among those that share the row.
    pub(super) cta: Reg<u32>,
    /// Buffers for the values of warps, and of CTAs.
    warps: Option<Shared<f32>>,
    ctas: Option<Shared<f32>>,
    /// For each buffer of the CTAs, completes when all values have arrived. They come from threads of other CTAs, and
    /// no thread releases a buffer: this is no pipeline of copies.
    arrived: Option<Mbarriers>,
    /// The index of the row among those of this group.
    pub(super) round: Reg<u32>,
    /// The reduction over CTAs that are no cluster.
    pub(super) grid: Option<GridReduction>,
}

impl Group {
    /// This thread's group. States the block, occupancy and cluster of the launch. `workspace` is
    /// for the reduction over a grid.
    #[track_caller]
    pub(super) fn new(plan: Plan, workspace: &Global<u64>) -> Self {
        launch::threads(plan.cta_threads());
        launch::blocks_per_sm(plan.ctas_per_sm);
        let is_grid = plan.scheduler == RowScheduler::Grid;
        let is_cluster = plan.ctas > 1 && !is_grid;
        if is_cluster {
            launch::cluster(plan.ctas, 1, 1);
        }
        let rank = thread_idx().x;
        let rank = if plan.rows > 1 { rank % plan.threads } else { rank };
        let cta = match (is_cluster, is_grid) {
            (true, _) => cluster_rank(),
            (_, true) => block_idx().x,
            _ => constant(0),
        };
        let buffers = |count: u32| shared_array::<f32>(count * MAX_PARTIALS * MAX_VALUES);
        let warps = (plan.threads > 32).then(|| buffers(WARP_BUFFERS));
        let ctas = is_cluster.then(|| buffers(cta_buffers(plan.scheduler)));
        let arrived = is_cluster.then(|| Mbarriers::new(cta_buffers(plan.scheduler)));
        if let Some(arrived) = arrived {
            initialize(arrived);
        }
        let grid = is_grid.then(|| GridReduction::new(plan, *workspace));
        Self { plan, rank, cta, warps, ctas, arrived, round: constant(0u32).duplicate(), grid }
    }

    /// Reads the workspace once the predecessor has ended.
    #[track_caller]
    pub(super) fn begin(self) -> Self {
        Self { grid: self.grid.map(GridReduction::begin), ..self }
    }

    /// The index of this group among those of its CTA.
    #[track_caller]
    pub(super) fn index(&self) -> Reg<u32> {
        thread_idx().x / self.plan.threads
    }

    /// Lanes of one warp that share a row.
    pub(super) fn lanes(&self) -> u32 {
        self.plan.threads.min(32)
    }

    /// Merges the values of the threads of the CTA.
    #[track_caller]
    pub(super) fn reduce_cta<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        self.reduce_warps(merge, merge.over_lanes(&[values], self.lanes(), Source::Lane))
    }

    /// Merges the values of the warps of the CTA.
    #[device]
    pub(super) fn reduce_warps<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        mut values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        if let Some(buffers) = self.warps {
            let (here, lane) = (buffer(buffers, self.round % WARP_BUFFERS), self.rank % 32);
            if lane == 0 {
                here.at(self.rank / 32 * K as u32).store_vector(values);
            }
            sync_threads();
            values = merge_buffer(merge, here, lane, self.plan.threads / 32, Source::Warp);
        }
        values
    }

    /// Merges the values of the CTAs of a row.
    #[track_caller]
    pub(super) fn reduce_ctas<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        values: [Reg<f32>; K],
        row: Reg<u32>,
    ) -> [Reg<f32>; K] {
        if self.plan.ctas == 1 {
            return values;
        }
        self.send(values, row);
        self.receive(merge, self.round, row)
    }

    /// Sends the CTA's values of this round's row to every CTA that shares it.
    #[device]
    pub(super) fn send<const K: usize>(&self, values: [Reg<f32>; K], row: Reg<u32>) {
        if let Some(grid) = self.grid {
            grid.send(values, row);
        }
        let ctas = self.plan.ctas;
        if let (Some(buffers), Some(arrived)) = (self.ctas, self.arrived) {
            let index = self.round % cta_buffers(self.plan.scheduler);
            let (here, arrived) = (buffer(buffers, index), arrived.at(index));
            if self.rank == 0 {
                arrived.arrive_and_expect(ctas * K as u32 * 4);
            }
            if self.rank < ctas {
                let there = here.at(self.cta * K as u32).map_to_block(self.rank);
                there.store_vector_async(values, arrived.at_rank(self.rank));
            }
        }
    }

    /// Waits for the values of all CTAs of the row of `round` and merges them.
    #[device]
    pub(super) fn receive<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        round: Reg<u32>,
        row: Reg<u32>,
    ) -> [Reg<f32>; K] {
        if let Some(grid) = self.grid {
            return grid.receive(merge, row);
        }
        let mut values = neutral(merge);
        if let (Some(buffers), Some(arrived)) = (self.ctas, self.arrived) {
            let count = cta_buffers(self.plan.scheduler);
            arrived.at(round % count).wait_parity(round / count % 2);
            let here = buffer(buffers, round % count);
            values = merge_buffer(merge, here, self.rank % 32, self.plan.ctas, Source::Cta);
        }
        values
    }
}

#[track_caller]
fn buffer(buffers: Shared<f32>, index: Reg<u32>) -> Shared<f32> {
    buffers.at(index * (MAX_PARTIALS * MAX_VALUES))
}

/// Merges `count` partial results in shared memory, of which each lane reads one.
#[device]
fn merge_buffer<M: Merge<K>, const K: usize>(
    merge: &M,
    from: Shared<f32>,
    lane: Reg<u32>,
    count: u32,
    source: Source,
) -> [Reg<f32>; K] {
    let width = count.next_power_of_two();
    let index = lane % width;
    let mut values = neutral(merge);
    if count == width {
        values = from.at(index * K as u32).load_vector::<K>();
    } else if index < count {
        values = from.at(index * K as u32).load_vector::<K>();
    }
    merge.over_lanes(&[values], width, source)
}

/// Initializes mbarriers of one arrival per phase. The cluster synchronizes before it uses them.
#[device]
fn initialize(barriers: Mbarriers) {
    if thread_idx().x == 0 {
        for barrier in barriers.iter() {
            barrier.init(1);
        }
        fence_mbarrier_init();
    }
}
