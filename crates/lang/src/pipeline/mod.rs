//! Pipelines: stages in shared memory that a producer role fills by asynchronous copies and a
//! consumer role reads.
//!
//! ```text
//! producer   wait until stage s is empty -> expect its bytes, start its copies -> s + 1
//! consumer   wait until stage s is full  -> read it -> release it              -> s + 1
//! ```
//!
//! Each stage has two mbarriers. `full` completes when the bytes of the stage's copies have
//! arrived; `empty` when every consumer warpgroup, in every CTA that receives the copies, has
//! released the stage. The pipeline derives the stage, the parity, the transaction bytes and the
//! arrival counts from the roles and the copies. CUTLASS: `PipelineTmaAsync`.
//!
//! A kernel that starts other copies itself, and whose warps or CTA read the stages, uses a
//! [`TransactionPipeline`].

mod state;
mod transaction;

use warpwright_arch::limits::WARP_SIZE;
use warpwright_layout::{Error, Int};

pub use self::state::PipelineState;
use self::state::copy_of;
pub use self::transaction::{TransactionPipeline, TransactionStages};
use crate::DeviceValue;
use crate::block::sync_threads;
use crate::cluster::cluster_sync;
use crate::cta_group::CtaGroup;
use crate::device_value::assign;
use crate::element::Element;
use crate::fence::fence_mbarrier_init;
use crate::mbarrier::Mbarriers;
use crate::multicast::ClusterGrid;
use crate::operation::{here, refuse};
use crate::recorder::PipelineId;
use crate::recorder::{self, StageUse, Stages};
use crate::role::{Role, WARPGROUP, only_where};
use crate::special::thread_idx;
use crate::tensor::{StagedOperand, TileLoad, TmaTile};
use crate::tensor_memory::{commit_tensor_core, commit_tensor_core_to};
use crate::value::{Reg, constant};
use crate::warp::{ALL_LANES, sync_warp};

/// Warps of a warpgroup.
const WARPGROUP_WARPS: u32 = WARPGROUP / WARP_SIZE;

/// How the warpgroups of a consumer role share the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerSchedule {
    /// Every warpgroup reads every stage: they compute one tile together.
    Cooperative,
    /// One warpgroup reads a stage, and [skips](Consumer::skip) those of the others: each computes
    /// its own tile, in [turns](Role::wait_turn).
    Pingpong,
}

/// The stages of a [`Pipeline`] before it is connected: they allocate the operands.
pub struct PipelineStages {
    id: PipelineId,
    count: u32,
    /// Warps that release a stage together.
    releasing_warps: u32,
}

impl PipelineStages {
    /// An operand of the pipeline: dynamic shared memory for one tile in each stage.
    #[track_caller]
    pub fn operand<T: Element>(&mut self, tile: Result<TmaTile, Error>) -> StagedOperand<T> {
        StagedOperand::new(tile, self.count, self.id)
    }

    /// Releases by each warp, where threads read the stages themselves. Otherwise one thread
    /// releases for its warpgroup, which is right for what `wgmma` reads: it has read the stage for
    /// all warps.
    pub fn release_by_warps(&mut self) {
        self.releasing_warps = 1;
    }

    /// The pipeline between the producers of `cluster`'s CTAs and `consumer`.
    ///
    /// All threads of the CTA call it, before they split into roles: the mbarriers are initialized
    /// when it returns.
    #[track_caller]
    pub fn connect(self, consumer: Role, schedule: ConsumerSchedule, cluster: ClusterGrid) -> Pipeline {
        self.connect_group(CtaGroup::One, consumer, schedule, cluster)
    }

