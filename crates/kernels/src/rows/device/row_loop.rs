//! The loop over the rows of a group of threads.
//!
//! A CTA or a cluster takes one row, and the device starts the next cluster when it exits. Two
//! things keep DRAM busy meanwhile: a CTA prefetches into L2 the row that will be read after its
//! own, and with programmatic dependent launch a grid starts before its predecessor ends,
//! prefetches its first rows (a prefetch needs no order) and then waits.
//!
//! Clusters of the longest rows are persistent. Their next rows are copied to a pipeline in shared
//! memory meanwhile:
//!
//! ```text
//! stage    0 1 2 | 0 1 2 | ..      row k is read from stage k % 3 into registers; then row k + 3 is copied there
//! ```
//!
//! Each row is still a chain: gather the partial results, reduce them over the CTAs, store the row.
//! The staggered scheduler takes the reduction out of the chain. A row stays in its stage until it
//! is stored one round later, when the partial results of the other CTAs have arrived:
//!
//! ```text
//! round    k                       k + 1                       k + 2
//!          gather row k, send      gather row k + 1, send      gather row k + 2, send
//!          store row k - 1         store row k                 row k + 4 is copied to the stage of row k
//! ```
//!
//! The grid scheduler has no clusters, which leave SMs idle where no cluster fits. The whole grid
//! shares each row, a CTA has the same columns of all rows, and its warps alternate between rows,
//! each staggered. Partial results go through global memory; the rows of the other warps hide that
//! latency.
//!
//! (H200: a pipeline for rows that one CTA holds was measured twice, 3.6 to 3.8 TB/s. One CTA per
//! row reaches 4.0 to 4.1, because the loads of the other CTAs of the SM hide the arithmetic.)

use warpwright::lang::bulk;
use warpwright::lang::cluster::{cluster_arrive_relaxed, cluster_wait};
use warpwright::lang::memory::{L2Eviction, cache_policy};
use warpwright::prelude::*;

use super::super::plan::{Evict, Plan, RowScheduler};
use super::chunk::RowElement;
use super::group::Group;
use super::merge::Merge;
use super::row::{Partition, Row, Source, first_vector};

/// One row of one group: what a kernel computes on.
pub(super) struct WorkUnit<T> {
    /// The threads that share the row.
    pub(super) group: Group,
    /// The index of the row.
    pub(super) index: Reg<u32>,
    /// Whether the row is stored. Groups of one warp run in lockstep; those past the last row
    /// compute it again and store nothing.
    pub(super) valid: Option<Reg<bool>>,
    /// The input row.
    pub(super) row: Row<T>,
}

/// The input matrices, and the rows that this group takes.
pub(super) struct RowLoop<T> {
    plan: Plan,
    pub(super) group: Group,
    pub(super) partition: Partition,
    matrices: Vec<Global<T>>,
    /// The word that stands for vectors outside the rows.
    fill: u32,
    rows: Reg<u32>,
    first: Reg<u32>,
    /// Rows from one round to the next.
    step: Reg<u32>,
    stages: Option<Stages<T>>,
}

/// The stages that rows are copied to.
struct Stages<T> {
    /// Stages of a group.
    count: u32,
    /// For each stage, the CTA's part of a row of each matrix.
    memory: Shared<T>,
    pipeline: TransactionPipeline,
    /// The group's first stage, where a CTA has several groups.
    first: Option<Reg<u32>>,
}

impl<T: RowElement> Stages<T> {
    #[device]
    fn new(plan: Plan, group: &Group, matrices: usize) -> Self {
        let count = plan.stages;
        let all = count * plan.rows;
        let memory = dynamic_shared::<T>(all * matrices as u32 * plan.span());
        let first = (plan.rows > 1).then(|| group.index() * count);
        let pipeline = TransactionPipeline::stages(all).synchronized_by_cta();
        sync_threads();
        Self { count, memory, pipeline, first }
    }

    /// The index of one of the group's stages among those of the CTA.
    #[track_caller]
    fn of_cta(&self, stage: Reg<u32>) -> Reg<u32> {
        self.first.map_or(stage, |first| first + stage)
    }

    #[track_caller]
    fn wait(&self, state: PipelineState) {
        self.pipeline.wait(self.first.map_or(state, |first| state.from_stage(first)));
    }
}

