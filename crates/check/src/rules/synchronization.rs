//! Synchronization events.

use warpwright_events::{
    AccessKind, Actor, AsyncKind, Awaited, Completion, Fence, FenceOrder, LANES, MbarrierAddress,
    MemorySpace, Scope, Strength, lanes,
};

use crate::checker::Checker;
use crate::report::overlap;
use crate::state::agents::Role;
use crate::state::clock::Time;
use crate::state::knowledge::Knowledge;
use crate::state::locations::{Releases, SyncLocations};
use crate::state::mbarrier::{LateArrival, OBJECT};

impl Checker {
    /// What lanes publish by a release: all they know, and what they did.
    fn release(&mut self, actor: Actor) -> Knowledge {
        let (cta, warp) = self.warp(actor);
        warp.release(cta, actor.warp, actor.lanes)
    }

    /// What lanes publish by arriving: all they know if they release, and otherwise the state at
    /// their last fence (PTX ISA, "Release patterns"), and that their CTA has started.
    fn bring(&mut self, actor: Actor, releases: bool) -> Knowledge {
        if releases {
            return self.release(actor);
        }
        let cta = self.ctas[actor.rank as usize].linear;
        let mut brought = Knowledge::of_start(cta);
        for lane in lanes(actor.lanes) {
            let fenced = self.warp(actor).1.fenced(lane, cta, Scope::System);
            fenced.iter().for_each(|release| brought.join(&release.knowledge));
        }
        brought
    }

    fn learn(&mut self, actor: Actor, knowledge: &Knowledge) {
        self.warp(actor).1.learn(actor.lanes, knowledge);
    }

    pub(crate) fn warp_meets(&mut self, actor: Actor) {
        let (cta, warp) = self.warp(actor);
        let common = warp.release(cta, actor.warp, actor.lanes);
        warp.agree(actor.lanes, common);
    }

    pub(crate) fn barrier_arrive(&mut self, actor: Actor, barrier: u32, generation: u32, all: bool) {
        self.arrive_together(actor);
        let time = self.warp(actor).1.time;
        let brought = self.release(actor);
        self.check_before_arrival(barrier, generation, actor, &brought);
        let gatherings = &mut self.ctas[actor.rank as usize].barriers[barrier as usize];
        // The generation before has completed, whether or not a warp waited for it.
        let before = gatherings.arrivals(generation.wrapping_sub(1));
        let warps = before.iter().fold(0, |warps, arrival| warps | 1 << arrival.warp);
        if warps != 0 && barrier != 0 && self.completions.entry(barrier).or_default().add(warps) {
            self.launch.note_completion(barrier, warps);
        }
        match gatherings.bring(generation, all, &brought, (actor, time)) {
            Some(other) if other.warp == actor.warp => self.report_split_barrier(barrier, actor, other),
            Some(other) if barrier == 0 => self.check_mixed_barrier(actor, other),
            _ => {}
        }
    }

    pub(crate) fn barrier_leave(&mut self, actor: Actor, barrier: u32, generation: u32) {
        let cta = &mut self.ctas[actor.rank as usize];
        let (gathered, arrivals) = cta.barriers[barrier as usize].leave(generation, &cta.exited);
        if let Some(first) =
            arrivals.first().filter(|first| arrivals.iter().all(|other| other.pc == first.pc))
        {
            let warps = arrivals.iter().fold(0, |warps, arrival| warps | 1 << arrival.warp);
            let meetings = self.meetings.entry((first.pc, barrier)).or_default();
            if meetings.add(warps) {
                self.launch.note_meeting((first.pc, barrier), warps);
            }
        }
        cta.warps[actor.warp as usize].agree(actor.lanes, gathered);
    }

    pub(crate) fn cluster_arrive(&mut self, actor: Actor, releases: bool) {
        self.arrive_together(actor);
        let brought = self.bring(actor, releases);
        self.published.join(&brought.known);
        self.cluster_arrived.join(&brought);
        let done = if releases { brought.known } else { self.release(actor).known };
        self.cluster_met[0].join(&done);
    }

