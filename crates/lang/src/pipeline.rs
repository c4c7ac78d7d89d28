//! Pipelines: a ring of slots in shared memory that one role fills by asynchronous copies and another reads.
//!
//! ```text
//! producer   wait until slot s is empty -> expect its bytes, start its copies -> s + 1
//! consumer   wait until slot s is full  -> read it -> release it              -> s + 1
//! ```
//!
//! Each slot has two mbarriers. `full` completes when the bytes of the slot's copies have arrived; `empty` when every consuming
//! warpgroup, in every CTA that the copies were sent to, has released the slot. The stage, the parity to wait for, the bytes and the
//! numbers of arrivals come from the roles and the copies: the kernel writes none of them.

use warpwright_layout::Int;

use crate::DeviceValue;
use crate::block::sync_threads;
use crate::cluster::cluster_sync;
use crate::fence::fence_mbarrier_init;
use crate::mbarrier::Mbarriers;
use crate::multicast::ClusterGrid;
use crate::operation::{compute, refuse};
use crate::role::{Role, WARPGROUP, only_where};
use crate::special::thread_idx;
use crate::staging::assign;
use crate::tensor::TileLoad;
use crate::tensor_memory::{CtaGroup, commit_tensor_core, commit_tensor_core_to};
use crate::value::{Reg, constant};

/// A ring of slots between a producer and a consuming role.
#[derive(Clone, Copy, DeviceValue)]
pub struct Pipeline {
    full: Mbarriers,
    empty: Mbarriers,
    stages: u32,
    /// Warpgroups that read each slot.
    readers: u32,
    consumer: Role,
    cluster: ClusterGrid,
}

/// A place in the ring: the stage, and the parity of the round.
#[derive(Clone, Copy, DeviceValue)]
struct Position {
    stage: Reg<u32>,
    round: Reg<u32>,
}

impl Position {
    #[track_caller]
    fn start() -> Self {
        Self { stage: copy_of(0u32), round: copy_of(0u32) }
    }

    /// The place now: what stays when this moves on.
    #[track_caller]
    fn now(&self) -> Self {
        Self { stage: copy_of(self.stage), round: copy_of(self.round) }
    }

    #[track_caller]
    fn advance(&mut self, stages: u32) {
        let next = self.stage + 1u32;
        let wraps = next.eq(stages);
        let round = self.round ^ wraps.to_u32();
        assign(self, Self { stage: wraps.select(0u32, next), round });
    }
}

#[track_caller]
fn copy_of(value: impl crate::value::Value<u32>) -> Reg<u32> {
    compute("mov.u32", [value.operand()])
}

impl Pipeline {
    /// A ring of `stages` slots, each read by `readers` warpgroups of `consumer`: by all of them, or by one where they take turns. The
    /// CTAs of `cluster` fill one another's slots.
    ///
    /// All threads of the CTA call it, before they part into roles: the barriers are ready when it returns.
    #[track_caller]
    pub fn new(stages: u32, consumer: Role, readers: u32, cluster: ClusterGrid) -> Self {
        if readers != 1 && readers != consumer.warpgroups() {
            refuse(format!(
                "a slot is read by one warpgroup of the role or by all {}, not by {readers}",
                consumer.warpgroups()
            ));
        }
        if stages == 0 {
            refuse("a pipeline needs at least one stage");
        }
        let pipeline = Self {
            full: Mbarriers::called("`full` mbarrier", stages),
            empty: Mbarriers::called("`empty` mbarrier", stages),
            stages,
            readers,
            consumer,
            cluster,
        };
        pipeline.initialise();
        pipeline
    }

    #[track_caller]
    fn initialise(self) {
        only_where(thread_idx().x.eq(0u32), || {
            for (full, empty) in self.full.iter().zip(self.empty.iter()) {
                full.init(1);
                empty.init(self.readers * self.cluster.loaders());
            }
            fence_mbarrier_init();
        });
        if self.cluster.size() == 1 {
            sync_threads();
        } else {
            cluster_sync();
        }
    }

    /// The producer's end. One thread of the CTA holds it.
    #[track_caller]
    pub fn producer(self) -> Producer {
        Producer { pipeline: self, at: Position::start() }
    }

    /// The consumer's end. Every thread of the consuming role holds it.
    #[track_caller]
    pub fn consumer(self) -> Consumer {
        // Each of a warpgroup's first threads releases the slots to one of the CTAs that fill them.
        let thread = self.consumer.thread() % WARPGROUP;
        let releases = thread.lt(self.cluster.loaders());
        let to = self.cluster.loader(thread);
        Consumer { pipeline: self, at: Position::start(), held: copy_of(0u32), releases, to }
    }
}

