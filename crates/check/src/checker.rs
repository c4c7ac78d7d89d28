//! What the warps of a cluster know. Synchronization events are handled here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;
use warpwright_events::{
    Actor, BARRIERS, ByteRange, ClusterObserver, Event, FULL, MbarrierAddress, TileOperand,
};

use crate::launch::LaunchState;
use crate::report::conflict::{Conflict, Passed};
use crate::state::barrier::{BarrierHistory, Meetings};
use crate::state::clock::Clock;
use crate::state::knowledge::Knowledge;
use crate::state::locations::SyncLocations;
use crate::state::mbarrier::{LateArrival, MbarrierState};
use crate::state::memory::SharedShadow;
use crate::state::shadow::Part;
use crate::state::tensor_memory::TensorShadow;
use crate::state::undefined_shared::UndefinedShared;
use crate::state::unwritten::Unwritten;
use crate::state::warp::WarpState;

/// One CTA of the cluster.
#[derive(Debug)]
pub(crate) struct CtaState {
    /// Its linear index in the grid.
    pub(crate) linear: u32,
    pub(crate) warps: Vec<WarpState>,
    pub(crate) barriers: Vec<BarrierHistory>,
    /// What the exited threads knew.
    pub(crate) exited: Knowledge,
    /// All events that happened while any of its threads was resident, ordered or not: everything
    /// before a cluster barrier.
    pub(crate) outlived: Clock,
    pub(crate) mbarriers: u32,
    /// Whether a thread has waited for the predecessor.
    pub(crate) has_waited: bool,
    /// Whether a thread has let the next launch begin without knowing that the predecessor has ended.
    pub(crate) lets_next_begin_early: bool,
}

/// The checkers of a cluster.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) launch: Arc<LaunchState>,
    pub(crate) ctas: Vec<CtaState>,
    /// What arrives at the cluster barrier in the open phase, and in the last completed one.
    pub(crate) cluster_arrived: Knowledge,
    pub(crate) cluster_completed: Knowledge,
    /// The same of all that threads did before they arrived, `.relaxed` or not.
    pub(crate) cluster_met: [Clock; 2],
    /// What a thread has known when it released, or executed a fence, for threads of other CTAs.
    pub(crate) published: Clock,
    pub(crate) mbarriers: HashMap<MbarrierAddress, MbarrierState>,
    /// The offsets between which they are, in any CTA.
    pub(crate) mbarrier_span: (u64, u64),
    /// By CTA rank and warp: the last wait at an mbarrier that has returned.
    pub(crate) passed: HashMap<(u32, u32), Passed>,
    /// Strong accesses to shared memory.
    pub(crate) shared_locations: SyncLocations,
    /// The linear indices of the CTAs.
    pub(crate) cluster: Vec<u32>,
    /// The shared memory of each CTA.
    pub(crate) shadows: Vec<SharedShadow>,
    /// The tensor memory of each CTA.
    pub(crate) tensor: Vec<TensorShadow>,
    /// Instructions that accessed memory.
    pub(crate) serial: u32,
    /// The last lane that has issued a `cp.async` or a bulk store, the number of its access, and the bytes.
    pub(crate) last_copy: (Actor, u32, SmallVec<[ByteRange; 2]>),
    /// The parts of an access. Kept for its allocation.
    pub(crate) parts: Vec<Part>,
    /// Accesses that conflict with the most recent one.
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) unwritten: Unwritten,
    pub(crate) undefined_shared: UndefinedShared,
    /// Vector loads with unwritten elements, by instruction. A load is an error where such an element is used.
    pub(crate) partial_loads: HashMap<u32, Conflict>,
    /// Whether a register of a warp may be undefined.
    pub(crate) is_following: bool,
    /// Instructions that have read a tile of which all is written.
    pub(crate) whole_tiles: BTreeSet<(u32, TileOperand)>,
    /// Arrivals that wait for copies.
    pub(crate) late_arrivals: Vec<LateArrival>,
    /// Instructions that issue copies completing at a peer's mbarrier. A thread that waits there
    /// observes the copy, not the issuing thread.
    pub(crate) remote_copies: BTreeSet<u32>,
    /// By instruction and barrier: the warps that meet there.
    pub(crate) meetings: BTreeMap<(u32, u32), Meetings>,
    /// By named barrier: the warps that meet there, at whatever instructions.
    pub(crate) completions: BTreeMap<u32, Meetings>,
    /// Whether part of a warp has arrived at an aligned barrier or at an exchange without the rest.
    pub(crate) has_bypasses: bool,
}