    /// The pipeline of a pair of CTAs, a cluster of 2, whose tensor cores multiply together
    /// ([`CtaGroup::Two`]).
    ///
    /// Each CTA's producer fills its own stages, and the loads of both complete in the first CTA. The
    /// consumer is one thread there, which [releases](Consumer::release_after_mma) the stages of both.
    #[track_caller]
    pub fn connect_pair(self, consumer: Role, cluster: ClusterGrid) -> Pipeline {
        if cluster.size() != 2 {
            refuse(format!(
                "`connect_pair`: the cluster has {} CTAs, and a pair is 2: pass the `ClusterGrid` of the pair",
                cluster.size()
            ));
        }
        self.connect_group(CtaGroup::Two, consumer, ConsumerSchedule::Cooperative, cluster)
    }

    #[track_caller]
    fn connect_group(
        self,
        group: CtaGroup,
        consumer: Role,
        schedule: ConsumerSchedule,
        cluster: ClusterGrid,
    ) -> Pipeline {
        let Self { id, count, releasing_warps } = self;
        let warpgroups = match schedule {
            ConsumerSchedule::Cooperative => consumer.warpgroups(),
            ConsumerSchedule::Pingpong => 1,
        };
        let pipeline = Pipeline {
            id,
            full: Mbarriers::called("`full` mbarrier", count),
            empty: Mbarriers::called("`empty` mbarrier", count),
            stages: count,
            releasing_threads: WARP_SIZE * releasing_warps,
            releases: warpgroups * WARPGROUP_WARPS / releasing_warps,
            ctas: group.ctas(),
            consumer,
            cluster,
        };
        pipeline.initialize();
        pipeline
    }
}

/// Stages in shared memory between a producer and a consumer role.
#[derive(Clone, Copy, DeviceValue)]
pub struct Pipeline {
    id: PipelineId,
    full: Mbarriers,
    empty: Mbarriers,
    stages: u32,
    /// Threads for which one releases a stage: a warp's, or a warpgroup's.
    releasing_threads: u32,
    /// Releases of each stage by one CTA.
    releases: u32,
    /// CTAs whose tensor cores multiply together.
    ctas: u32,
    consumer: Role,
    cluster: ClusterGrid,
}

impl Pipeline {
    /// A pipeline of `count` stages, to be given its operands and then connected.
    #[track_caller]
    pub fn stages(count: u32) -> PipelineStages {
        if count == 0 {
            refuse("a pipeline needs at least one stage");
        }
        PipelineStages { id: PipelineId::next(), count, releasing_warps: WARPGROUP_WARPS }
    }

    #[track_caller]
    fn initialize(self) {
        only_where(thread_idx().x.eq(0u32), || {
            for (full, empty) in self.full.iter().zip(self.empty.iter()) {
                full.init(self.ctas);
                empty.init(if self.ctas == 1 { self.releases * self.cluster.loaders() } else { 1 });
            }
            fence_mbarrier_init();
        });
        if self.cluster.size() == 1 {
            sync_threads();
        } else {
            cluster_sync();
        }
    }

    /// The producer's end. One thread of the CTA uses it.
    #[track_caller]
    pub fn producer(self) -> Producer {
        Producer { pipeline: self, state: PipelineState::start() }
    }

    /// The consumer's end. Every thread of the consumer role uses it.
    #[track_caller]
    pub fn consumer(self) -> Consumer {
        // Each of the first threads releases stages to one of the CTAs that fill them.
        let thread = self.consumer.thread() % self.releasing_threads;
        let releases = thread.lt(self.cluster.loaders());
        let to = self.cluster.loader(thread);
        Consumer { pipeline: self, state: PipelineState::start(), oldest: copy_of(0u32), releases, to }
    }
}

/// The producer's end of a [`Pipeline`].
#[derive(Clone, Copy, DeviceValue)]
pub struct Producer {
    pipeline: Pipeline,
    state: PipelineState,
}

impl Producer {
    /// Waits until the next stage is empty: what threads themselves write for it, before
    /// [`load`](Self::load), belongs to this stage. A consumer that has waited for the stage sees it.
    ///
    /// A consumer's warpgroup releases a stage by one thread: it
    /// [synchronizes](Role::sync_warpgroup) between the reads of its threads and the release.
    #[track_caller]
    pub fn acquire(&self) -> Stage {
        let state = self.state.now();
        self.pipeline.empty.at(state.stage).wait_parity(state.parity ^ 1u32);
        Stage { index: state.stage }
    }