impl<T: RowElement> RowLoop<T> {
    /// Prefetches the first rows and waits for the predecessor, then fills the pipeline. A row is
    /// that of the one matrix, or the sum of those of two; words of `fill` stand outside.
    /// `workspace` is for the reduction over a grid.
    #[device]
    pub(super) fn begin(
        plan: Plan,
        (matrices, fill): (&[Global<T>], u32),
        rows: Reg<u32>,
        workspace: &Global<u64>,
    ) -> Self {
        let group = Group::new(plan, workspace);
        let partition = Partition::new(plan, &group);
        let matrices = matrices.to_vec();
        let is_grid = plan.scheduler == RowScheduler::Grid;
        let (first, step) = match is_grid {
            true => (group.index(), constant(plan.rows)),
            false => (block_idx().x / plan.ctas * plan.rows, grid_dim().x / plan.ctas * plan.rows),
        };
        let stages = match plan.scheduler {
            RowScheduler::Pipelined | RowScheduler::Staggered | RowScheduler::Grid => {
                Some(Stages::new(plan, &group, matrices.len()))
            }
            RowScheduler::NonPersistent | RowScheduler::Persistent => None,
        };
        let row_loop = Self { plan, group, partition, matrices, fill, rows, first, step, stages };
        // With the grid scheduler, a group may have no row.
        let leads = if is_grid { group.rank.eq(0u32) & first.lt(rows) } else { group.rank.eq(0u32) };
        if plan.dependent_launch {
            launch::grid_dependency_launch();
            if plan.has_bulk_rows::<T>() {
                if leads && first < resident_rows(plan) {
                    row_loop.prefetch(first);
                    for round in 1..plan.stages + 1 {
                        if rows - first > step * round {
                            row_loop.prefetch(first + step * round);
                        }
                    }
                }
            }
            launch::grid_dependency_wait();
        }
        if let Some(stages) = &row_loop.stages {
            if leads {
                for stage in 0..stages.count {
                    row_loop.copy(stages, constant(stage), first, step * stage);
                }
            }
        }
        // No CTA may write to the shared memory of one that has not started.
        if plan.ctas > 1 && !is_grid {
            cluster_arrive_relaxed();
            cluster_wait();
        }
        Self { group: row_loop.group.begin(), ..row_loop }
    }

    /// Runs the rows of this thread's group. `gather` returns the CTA's partial result of a row,
    /// which `merge` reduces over the CTAs, and what the thread keeps; `store` gets the result,
    /// and what was kept, if registers hold it until then.
    #[track_caller]
    pub(super) fn run<M: Merge<K>, G, const K: usize>(
        self,
        merge: &M,
        gather: impl Fn(&WorkUnit<T>) -> ([Reg<f32>; K], G),
        store: impl Fn(&WorkUnit<T>, [Reg<f32>; K], Option<G>),
    ) {
        if self.plan.lag() > 0 {
            return self.run_staggered(
                merge,
                |unit| gather(unit).0,
                |unit, of_row| store(unit, of_row, None),
            );
        }
        self.run_in_order(|unit| {
            let (of_cta, kept) = gather(unit);
            store(unit, unit.group.reduce_ctas(merge, of_cta, unit.index), Some(kept));
        });
    }

    /// Calls `work` with each row.
    #[device]
    fn run_in_order(self, work: impl Fn(&WorkUnit<T>)) {
        let Self { plan, partition, fill, rows, first, step, .. } = self;
        let mut group = self.group;
        let mut state = PipelineState::start();
        for base in (first..rows).step_by(step) {
            if plan.rows > 1 {
                let index = base + thread_idx().x / plan.threads;
                let valid = Some(index.lt(rows));
                let index = index.min(rows - 1);
                let row = Row::new(partition.of_row(index), Source::Global(self.at(index), fill));
                work(&WorkUnit { group, index, valid, row });
            } else if let Some(stages) = &self.stages {
                stages.wait(state);
                let row = Row::new(partition, Source::Stage(self.stage(stages, state.stage()), fill));
                // All threads have the row in registers: the stage is empty.
                sync_threads();
                if group.rank == 0 {
                    self.copy(stages, state.stage(), base, step * stages.count);
                }
                state.advance(stages.count);
                work(&WorkUnit { group, index: base, valid: None, row });
            } else {
                let row = Row::new(partition.of_row(base), Source::Global(self.at(base), fill));
                if plan.prefetches_rows && plan.has_bulk_rows::<T>() {
                    if group.rank == 0 && rows - base > resident_rows(plan) {
                        self.prefetch(base + resident_rows(plan));
                    }
                }
                work(&WorkUnit { group, index: base, valid: None, row });
            }
            group.round += 1;
        }
    }