    pub(crate) fn cluster_completes(&mut self) {
        self.cluster_completed = std::mem::take(&mut self.cluster_arrived);
        self.cluster_met[1] = std::mem::take(&mut self.cluster_met[0]);
        // Threads that have exited do not arrive; it waited for their exits.
        self.ctas.iter().for_each(|cta| self.cluster_completed.join(&cta.exited));
        self.published.join(&self.cluster_completed.known);
    }

    pub(crate) fn cluster_leave(&mut self, actor: Actor) {
        // A phase completes only after all waiters of the previous one have proceeded and arrived
        // again.
        let gathered = self.cluster_completed.clone();
        self.learn(actor, &gathered);
        self.ctas[actor.rank as usize].outlived.join(&self.cluster_met[1]);
    }

    pub(crate) fn exit(&mut self, actor: Actor) {
        let last = self.release(actor);
        let cta = &mut self.ctas[actor.rank as usize];
        let warp = &mut cta.warps[actor.warp as usize];
        warp.alive &= !actor.lanes;
        warp.undefined.exit(actor.lanes);
        cta.exited.join(&last);
        cta.outlived.join(&last.known);
    }

    pub(crate) fn fence(&mut self, actor: Actor, fence: Fence) {
        let reaches_peers = match fence {
            Fence::Memory(scope, _) => scope >= Scope::Cluster,
            Fence::AsyncProxy => true,
            _ => false,
        };
        if reaches_peers {
            self.mbarriers_fenced(actor);
        }
        if reaches_peers && self.cluster.len() > 1 {
            let known = self.release(actor).known;
            self.published.join(&known);
        }
        match fence {
            Fence::Memory(scope, order) => {
                if order == FenceOrder::Sequential && scope >= Scope::Gpu {
                    let before = self.release(actor).known;
                    self.warp(actor).1.sequence(actor.lanes, before);
                }
                let (cta, warp) = self.warp(actor);
                warp.fence(cta, actor.warp, actor.lanes, scope);
            }
            Fence::AsyncProxy => {
                let seen = self.release(actor).known;
                let (_, warp) = self.warp(actor);
                warp.learn(actor.lanes, &Knowledge { proxied: seen, ..Knowledge::default() });
            }
            Fence::TensormapProxy => {
                let seen = self.release(actor).known;
                let (_, warp) = self.warp(actor);
                warp.learn(actor.lanes, &Knowledge { mapped: seen, ..Knowledge::default() });
            }
            Fence::TensorMemory => {
                let seen = self.release(actor).known;
                let (_, warp) = self.warp(actor);
                warp.learn(actor.lanes, &Knowledge { tensor: seen, ..Knowledge::default() });
            }
            Fence::PreviousLaunch => {
                self.ctas[actor.rank as usize].has_waited = true;
                self.learn(actor, &Knowledge { known: overlap::ended(), ..Knowledge::default() });
            }
            Fence::NextLaunch => {
                let cta = &mut self.ctas[actor.rank as usize];
                let mut knowledge = cta.warps[actor.warp as usize].parts(actor.lanes);
                if knowledge.any(|(_, knowledge)| !overlap::has_ended(&knowledge.known)) {
                    cta.lets_next_begin_early = true;
                }
            }
            Fence::Other => {}
        }
    }

    /// An operation of a lane on an mbarrier is an access of its eight bytes.
    pub(crate) fn access_object(
        &mut self,
        actor: Actor,
        address: MbarrierAddress,
        kind: AccessKind,
        strength: Strength,
    ) {
        self.check_mbarrier_array(actor, address);
        if strength == OBJECT {
            // A missing mbarrier is reported instead.
            if !self.mbarriers.contains_key(&address) {
                return;
            }
            self.report_overwritten_mbarrier(address);
            self.check_initialized(actor, address);
        }
        self.access(actor, MemorySpace::Shared, &[address.shared(); LANES], 8, kind, strength, None);
    }