    /// Acquires the next stage, once it is empty, and starts the loads that fill it: their bytes
    /// commit it. Without loads it is full at once.
    #[track_caller]
    pub fn load(&mut self, loads: impl AsRef<[TileLoad]>) {
        let loads = loads.as_ref();
        self.expect_own(loads);
        let state = self.state.now();
        self.pipeline.empty.at(state.stage).wait_parity(state.parity ^ 1u32);
        let bytes = loads.iter().map(TileLoad::copied_bytes).sum::<u32>();
        if self.pipeline.ctas == 1 {
            let full = self.pipeline.full.at(state.stage);
            full.arrive_and_expect(bytes);
            for load in loads {
                load.start(state.stage, full, None);
            }
        } else {
            let first = self.pipeline.full.at(state.stage).at_rank(0u32);
            first.arrive_and_expect(bytes);
            for load in loads {
                load.start(state.stage, first, Some(CtaGroup::Two));
            }
        }
        self.state.step(self.pipeline.stages);
    }

    /// Starts the loads of some operands into stage `stage`, one of the first that are filled, and expects
    /// the bytes of the `others` too. [`load_others`](Self::load_others) starts these, for the stages in
    /// their order.
    ///
    /// So a kernel loads what its predecessor does not write before it
    /// [waits](crate::launch::grid_dependency_wait) for it.
    #[track_caller]
    pub fn load_ahead(&self, stage: Reg<u32>, loads: &[TileLoad], others: &[TileLoad]) {
        let all = [loads, others].concat();
        self.expect_own(&all);
        if self.pipeline.ctas != 1 {
            refuse("`load_ahead`: the stages of a pair of CTAs are filled by `load`");
        }
        let full = self.pipeline.full.at(stage);
        full.arrive_and_expect(all.iter().map(TileLoad::copied_bytes).sum::<u32>());
        for load in loads {
            load.start(stage, full, None);
        }
    }

    /// Starts the loads that complete the next stage: [`load_ahead`](Self::load_ahead) has started its
    /// others.
    #[track_caller]
    pub fn load_others(&mut self, loads: &[TileLoad]) {
        self.expect_own(loads);
        let stage = copy_of(self.state.stage);
        for load in loads {
            load.start(stage, self.pipeline.full.at(stage), None);
        }
        self.state.step(self.pipeline.stages);
    }

    /// Refuses loads into other pipelines, and two of one operand.
    #[track_caller]
    fn expect_own(&self, loads: &[TileLoad]) {
        if loads.iter().any(|load| load.pipeline() != self.pipeline.id) {
            refuse(
                "an operand of another pipeline is loaded: load the operands that this pipeline's stages allocated",
            );
        }
        for (position, load) in loads.iter().enumerate() {
            if loads[..position].iter().any(|other| other.is_of_the_same_operand(load)) {
                refuse(
                    "`load`: an operand is loaded twice into one stage: load each of the pipeline's operands once",
                );
            }
        }
    }

    /// Waits until all stages are empty. Without it a CTA of the cluster could release a stage of a
    /// CTA that has exited.
    #[track_caller]
    pub fn tail(&mut self) {
        for _ in 0..self.pipeline.stages {
            let state = self.state.now();
            self.pipeline.empty.at(state.stage).wait_parity(state.parity ^ 1u32);
            self.state.step(self.pipeline.stages);
        }
    }
}

/// A full stage, which a consumer reads: a coordinate of the operands' tensors.
#[derive(Clone, Copy, DeviceValue)]
pub struct Stage {
    index: Reg<u32>,
}

impl Stage {
    /// Its number in the pipeline: the index of what threads keep for each stage beside the
    /// operands.
    pub fn index(self) -> Reg<u32> {
        self.index
    }
}

impl From<Stage> for Int {
    fn from(stage: Stage) -> Int {
        stage.index.into()
    }
}

