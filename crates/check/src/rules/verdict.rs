//! Whether two accesses to the same bytes are in order.

use std::collections::{HashMap, HashSet};

use warpwright_events::{AccessKind, Actor, AsyncKind, Awaited, Proxy, Scope, Strength, lanes};

use crate::report::finding::FindingKind;
use crate::rules::loads::Rivals;
use crate::state::agents::Role;
use crate::state::clock::{Agent, Clock};
use crate::state::knowledge::Knowledge;
use crate::state::mbarrier::OBJECT;
use crate::state::shadow::{Access, Verdict};
use crate::state::warp::WarpState;

/// The accessor, and its knowledge.
pub(super) struct Accessor<'a> {
    pub(super) actor: Actor,
    pub(super) cta: u32,
    pub(super) warp: &'a WarpState,
    pub(super) knowledge: &'a Knowledge,
    /// The linear indices of the cluster's CTAs.
    pub(super) cluster: &'a [u32],
    pub(super) published: &'a Clock,
    pub(super) fences_tensor_memory: bool,
    /// Loads that rely on an order.
    pub(super) trusting: &'a HashSet<u32>,
    /// Strong loads that race with strong stores.
    pub(super) racing: &'a HashMap<u32, Rivals>,
    /// Whether it loads through the read-only path.
    pub(super) is_non_coherent: bool,
}