    /// Gathers the partial results of each row, and finishes the row [`Plan::lag`] rounds later.
    #[device]
    fn run_staggered<M: Merge<K>, const K: usize>(
        self,
        merge: &M,
        gather: impl Fn(&WorkUnit<T>) -> [Reg<f32>; K],
        store: impl Fn(&WorkUnit<T>, [Reg<f32>; K]),
    ) {
        let Self { plan, partition, fill, rows, first, step, .. } = self;
        let lag = plan.lag();
        let Some(stages) = &self.stages else { unreachable!("these schedulers have stages") };
        let unit = |group, index, stage| {
            let row = Row::new(partition, Source::Stage(self.stage(stages, stage), fill));
            WorkUnit { group, index, valid: None, row }
        };
        let mut group = self.group;
        let mut index = first.duplicate();
        // The stages of the row that is gathered and of the rows before it, up to the row before
        // the one that is finished, whose stage is empty.
        let mut state = PipelineState::start();
        let mut before = vec![constant(0u32).duplicate(); lag as usize + 1];
        let mut rounds = (rows - first - 1) / step + 1;
        if plan.scheduler == RowScheduler::Grid {
            rounds = first.lt(rows).select(rounds, 0u32);
        }
        for round in 0..rounds + lag {
            if round < rounds {
                stages.wait(state);
                // This synchronizes the threads of the CTA.
                let of_cta = gather(&unit(group, index, state.stage()));
                group.send(of_cta, index);
                if plan.threads <= 32 {
                    sync_warp(ALL_LANES);
                }
                // All threads have finished the row before the one that is finished in this round.
                if group.rank == 0 && round > lag {
                    self.copy(stages, before[lag as usize], index, step * (stages.count - lag - 1));
                }
            }
            if round >= lag {
                let unit = unit(group, index - step * lag, before[lag as usize - 1]);
                let of_row = group.receive(merge, round - lag, unit.index);
                store(&unit, of_row);
            }
            for age in (1..before.len()).rev() {
                before[age] = before[age - 1];
            }
            before[0] = state.stage();
            state.advance(stages.count);
            index += step;
            group.round += 1;
        }
        if let Some(grid) = &group.grid {
            grid.end(rows);
        }
    }

    /// Copies the CTA's part of row `row + ahead`, if there is one, to a stage. Called by one
    /// thread.
    #[device]
    fn copy(&self, stages: &Stages<T>, stage: Reg<u32>, row: Reg<u32>, ahead: Reg<u32>) {
        if self.rows - row > ahead {
            let row = row + ahead;
            let full = stages.pipeline.full(stages.of_cta(stage));
            let columns = self.partition.columns();
            full.arrive_and_expect(columns * (self.matrices.len() as u32 * T::BYTES));
            for (from, to) in self.at(row).into_iter().zip(self.stage(stages, stage)) {
                let load = bulk::Load::new(from.at(self.partition.base), columns);
                let load = match self.plan.evict {
                    Evict::First => load.with_policy(cache_policy(L2Eviction::First)),
                    Evict::Normal => load,
                };
                load.start(to, full);
            }
        }
    }

    /// The CTA's part of a row of each matrix, in a stage.
    #[track_caller]
    fn stage(&self, stages: &Stages<T>, stage: Reg<u32>) -> Vec<Shared<T>> {
        let count = self.matrices.len() as u32;
        let first = stages.memory.at(stages.of_cta(stage) * (count * self.plan.span()));
        (0..count).map(|matrix| first.at(matrix * self.plan.span())).collect()
    }

    /// A row of each matrix, from the vector where it begins.
    #[track_caller]
    fn at(&self, row: Reg<u32>) -> Vec<Global<T>> {
        self.matrices.iter().map(|matrix| first_vector(*matrix, row, self.plan)).collect()
    }

    /// Prefetches the whole vectors of the CTA's part of a row into L2.
    #[track_caller]
    fn prefetch(&self, row: Reg<u32>) {
        let partition = self.partition.of_row(row);
        for row in self.at(row) {
            bulk::Load::new(row.at(partition.first_column()), partition.columns()).prefetch();
        }
    }
}

/// Rows that are processed at once.
#[track_caller]
fn resident_rows(plan: Plan) -> Reg<u32> {
    if plan.is_persistent() {
        grid_dim().x / plan.ctas * plan.rows
    } else {
        sm_count() * plan.ctas_per_sm / plan.ctas
    }
}