/// The consumer's end of a [`Pipeline`].
#[derive(Clone, Copy, DeviceValue)]
pub struct Consumer {
    pipeline: Pipeline,
    state: PipelineState,
    /// The oldest stage that is not released.
    oldest: Reg<u32>,
    /// Whether this thread releases stages for its warp or warpgroup, and to which CTA.
    releases: Reg<bool>,
    to: Reg<u32>,
}

impl Consumer {
    /// Waits for the next stage to be full.
    #[track_caller]
    pub fn wait(&mut self) -> Stage {
        let stage = self.peek();
        self.note_stage_use(StageUse::Wait);
        self.state.step(self.pipeline.stages);
        stage
    }

    /// Waits for the next stage to be full, which stays the next.
    #[track_caller]
    pub fn peek(&self) -> Stage {
        let state = self.state.now();
        self.pipeline.full.at(state.stage).wait_parity(state.parity);
        self.stage(state.stage)
    }

    /// Stage `index` of the pipeline.
    fn stage(&self, index: Reg<u32>) -> Stage {
        let stages = Stages { count: self.pipeline.stages, pipeline: Some(self.pipeline.id) };
        recorder::with(|recorder| recorder.note_stages(index.register(), stages));
        Stage { index }
    }

    /// The oldest stage that this warpgroup has waited for and not released.
    #[track_caller]
    pub fn oldest(&self) -> Stage {
        self.stage(copy_of(self.oldest))
    }

    /// Skips `count` stages, which the other warpgroups of the role read. All stages waited for
    /// must be released.
    ///
    /// Warpgroups that skip must take turns ([`Role::wait_turn`]). A warpgroup that waits a whole
    /// round ahead of the others would mistake the completion of an earlier phase of the same
    /// parity for its own.
    #[track_caller]
    pub fn skip(&mut self, count: Reg<u32>) {
        let (stages, target) = (self.pipeline.stages, self.state.stage + count);
        let rounds = target / stages;
        assign(&mut self.oldest, target - rounds * stages);
        let parity = (self.state.parity + rounds) & 1u32;
        assign(&mut self.state, PipelineState { stage: self.oldest.duplicate(), parity });
    }

    /// Releases the oldest stage to its producers: the warpgroup has read it, or the warp
    /// ([`release_by_warps`](PipelineStages::release_by_warps)).
    #[track_caller]
    pub fn release(&mut self) {
        if self.pipeline.releasing_threads == WARP_SIZE {
            sync_warp(ALL_LANES);
        }
        let empty = self.pipeline.empty.at(copy_of(self.oldest));
        only_where(self.releases, || {
            if self.pipeline.cluster.size() == 1 {
                empty.arrive();
            } else {
                empty.at_rank(self.to).arrive();
            }
        });
        self.advance_oldest();
    }

    /// Releases the oldest stage when all MMAs that this thread has issued (`tcgen05`) are
    /// complete.
    ///
    /// The thread that issues them is the only one of its role that uses the consumer's end.
    #[track_caller]
    pub fn release_after_mma(&mut self, group: CtaGroup) {
        let (cluster, empty) = (self.pipeline.cluster, self.pipeline.empty.at(copy_of(self.oldest)));
        if cluster.size() == 1 {
            commit_tensor_core(group, empty);
        } else {
            let bit = |loader: u32| constant(1u16) << cluster.loader(constant(loader));
            let ranks = (1..cluster.loaders()).fold(bit(0), |ranks, loader| ranks | bit(loader));
            commit_tensor_core_to(group, empty, ranks);
        }
        self.advance_oldest();
    }

    #[track_caller]
    fn note_stage_use(&self, used: StageUse) {
        let location = here();
        recorder::with(|recorder| recorder.note_stage_use(self.pipeline.id, used, location));
    }

    #[track_caller]
    fn advance_oldest(&mut self) {
        self.note_stage_use(StageUse::Release);
        let next = self.oldest + 1u32;
        assign(&mut self.oldest, next.eq(self.pipeline.stages).select(0u32, next));
    }
}