impl Checker {
    /// The checkers of CTAs at their start, by rank.
    pub(crate) fn new(launch: Arc<LaunchState>, ctas: &[u32]) -> Self {
        let system_shared = launch.info.system_shared.into();
        let states = ctas.iter().map(|&linear| CtaState {
            linear,
            warps: launch.populations.iter().map(|&lanes| WarpState::new(lanes, &launch.unset)).collect(),
            barriers: vec![BarrierHistory::default(); BARRIERS],
            exited: Knowledge::default(),
            outlived: Clock::default(),
            mbarriers: 0,
            has_waited: false,
            lets_next_begin_early: false,
        });
        let mut states: Vec<CtaState> = states.collect();
        if ctas.len() > 1 {
            for cta in &mut states {
                let started = Knowledge::of_start(cta.linear);
                cta.warps.iter_mut().for_each(|warp| warp.learn(FULL, &started));
            }
        }
        Self {
            ctas: states,
            cluster_arrived: Knowledge::default(),
            cluster_completed: Knowledge::default(),
            cluster_met: Default::default(),
            published: Clock::default(),
            mbarriers: HashMap::new(),
            mbarrier_span: (u64::MAX, 0),
            passed: HashMap::new(),
            shared_locations: SyncLocations::default(),
            cluster: ctas.to_vec(),
            shadows: ctas.iter().map(|_| SharedShadow::of_system_from(system_shared)).collect(),
            tensor: ctas.iter().map(|_| TensorShadow::default()).collect(),
            serial: 0,
            last_copy: Default::default(),
            parts: Vec::new(),
            conflicts: Vec::new(),
            unwritten: Unwritten::default(),
            undefined_shared: UndefinedShared::default(),
            partial_loads: HashMap::new(),
            is_following: !launch.unset.is_empty(),
            whole_tiles: BTreeSet::new(),
            late_arrivals: Vec::new(),
            remote_copies: BTreeSet::new(),
            meetings: BTreeMap::new(),
            completions: BTreeMap::new(),
            has_bypasses: false,
            launch,
        }
    }

    pub(crate) fn warp_of(&self, actor: Actor) -> &WarpState {
        &self.ctas[actor.rank as usize].warps[actor.warp as usize]
    }

    pub(crate) fn warp(&mut self, actor: Actor) -> (u32, &mut WarpState) {
        let cta = &mut self.ctas[actor.rank as usize];
        (cta.linear, &mut cta.warps[actor.warp as usize])
    }
}

