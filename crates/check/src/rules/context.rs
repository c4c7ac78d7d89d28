//! What the threads of a conflict knew and did: the waits and releases that its report names.

use warpwright_events::{Actor, MemorySpace};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party, Release};
use crate::report::finding::FindingKind;
use crate::state::agents::Role;
use crate::state::clock::Time;
use crate::state::work::Progress;

impl Checker {
    /// Adds to each conflict what the threads knew at the time of its earlier access.
    pub(super) fn complete_conflicts(&mut self, actor: Actor, times: &[Time]) {
        for (index, &time) in times.iter().enumerate() {
            let phases = self.phases_of(actor, &self.conflicts[index], time);
            self.conflicts[index].phases = phases;
            self.conflicts[index].release = self.release_of(actor, &self.conflicts[index], time);
            self.conflicts[index].progress = self.progress_of(actor, &self.conflicts[index].earlier, time);
        }
    }

    /// For asynchronous work of a group: what its issuer has done towards its completion.
    fn progress_of(&self, actor: Actor, earlier: &Party, time: Time) -> Option<Progress> {
        let Role::Group(warp, kind, awaited) = earlier.role else { return None };
        let cta = self.ctas.iter().find(|cta| cta.linear == earlier.cta)?;
        // Each warp waits for the MMAs of its warpgroup.
        let is_own = self.ctas[actor.rank as usize].linear == earlier.cta
            && earlier.role == Role::of_work(actor.warp, kind, awaited);
        let issuer = if is_own { actor.warp } else { warp };
        let agent = Role::Warp(issuer).agent();
        let known = &self.warp_of(actor).knowledge(actor.lanes.trailing_zeros()).known;
        // Lanes that execute this access together have executed the same waits before it.
        let is_same = is_own && (kind.is_of_warp() || actor.lanes & earlier.lanes == earlier.lanes);
        let knows = |time| is_same || known.covers(earlier.cta, agent, earlier.lanes, time);
        Some(cta.warps[issuer as usize].progress(earlier.lanes, (kind, awaited), time, knows))
    }

    /// For a copy that overwrites what a thread has read at a time: the last arrival at an mbarrier of
    /// the reader's warp that the issuer knows of. For an access to what another CTA's thread has
    /// written: the arrival that orders the two, if its scope is too narrow.
    fn release_of(&self, issuer: Actor, conflict: &Conflict, time: Time) -> Option<Release> {
        let (earlier, agent) = (&conflict.earlier, conflict.earlier.role.agent());
        let Role::Warp(reader) = earlier.role else { return None };
        let known = &self.warp_of(issuer).knowledge(issuer.lanes.trailing_zeros()).known;
        if conflict.kind == FindingKind::Race && known.covers(earlier.cta, agent, earlier.lanes, time) {
            let own = self.mbarriers.iter().filter(|(address, _)| address.rank == issuer.rank);
            let arrivals = own.filter_map(|(_, state)| state.narrow_arrival);
            let arrival =
                arrivals.filter(|arrival| arrival.cta == earlier.cta).map(|arrival| arrival.pc).min()?;
            return Some(Release::Narrow(arrival));
        }
        if conflict.kind == FindingKind::Race
            && conflict.space == MemorySpace::Shared
            && let Some(passed) = self.passed.get(&(issuer.rank, issuer.warp))
            && passed.phase.is_none()
            && let Some(state) = self.mbarriers.get(&passed.mbarrier)
            && state
                .arrival
                .is_some_and(|arrival| arrival.cta == earlier.cta && earlier.cta != conflict.later.cta)
        {
            return Some(Release::NotAwaited(passed.pc));
        }
        let is_own = (self.ctas[issuer.rank as usize].linear, issuer.warp) == (earlier.cta, reader);
        let overwrites = conflict.later.kind.writes() && !conflict.earlier.kind.writes();
        if is_own || !overwrites {
            return None;
        }
        let cta = self.ctas.iter().find(|cta| cta.linear == earlier.cta)?;
        let covers = |lanes, time| known.covers(earlier.cta, agent, lanes, time);
        let mut arrivals = cta.warps.get(reader as usize)?.arrivals.iter().rev();
        let arrival = arrivals.find(|arrival| covers(arrival.lanes, arrival.time))?;
        let is_latest = !covers(arrival.lanes, arrival.time + 1);
        match arrival.time >= time {
            true if arrival.lanes & earlier.lanes == 0 => Some(Release::OfOtherLanes(arrival.pc)),
            false if is_latest && conflict.overwrites_a_read() => Some(Release::Early(arrival.pc)),
            _ => None,
        }
    }
}