/// The end of a [`Pipeline`] that fills slots.
#[derive(Clone, Copy, DeviceValue)]
pub struct Producer {
    pipeline: Pipeline,
    at: Position,
}

impl Producer {
    /// Waits for the next slot to be empty, and starts the copies that fill it.
    #[track_caller]
    pub fn fill<const N: usize>(&mut self, loads: [TileLoad; N]) {
        let at = self.at.now();
        self.pipeline.empty.at(at.stage).wait_parity(at.round ^ 1u32);
        let full = self.pipeline.full.at(at.stage);
        let bytes: u32 = loads.iter().map(TileLoad::bytes).sum();
        full.arrive_and_expect(bytes);
        for load in &loads {
            load.start(at.stage, full);
        }
        self.at.advance(self.pipeline.stages);
    }

    /// Waits until all slots are empty again, so that no CTA of the cluster releases one to a CTA that has exited.
    #[track_caller]
    pub fn finish(&mut self) {
        for _ in 0..self.pipeline.stages {
            let at = self.at.now();
            self.pipeline.empty.at(at.stage).wait_parity(at.round ^ 1u32);
            self.at.advance(self.pipeline.stages);
        }
    }
}

/// A slot that is full: the stage of the ring to read.
#[derive(Clone, Copy, DeviceValue)]
pub struct Slot {
    stage: Reg<u32>,
}

impl From<Slot> for Int {
    fn from(slot: Slot) -> Int {
        slot.stage.into()
    }
}

/// The end of a [`Pipeline`] that reads slots.
#[derive(Clone, Copy, DeviceValue)]
pub struct Consumer {
    pipeline: Pipeline,
    at: Position,
    /// The oldest slot not released.
    held: Reg<u32>,
    /// Whether this thread is one that tells a loader that the warpgroup has released a slot, and which CTA it tells.
    releases: Reg<bool>,
    to: Reg<u32>,
}

impl Consumer {
    /// Waits for the next slot to be full.
    #[track_caller]
    pub fn wait(&mut self) -> Slot {
        let at = self.at.now();
        self.pipeline.full.at(at.stage).wait_parity(at.round);
        self.at.advance(self.pipeline.stages);
        Slot { stage: at.stage }
    }

    /// The oldest slot that this warpgroup holds: what is read of it again before it is released.
    #[track_caller]
    pub fn oldest(&self) -> Slot {
        Slot { stage: copy_of(self.held) }
    }

    /// Leaves `slots` slots to the other warpgroups of the role; none may be held.
    ///
    /// Warpgroups that skip must take turns ([`Role::wait_turn`]): one that waited far ahead of the others would take the end of an
    /// earlier round, of the same parity, for that of its own.
    #[track_caller]
    pub fn skip(&mut self, slots: Reg<u32>) {
        let (stages, far) = (self.pipeline.stages, self.at.stage + slots);
        let rounds = far / stages;
        assign(&mut self.held, far - rounds * stages);
        let round = (self.at.round + rounds) & 1u32;
        assign(&mut self.at, Position { stage: self.held.duplicate(), round });
    }

    /// Gives the oldest slot that this warpgroup holds back to the producer: the warpgroup has read it.
    #[track_caller]
    pub fn release(&mut self) {
        let empty = self.pipeline.empty.at(copy_of(self.held));
        only_where(self.releases, || {
            if self.pipeline.cluster.size() == 1 {
                empty.arrive();
            } else {
                empty.at_rank(self.to).arrive();
            }
        });
        self.let_go();
    }

    /// The same of a slot that the tensor core reads (`tcgen05`): it is released when all multiplies that this thread has issued are
    /// done. The thread that issues them holds the end, alone of its role.
    #[track_caller]
    pub fn release_when_multiplied(&mut self, group: CtaGroup) {
        let (cluster, empty) = (self.pipeline.cluster, self.pipeline.empty.at(copy_of(self.held)));
        if cluster.size() == 1 {
            commit_tensor_core(group, empty);
        } else {
            let bit = |loader: u32| constant(1u16) << cluster.loader(constant(loader));
            let ranks = (1..cluster.loaders()).fold(bit(0), |ranks, loader| ranks | bit(loader));
            commit_tensor_core_to(group, empty, ranks);
        }
        self.let_go();
    }

    #[track_caller]
    fn let_go(&mut self) {
        let next = self.held + 1u32;
        assign(&mut self.held, next.eq(self.pipeline.stages).select(0u32, next));
    }
}