impl ClusterObserver for Checker {
    fn event(&mut self, event: &Event<'_>) {
        if self.has_bypasses {
            self.note_bypass(event);
        }
        match *event {
            Event::Access { actor, space, addresses, bytes, kind, strength, values } => {
                self.check_array(actor, space, addresses, bytes, kind);
                self.note_access(actor, space, addresses, bytes, kind);
                self.access(actor, space, addresses, bytes, kind, strength, values);
            }
            Event::LocalLoad { actor, unwritten, addresses, bytes } => {
                self.local_load(actor, unwritten, addresses, bytes);
            }
            Event::Release { actor, space, addresses, kind, strength } => {
                self.publish(actor, space, addresses, kind, strength);
            }
            Event::Acquire { actor, space, addresses, kind, strength } => {
                self.acquire(actor, space, addresses, kind, strength);
            }
            Event::Fence { actor, fence } => self.fence(actor, fence),
            Event::WarpSync { actor } => self.warp_meets(actor),
            Event::ExchangeWait { actor, members, otherwise, other } => {
                if otherwise != 0 {
                    self.report_two_masks(actor, members, otherwise, other);
                }
                self.exchange_waits(actor, members);
            }
            Event::Exchange { arrivals, synchronizes: true } => self.lanes_meet(arrivals),
            Event::Exchange { arrivals, synchronizes: false } => self.report_mixed_exchange(arrivals),
            Event::BarrierArrive { actor, barrier, generation, all } => {
                self.barrier_arrive(actor, barrier, generation, all);
            }
            Event::BarrierRearrive { actor, barrier } => self.report_second_arrival(barrier, actor),
            Event::BarrierLeave { actor, barrier, generation } => {
                self.barrier_leave(actor, barrier, generation);
            }
            Event::ClusterArrive { actor, releases } => self.cluster_arrive(actor, releases),
            Event::ClusterComplete => self.cluster_completes(),
            Event::ClusterLeave { actor } => self.cluster_leave(actor),
            Event::Incomplete { actor } => self.report_incomplete(actor),
            Event::Exit { actor } => self.exit(actor),
            Event::MbarrierInit { actor, mbarrier, count } => {
                self.mbarrier_initialize(actor, mbarrier, count)
            }
            Event::MbarrierInvalidate { actor, mbarrier } => self.mbarrier_invalidate(actor, mbarrier),
            Event::MbarrierArrive { actor, mbarrier, release, together } => {
                self.mbarrier_arrive(actor, mbarrier, release, together);
            }
            Event::MbarrierRelease { actor, mbarrier } => self.mbarrier_hears(actor, mbarrier),
            Event::MbarrierTrack { actor, mbarrier, kind } => {
                self.mbarrier_arrive_after(actor, mbarrier, kind)
            }
            Event::MbarrierTrackedArrive { warp, lane, mbarrier } => {
                self.mbarrier_copies_arrive(warp, lane, mbarrier);
            }
            Event::MbarrierExpect { actor, mbarrier, bytes } => {
                self.mbarrier_counts_bytes(Some(actor), mbarrier, bytes.into());
            }
            Event::MbarrierBytes { mbarrier, bytes } => {
                self.mbarrier_counts_bytes(None, mbarrier, -i64::from(bytes));
            }
            Event::MbarrierCopyComplete { mbarrier } => self.mbarrier_copy_completes(mbarrier),
            Event::MbarrierPhaseEnd { mbarrier } => self.mbarrier_phase_ends(mbarrier),
            Event::MbarrierTest { actor, mbarrier, ended, acquires } => {
                self.mbarrier_test(actor, mbarrier, ended, acquires);
            }
            Event::AsyncIssue { actor, proxy, completion, ranges } => {
                self.check_copied_arrays(actor, ranges);
                self.define_copied(ranges);
                self.issue(actor, proxy, completion, ranges);
            }
            Event::AsyncCommit { actor, kind } => self.commit(actor, kind),
            Event::AsyncWait { actor, kind, latest, awaited } => self.wait(actor, kind, latest, awaited),
            Event::RegisterFence { actor } => self.registers_fenced(actor),
            Event::RegistersSettled { actor } => self.registers_settled(actor),
            Event::Wgmma { actor, accumulators, fragments, reads, shape } => {
                self.check_registers_written(actor, accumulators, reads);
                self.registers_multiplied(actor, accumulators, fragments, shape);
            }
            Event::RegistersUsed { actor, base, uses } => self.registers_used(actor, base, uses),
            Event::TensorAllocate { actor, first, columns } => self.tensor_allocated(actor, first, columns),
            Event::TensorFree { actor, first, columns } => self.tensor_freed(actor, first, columns),
            Event::TensorLoad { actor, columns } => self.registers_loaded(actor, columns),
            Event::End => self.finish(),
            Event::Shuffle { actor, from, undefined } => self.shuffled(actor, from, undefined),
            Event::Executed { actor, end } => self.executed(actor, end),
            Event::PredicatedOff { actor } => self.warp(actor).1.undefined.guarded_off(actor),
            Event::Predicates { actor, values } => self.warp(actor).1.undefined.deciding(actor, values),
            Event::FrameCopy { actor, from, to, bytes } => {
                self.warp(actor).1.undefined.local.pass(actor.lanes, from, to, bytes);
            }
            Event::Diverged { .. }
            | Event::LaneCopies { .. }
            | Event::TensorMultiply { .. }
            | Event::TurnEnd { .. } => {}
        }
        if matches!(event, Event::Shuffle { .. } | Event::Executed { .. } | Event::Exit { .. }) {
            let mut warps = self.ctas.iter().flat_map(|cta| &cta.warps);
            self.is_following = warps.any(|warp| !warp.undefined.is_empty());
        }
    }

    fn follows(&self) -> bool {
        self.is_following
    }
}