impl Accessor<'_> {
    /// The lanes of an earlier access whose completion the accessor knows only by synchronization.
    fn required(&self, earlier: &Access, access: &Access) -> u32 {
        let role = Role::of(earlier.agent);
        let own = earlier.cta == self.cta;
        let lanes_of_it = earlier.lanes_of(access.bytes);
        match role {
            Role::Warp(warp) if own && warp == self.actor.warp => earlier.other_lanes(access),
            Role::Group(_, kind, awaited) if own && role == Role::of_work(self.actor.warp, kind, awaited) => {
                // Program order covers a whole warp's operation. A copy that overwrites the
                // operands of an MMA needs a barrier in addition: its issuer must know that the
                // other warps have observed the last phase of the mbarrier.
                let together = kind.is_of_warp() && (kind != AsyncKind::Multiply || access.proxy.is_none());
                let other_lanes = if together { 0 } else { earlier.other_lanes(access) };
                let busy = lanes(lanes_of_it)
                    .filter(|&lane| self.warp.done(lane, kind, awaited) < earlier.time)
                    .fold(0, |mask, lane| mask | 1 << lane);
                other_lanes | busy
            }
            _ => lanes_of_it,
        }
    }

    /// Whether an earlier access is known to be complete.
    pub(super) fn knows(&self, earlier: &Access, access: &Access) -> bool {
        let required = self.required(earlier, access);
        self.knowledge.known.covers(earlier.cta, earlier.agent, required, earlier.time)
    }

    /// The issuer of an earlier tensor-core access, if this access is by the same tensor core. The
    /// tensor core executes in order, so the accessor needs to know only of the issue.
    fn issuer_to_same_core(earlier: &Access, access: &Access) -> Option<Agent> {
        let Role::Group(warp, AsyncKind::TensorCore, _) = Role::of(earlier.agent) else { return None };
        let is_same = matches!(Role::of(access.agent), Role::Group(_, AsyncKind::TensorCore, _))
            && earlier.cta == access.cta;
        is_same.then(|| Role::Issuer(warp).agent())
    }

    /// Whether lanes of one bulk store write the same bytes: one of them wins. CUTLASS lets all
    /// lanes of a warp store the same tile.
    fn is_same_store(earlier: &Access, access: &Access) -> bool {
        let of = |access: &Access| (access.cta, access.agent, access.time, access.pc, access.kind);
        matches!(Role::of(access.agent), Role::Group(_, AsyncKind::Bulk, Awaited::Everything))
            && access.kind == AccessKind::Write
            && of(earlier) == of(access)
            && earlier.lanes & access.lanes == 0
    }

    /// Whether two strong accesses, of the accessor and of a CTA, are ordered for each other's
    /// threads.
    fn reaches(&self, cta: u32, scope: Scope) -> bool {
        cta == self.cta || scope >= Scope::Gpu || scope == Scope::Cluster && self.cluster.contains(&cta)
    }

    /// Whether one of two unordered strong accesses is a load that uses its value whether or not the
    /// other, a plain store of the CTA, has been executed.
    fn takes_any_value(&self, earlier: &Access, access: &Access) -> bool {
        let load = match (earlier.kind, access.kind) {
            (AccessKind::Write, AccessKind::Read) => access.pc,
            (AccessKind::Read, AccessKind::Write) => earlier.pc,
            _ => return false,
        };
        let are_threads = [earlier, access].iter().all(|one| matches!(Role::of(one.agent), Role::Warp(_)));
        let same_warp = earlier.agent == access.agent;
        earlier.cta == access.cta
            && are_threads
            && self.racing.get(&load).is_some_and(|rivals| *rivals == Rivals::Cta || same_warp)
    }

    /// Whether no release at the scope of the cluster is between a write of another CTA's thread and
    /// this access: an arrival at an mbarrier with the scope of the CTA is all that orders the two. That
    /// is enough for reads, after which such a barrier releases a buffer.
    fn misses_publication(&self, earlier: &Access, access: &Access) -> bool {
        let is_of_thread = |access: &Access| {
            access.proxy.is_none()
                && access.kind != AccessKind::Object
                && access.strength != OBJECT
                && matches!(Role::of(access.agent), Role::Warp(_))
        };
        let are_strong = [earlier, access].iter().all(|access| access.strength != Strength::Weak);
        earlier.cta != self.cta
            && earlier.kind.writes()
            && self.cluster.contains(&earlier.cta)
            && is_of_thread(earlier)
            && is_of_thread(access)
            && !are_strong
            && !self.published.covers(
                earlier.cta,
                earlier.agent,
                earlier.lanes_of(access.bytes),
                earlier.time,
            )
    }

    /// Compares an earlier access with this one, and returns the kind of conflict. `seen` are the
    /// bytes of the granule that threads have read since the last write.
    pub(super) fn judge(&self, earlier: &Access, access: &Access, seen: u16) -> (Verdict, FindingKind) {
        let conflicts = earlier.kind.writes() || access.kind.writes();
        let mut required = self.required(earlier, access);
        let mut agent = earlier.agent;
        let mut unknown = self.knowledge.known.uncovered(earlier.cta, agent, required, earlier.time);
        if let Some(issuer) = Self::issuer_to_same_core(earlier, access) {
            // One thread's MMAs need neither a wait nor a fence between them.
            let is_own = issuer == Role::Issuer(self.actor.warp).agent() && earlier.lanes == access.lanes;
            if is_own {
                (agent, required, unknown) = (issuer, 0, 0);
            } else if unknown != 0 {
                agent = issuer;
                unknown = self.knowledge.known.uncovered(earlier.cta, issuer, earlier.lanes, earlier.time);
            }
        }
        if unknown == 0 {
            if earlier.kind.writes() && self.is_non_coherent {
                return (Verdict::Wrong, FindingKind::NonCoherent);
            }
            let in_tensor_memory = [earlier.proxy, access.proxy] == [Some(Proxy::TensorMemory); 2];
            if conflicts
                && in_tensor_memory
                && self.fences_tensor_memory
                && !self.knowledge.tensor.covers(earlier.cta, agent, required, earlier.time)
            {
                return (Verdict::Wrong, FindingKind::TensorFence);
            }
            if self.misses_publication(earlier, access) {
                return (Verdict::Wrong, FindingKind::Race);
            }
            // Writes through the generic proxy need a fence before another proxy uses them.
            let fences = match access.proxy {
                Some(Proxy::Async) => Some(&self.knowledge.proxied),
                Some(Proxy::Tensormap) => Some(&self.knowledge.mapped),
                Some(Proxy::Generic | Proxy::TensorMemory) | None => None,
            };
            // Bytes that a thread has read are visible, and a copy may overwrite them. A dead
            // mbarrier is not data: Triton reuses its memory for tiles.
            let is_over = earlier.kind == AccessKind::Object || earlier.bytes & access.bytes & !seen == 0;
            let overwritten = access.kind == AccessKind::Write && is_over;
            let crosses = earlier.proxy.is_none() && earlier.kind.writes() && !overwritten;
            let lanes = earlier.lanes_of(access.bytes);
            let missed = crosses
                && fences
                    .is_some_and(|fences| !fences.covers(earlier.cta, earlier.agent, lanes, earlier.time));
            let verdict = if missed { Verdict::Wrong } else { Verdict::Before };
            return (verdict, FindingKind::ProxyFence);
        }
        let same_instruction = earlier.cta == access.cta && earlier.serial == access.serial;
        if !conflicts || same_instruction || Self::is_same_store(earlier, access) {
            return (Verdict::Tolerated, FindingKind::Race);
        }
        if let (Strength::Strong { scope: first, .. }, Strength::Strong { scope: second, .. }) =
            (earlier.strength, access.strength)
            && self.reaches(earlier.cta, first.min(second))
        {
            let covers = |clock: &Clock| clock.covers(earlier.cta, earlier.agent, unknown, earlier.time);
            let relies = access.kind == AccessKind::Read
                && self.trusting.contains(&access.pc)
                && covers(&self.knowledge.observable)
                && !covers(&self.knowledge.promised);
            if relies || self.takes_any_value(earlier, access) {
                return (Verdict::Wrong, FindingKind::Race);
            }
            return (Verdict::Tolerated, FindingKind::Race);
        }
        let kind = if earlier.proxy.is_some() { FindingKind::InFlight } else { FindingKind::Race };
        (Verdict::Wrong, kind)
    }
}