    pub(crate) fn mbarrier_arrive(
        &mut self,
        actor: Actor,
        address: MbarrierAddress,
        release: Option<Scope>,
        together: u32,
    ) {
        self.access_object(actor, address, AccessKind::Atomic, OBJECT);
        self.mbarrier_notes_arrival(actor, address, together);
        self.warp(actor).1.note_arrival_at_mbarrier(actor.lanes, actor.pc);
        let brought = self.bring(actor, release.is_some());
        let mark = self.mark(actor);
        if release == Some(Scope::Cluster) {
            self.published.join(&brought.known);
        }
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.arrived.join(&brought);
            if address.rank != actor.rank && release != Some(Scope::Cluster) {
                state.narrow_arrival = Some(mark);
            }
        }
    }

    /// The `complete_tx` of an asynchronous store has release semantics at cluster scope (PTX ISA,
    /// "st.async"). An asynchronous operation acts as a thread that knows all that its issuer
    /// knows.
    pub(crate) fn mbarrier_hears(&mut self, actor: Actor, address: MbarrierAddress) {
        let brought = self.bring(actor, true);
        self.published.join(&brought.known);
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.arrived.join(&brought);
        }
    }

    pub(crate) fn mbarrier_arrive_after(&mut self, actor: Actor, address: MbarrierAddress, kind: AsyncKind) {
        if kind == AsyncKind::TensorCore {
            // Work of the tensor core follows all that its issuer knew.
            self.mbarrier_hears(actor, address);
        }
        let (cta, warp) = self.warp(actor);
        let time = warp.work(kind).hand_over(actor.lanes);
        let agent = Role::Group(actor.warp, kind, Awaited::Everything).agent();
        if kind == AsyncKind::Copy {
            let arrival = LateArrival { address, cta, warp: actor.warp, lanes: actor.lanes, agent, time };
            self.late_arrivals.push(arrival);
        } else if let Some(state) = self.mbarriers.get_mut(&address) {
            state.arrived.known.raise(cta, agent, actor.lanes, time);
        }
    }

    /// A delayed arrival is performed in the phase that is open now.
    pub(crate) fn mbarrier_copies_arrive(&mut self, warp: u32, lane: u32, address: MbarrierAddress) {
        let of_lane =
            |late: &LateArrival| late.address == address && late.warp == warp && late.lanes >> lane & 1 != 0;
        let Some(index) = self.late_arrivals.iter().position(of_lane) else { return };
        let LateArrival { cta, lanes, agent, time, .. } = self.late_arrivals.remove(index);
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.arrived.known.raise(cta, agent, lanes, time);
        }
    }

    pub(crate) fn mbarrier_test(
        &mut self,
        actor: Actor,
        address: MbarrierAddress,
        ended: bool,
        acquires: bool,
    ) {
        self.mbarrier_notes_test(actor, address, ended);
        if !ended {
            return;
        }
        self.access_object(actor, address, AccessKind::Read, OBJECT);
        let Some(state) = self.mbarriers.get(&address) else { return };
        let ended = state.ended.clone();
        if acquires {
            self.learn(actor, &ended);
        } else {
            let cta = self.ctas[actor.rank as usize].linear;
            let seen = Releases { cta, scope: Scope::System, knowledge: ended };
            self.warp(actor).1.learn_at_fence(actor.lanes, seen);
        }
    }

    pub(crate) fn publish(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        kind: AccessKind,
        strength: Strength,
    ) {
        let Strength::Strong { scope, release, .. } = strength else { return };
        if !kind.writes() || matches!(space, MemorySpace::Local | MemorySpace::Tensor) {
            return;
        }
        for lane in lanes(actor.lanes) {
            let actor = Actor { lanes: 1 << lane, ..actor };
            let cta = self.ctas[actor.rank as usize].linear;
            let mut releases = self.warp(actor).1.fenced(lane, cta, scope);
            releases.extend(self.warp(actor).1.sequenced(lane, cta, scope));
            if release {
                let knowledge = self.release(actor);
                if scope >= Scope::Cluster {
                    self.published.join(&knowledge.known);
                }
                releases.push(Releases { cta, scope, knowledge });
            }
            // A store ends the release sequence; an atomic continues it (PTX ISA, "Release and
            // acquire patterns").
            let replaces = kind == AccessKind::Write;
            if space == MemorySpace::Global && !self.launch.trusting.is_empty() {
                let Knowledge { mut observable, known, .. } = self.release(actor);
                observable.join(&known);
                self.launch.publish_observed(addresses[lane], replaces, observable);
            }
            if releases.is_empty() && !replaces {
                continue;
            }
            self.locations(space, |locations| locations.publish(space, addresses[lane], replaces, releases));
        }
    }

    pub(crate) fn acquire(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        kind: AccessKind,
        strength: Strength,
    ) {
        let Strength::Strong { scope, acquire, .. } = strength else { return };
        if space == MemorySpace::Local {
            return;
        }
        for lane in lanes(actor.lanes) {
            let actor = Actor { lanes: 1 << lane, ..actor };
            let cta = self.ctas[actor.rank as usize].linear;
            let seen = self.locations(space, |locations| locations.read(space, addresses[lane]));
            for release in seen {
                let within = release.scope.min(scope);
                let reaches = release.cta == cta
                    || within >= Scope::Gpu
                    || within == Scope::Cluster && self.cluster.contains(&release.cta);
                if !reaches {
                    continue;
                }
                // A thread that executes `fence.sc` and then takes a ticket after another thread's
                // needs no further fences: `__threadfence(); ticket = atomicInc(..)`, as in
                // NVIDIA's single-pass reduction.
                let sequenced = !self.warp(actor).1.knowledge(lane as u32).sequenced.is_empty();
                let takes_ticket =
                    kind == AccessKind::Atomic && sequenced && !release.knowledge.observed.is_empty();
                if acquire || takes_ticket {
                    self.learn(actor, &release.knowledge);
                    continue;
                }
                let Knowledge { known, observed, mut promised, .. } = release.knowledge.clone();
                if !self.launch.trusting.is_empty() {
                    promised.join(&known);
                    promised.join(&observed);
                }
                if !(observed.is_empty() && promised.is_empty()) {
                    self.learn(actor, &Knowledge { observed, promised, ..Knowledge::default() });
                }
                self.warp(actor).1.learn_at_fence(actor.lanes, release);
            }
            if space == MemorySpace::Global
                && !self.launch.trusting.is_empty()
                && let Some(observable) = self.launch.observed_at(addresses[lane])
            {
                self.learn(actor, &Knowledge { observable, ..Knowledge::default() });
            }
        }
    }

    fn locations<T>(&mut self, space: MemorySpace, act: impl FnOnce(&mut SyncLocations) -> T) -> T {
        match space {
            MemorySpace::Global => act(&mut self.launch.locations()),
            MemorySpace::Shared | MemorySpace::Local | MemorySpace::Tensor => act(&mut self.shared_locations),
        }
    }

    pub(crate) fn commit(&mut self, actor: Actor, kind: AsyncKind) {
        self.warp(actor).1.work(kind).commit(actor.lanes);
    }

    pub(crate) fn wait(&mut self, actor: Actor, kind: AsyncKind, latest: Option<u32>, awaited: Awaited) {
        let warp = self.warp(actor).1;
        let now = warp.time;
        warp.work(kind).wait(actor.lanes, (actor.pc, now), latest, awaited);
        match kind {
            AsyncKind::Multiply => self.registers_awaited(actor),
            AsyncKind::TensorLoad => self.registers_arrived(actor),
            _ => {}
        }
    }

    /// The agent of a part of work, its CTA, and its time.
    pub(crate) fn worker(
        &mut self,
        actor: Actor,
        completion: Completion,
        access: AccessKind,
    ) -> Option<(u32, Role, Time)> {
        match completion {
            Completion::Group(kind) => {
                let (cta, warp) = self.warp(actor);
                let awaited = if kind == AsyncKind::Bulk && access == AccessKind::Read {
                    Awaited::Sources
                } else {
                    Awaited::Everything
                };
                Some((
                    cta,
                    Role::of_work(actor.warp, kind, awaited),
                    warp.work(kind).issue(actor.lanes, actor.pc),
                ))
            }
            Completion::Mbarrier(address) => {
                let state = self.mbarriers.get(&address)?;
                Some((self.ctas[address.rank as usize].linear, state.role, state.phase))
            }
        }
    }
}
