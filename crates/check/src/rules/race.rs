//! The race check: whether an access follows those it conflicts with.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;
use warpwright_events::{
    AccessKind, Actor, AsyncKind, Awaited, ByteRange, Completion, LANES, MemorySpace, Proxy, Scope, Strength,
    Value, lanes, split_shared,
};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party, Release};
use crate::report::finding::FindingKind;
use crate::report::overlap::{self, Overlap};
use crate::rules::alignment::opcode;
use crate::rules::loads::Rivals;
use crate::state::agents::Role;
use crate::state::clock::{Agent, Clock, Time};
use crate::state::knowledge::Knowledge;
use crate::state::mark::Mark;
use crate::state::mbarrier::OBJECT;
use crate::state::shadow::{Access, Granule, Part, Verdict, cut, cut_range};
use crate::state::warp::WarpState;
use crate::state::work::Progress;

/// The accessor, and its knowledge.
struct Accessor<'a> {
    actor: Actor,
    cta: u32,
    warp: &'a WarpState,
    knowledge: &'a Knowledge,
    /// The linear indices of the cluster's CTAs.
    cluster: &'a [u32],
    published: &'a Clock,
    fences_tensor_memory: bool,
    /// Loads that rely on an order.
    trusting: &'a HashSet<u32>,
    /// Strong loads that race with strong stores.
    racing: &'a HashMap<u32, Rivals>,
    /// Whether it loads through the read-only path.
    is_non_coherent: bool,
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
    fn knows(&self, earlier: &Access, access: &Access) -> bool {
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
    fn judge(&self, earlier: &Access, access: &Access, seen: u16) -> (Verdict, FindingKind) {
        let conflicts = earlier.kind.writes() || access.kind.writes();
        let mut required = self.required(earlier, access);
        let mut agent = earlier.agent;
        let mut unknown = self.knowledge.known.uncovered(earlier.cta, agent, required, earlier.time);
        if unknown != 0
            && let Some(issuer) = Self::issuer_to_same_core(earlier, access)
        {
            agent = issuer;
            let is_own = issuer == Role::Issuer(self.actor.warp).agent() && earlier.lanes == access.lanes;
            if is_own {
                (required, unknown) = (0, 0);
            } else {
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

/// Bytes that both accesses of a granule cover, as an address and a length: the first run of them.
fn first_common(granule: u64, common: u16) -> (u64, u64) {
    let first = common.trailing_zeros();
    let length = (!(u32::from(common) >> first)).trailing_zeros();
    (granule + u64::from(first), u64::from(length))
}

impl Checker {
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a fact of one access, passed on as the observer received it"
    )]
    pub(crate) fn access(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        kind: AccessKind,
        strength: Strength,
        values: Option<&[Value; LANES]>,
    ) {
        if space == MemorySpace::Local {
            return;
        }
        self.serial += 1;
        let mut parts = std::mem::take(&mut self.parts);
        let groups: Vec<u32> = self.ctas[actor.rank as usize].warps[actor.warp as usize]
            .parts(actor.lanes)
            .map(|(m, _)| m)
            .collect();
        let recorded = if kind == AccessKind::ReadTile { AccessKind::Read } else { kind };
        let access = Access { strength, ..self.own_access(actor, recorded) };
        self.unwritten.begin(kind == AccessKind::ReadTile);
        for lanes in groups {
            parts.clear();
            cut(addresses, lanes, size, |part| parts.push(part));
            self.record(Actor { lanes, ..actor }, space, &parts, access, None, values);
        }
        self.parts = parts;
        if let (AccessKind::Write, Strength::Weak, Some(values)) = (kind, strength, values) {
            self.check_lanes_agree(actor, space, addresses, size, values);
        }
        if kind == AccessKind::Atomic {
            self.launch.guesses.confirm(self.cluster[actor.rank as usize], actor, addresses, size);
        }
        self.report_unwritten(actor, space, access);
    }

    /// Reports lanes of one store that write different values to the same bytes: which of them remains is
    /// undefined (CUDA C++ Programming Guide, "SIMT Architecture"). Other compilers let any lane win on purpose.
    fn check_lanes_agree(
        &self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        values: &[Value; LANES],
    ) {
        let writing: SmallVec<[usize; LANES]> = lanes(actor.lanes).collect();
        if !self.launch.is_recorded || writing.is_sorted_by(|&a, &b| addresses[a] < addresses[b]) {
            return;
        }
        let differ = |a: usize, b: usize| {
            addresses[a] == addresses[b] && values[a][..size as usize] != values[b][..size as usize]
        };
        let differing = writing.iter().enumerate().find_map(|(index, &lane)| {
            let mut before = writing[..index].iter().copied();
            before.find(|&other| differ(lane, other)).map(|other| [lane, other])
        });
        let Some(differing) = differing else { return };
        let cta = self.ctas[actor.rank as usize].linear;
        let [later, earlier] = differing.map(|lane| {
            let access =
                Access { lanes: 1 << lane, bytes: u16::MAX, ..self.own_access(actor, AccessKind::Write) };
            Party::of(&access, u16::MAX, actor.warp, cta, None)
        });
        self.launch.report(Conflict {
            kind: FindingKind::Race,
            space,
            address: addresses[differing[0]],
            length: size,
            later,
            earlier,
            progress: None,
            phases: None,
            release: None,
            tile: None,
        });
    }

    /// An access by the warp itself, as part of the instruction that is being checked.
    fn own_access(&self, actor: Actor, kind: AccessKind) -> Access {
        let cta = &self.ctas[actor.rank as usize];
        let time = cta.warps[actor.warp as usize].time;
        let who = (cta.linear, Role::Warp(actor.warp).agent(), time);
        Access::of_instruction(who, actor.pc, self.serial, kind)
    }

    pub(crate) fn issue(&mut self, actor: Actor, proxy: Proxy, completion: Completion, ranges: &[ByteRange]) {
        if let Completion::Mbarrier(address) = completion {
            self.access_object(actor, address, AccessKind::Atomic, OBJECT);
            if address.rank != actor.rank {
                self.remote_copies.insert(actor.pc);
            }
            if proxy != Proxy::Tensormap {
                self.mbarrier_expects_copy(actor, address);
            }
        }
        self.check_tiles(actor, completion, proxy, ranges);
        let is_copy = completion == Completion::Group(AsyncKind::Copy);
        if !is_copy || !self.repeats_copy(actor, ranges) {
            self.serial += 1;
        }
        if is_copy {
            self.last_copy = (actor, self.serial, ranges.into());
        }
        let mut parts = std::mem::take(&mut self.parts);
        for alike in ranges.chunk_by(|a, b| (a.space, a.kind) == (b.space, b.kind)) {
            let range = alike[0];
            let Some((cta, role, time)) = self.worker(actor, completion, range.kind) else { break };
            let access = Access {
                strength: match range.kind {
                    AccessKind::Atomic => {
                        Strength::Strong { scope: Scope::Gpu, acquire: false, release: false }
                    }
                    _ => Strength::Weak,
                },
                proxy: Some(proxy),
                ..Access::of_instruction((cta, role.agent(), time), actor.pc, self.serial, range.kind)
            };
            parts.clear();
            for range in alike {
                cut_range(range.first, range.bytes, actor.lanes, |part| parts.push(part));
            }
            self.unwritten.begin(true);
            self.record(actor, range.space, &parts, access, Some(completion), None);
            let is_of_copy = matches!(
                completion,
                Completion::Group(AsyncKind::Copy | AsyncKind::Bulk) | Completion::Mbarrier(_)
            );
            if is_of_copy {
                self.report_unwritten_copy(actor, alike, access, completion);
            }
        }
        self.parts = parts;
    }

    /// Whether a lane copies the same bytes to the same place as the lane before it of the same
    /// instruction. CuTe DSL loads a scale so.
    fn repeats_copy(&self, actor: Actor, ranges: &[ByteRange]) -> bool {
        let (lane, serial, copied) = &self.last_copy;
        (lane.rank, lane.warp, lane.pc) == (actor.rank, actor.warp, actor.pc)
            && lane.lanes < actor.lanes
            && *serial == self.serial
            && copied.as_slice() == ranges
    }

    /// Reports a copy that moves only unwritten bytes, or a reduction that only updates such. Copies may
    /// move unwritten bytes beside written ones: the end of a partial tile.
    fn report_unwritten_copy(
        &mut self,
        actor: Actor,
        ranges: &[ByteRange],
        access: Access,
        completion: Completion,
    ) {
        let (Some((address, ..)), Some(first)) = (self.unwritten.take(false), ranges.first()) else { return };
        let cta = self.ctas[actor.rank as usize].linear;
        let whole = Access { lanes: actor.lanes, bytes: u16::MAX, spread: 0, ..access };
        let copy = Party::of(&whole, u16::MAX, actor.warp, cta, Some(completion));
        self.launch.report(Conflict {
            kind: FindingKind::Uninitialized,
            space: first.space,
            address,
            length: ranges.iter().map(|range| range.bytes).sum(),
            later: copy,
            earlier: copy,
            progress: None,
            phases: None,
            release: None,
            tile: None,
        });
    }

    /// A warp frees memory: all uses must be complete.
    pub(crate) fn check_freed(&mut self, actor: Actor, ranges: &[ByteRange]) {
        self.serial += 1;
        let access = self.own_access(actor, AccessKind::Object);
        let mut parts = std::mem::take(&mut self.parts);
        for range in ranges {
            parts.clear();
            cut_range(range.first, range.bytes, actor.lanes, |part| parts.push(part));
            self.record(actor, range.space, &parts, access, None, None);
        }
        self.parts = parts;
    }

    /// Records an access of lanes with the same knowledge, and collects its conflicts.
    fn record(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        parts: &[Part],
        blank: Access,
        completion: Option<Completion>,
        values: Option<&[Value; LANES]>,
    ) {
        if space == MemorySpace::Shared && blank.kind.writes() {
            self.check_overwritten_mbarriers(actor, parts, &blank);
        }
        let mut times = SmallVec::<[Time; 2]>::new();
        let Self { ctas, shadows, tensor, launch, cluster, conflicts, unwritten, published, .. } = self;
        let cta = &ctas[actor.rank as usize];
        let warp = &cta.warps[actor.warp as usize];
        let knowledge = warp.knowledge(actor.lanes.trailing_zeros());
        let is_non_coherent = space == MemorySpace::Global && launch.non_coherent.contains(&actor.pc);
        let accessor = Accessor {
            actor,
            cta: cta.linear,
            warp,
            knowledge,
            cluster: cluster.as_slice(),
            published,
            fences_tensor_memory: launch.fences_tensor_memory,
            trusting: &launch.trusting,
            racing: &launch.racing,
            is_non_coherent,
        };
        // A wait orders no load through the read-only path, because nothing writes what it reads.
        let may_overlap = is_non_coherent || !overlap::has_ended(&knowledge.known);
        let overlaps = launch.previous.as_deref().filter(|_| space == MemorySpace::Global && may_overlap);
        let mut act = |part: &Part, granule: &mut Granule| {
            let access = Access {
                lanes: part.lanes,
                bytes: part.bytes,
                spread: part.spread,
                start: part.start,
                ..blank
            };
            if let Some((bytes, earlier)) =
                overlaps.and_then(|predecessor| predecessor.conflict_with(&access, part.granule))
            {
                let later = Party::of(&access, bytes, actor.warp, accessor.cta, completion);
                let (address, length) = first_common(part.granule, bytes);
                launch.report_overlap(Overlap { later, address, length, earlier });
            }
            let written = values.map(|values| part.value(values));
            let knows = |earlier: &Access| accessor.knows(earlier, &access);
            let unread = granule.record(access, written, knows, |earlier, seen| {
                let (verdict, kind) = accessor.judge(earlier, &access, seen);
                if verdict == Verdict::Wrong {
                    let (address, length) = first_common(part.granule, earlier.bytes & access.bytes);
                    let common = earlier.bytes & access.bytes;
                    let conflict = Conflict {
                        kind,
                        space,
                        address,
                        length,
                        later: Party::of(&access, common, actor.warp, accessor.cta, completion),
                        earlier: Party::of(earlier, common, actor.warp, accessor.cta, None),
                        progress: None,
                        phases: None,
                        release: None,
                        tile: None,
                    };
                    if let Some(conflict) = launch.guesses.hold(conflict) {
                        times.push(earlier.time);
                        conflicts.push(conflict);
                    }
                }
                verdict
            });
            unwritten.note(&access, part.granule, unread);
        };
        match space {
            MemorySpace::Global => launch.global.each(parts, act),
            MemorySpace::Shared => {
                for part in parts {
                    let (rank, offset) = split_shared(part.granule);
                    if let Some(shadow) = shadows.get_mut(rank as usize) {
                        act(part, shadow.granule(offset));
                    }
                }
            }
            MemorySpace::Tensor => {
                for part in parts {
                    let (rank, offset) = split_shared(part.granule);
                    if let Some(shadow) = tensor.get_mut(rank as usize) {
                        act(part, shadow.granule(offset));
                    }
                }
            }
            MemorySpace::Local => {}
        }
        self.complete_conflicts(actor, &times);
        self.report_conflicts();
    }

    /// Adds to each conflict what the threads knew at the time of its earlier access.
    fn complete_conflicts(&mut self, actor: Actor, times: &[Time]) {
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

    /// Reports reads of unwritten bytes.
    fn report_unwritten(&mut self, actor: Actor, space: MemorySpace, access: Access) {
        let cta = self.ctas[actor.rank as usize].linear;
        if space == MemorySpace::Shared && access.kind == AccessKind::Read {
            self.unwritten.end(access.pc);
        }
        let is_matrix = opcode(&self.launch.info.code.instruction(actor.pc).text).starts_with("ldmatrix");
        let rows = self.unwritten.take_rows();
        if let Some((address, length, lanes)) = self.unwritten.take(is_matrix) {
            if space == MemorySpace::Shared && access.kind == AccessKind::Read {
                match is_matrix {
                    true => self.warp(actor).1.undefined.loading_unwritten_rows(actor, rows),
                    false => self.warp(actor).1.undefined.loading_unwritten(actor, lanes),
                }
                self.is_following = true;
            }
            let whole = Access { lanes, bytes: u16::MAX, spread: 0, ..access };
            let reader = Party::of(&whole, u16::MAX, actor.warp, cta, None);
            self.launch.report(Conflict {
                kind: FindingKind::Uninitialized,
                space,
                address,
                length,
                later: reader,
                earlier: reader,
                progress: None,
                phases: None,
                release: None,
                tile: None,
            });
        }
    }

    /// Reports loads of unwritten local memory.
    pub(crate) fn local_load(&mut self, actor: Actor, unwritten: u32, addresses: &[u64; LANES], size: u64) {
        if unwritten != actor.lanes {
            self.unwritten.note_good(actor.pc);
        }
        if unwritten == 0 {
            return;
        }
        self.warp(actor).1.undefined.loading_unwritten(actor, unwritten);
        self.is_following = true;
        let reader = Party {
            cta: self.ctas[actor.rank as usize].linear,
            role: Role::Warp(actor.warp),
            warp: Some(actor.warp),
            lanes: unwritten,
            pc: actor.pc,
            kind: AccessKind::Read,
            strength: Strength::Weak,
            proxy: None,
        };
        self.launch.report(Conflict {
            kind: FindingKind::Uninitialized,
            space: MemorySpace::Local,
            address: addresses[unwritten.trailing_zeros() as usize],
            length: size,
            later: reader,
            earlier: reader,
            progress: None,
            phases: None,
            release: None,
            tile: None,
        });
    }

    /// Reports work that a warp has not waited for when the cluster ends.
    pub(crate) fn finish(&mut self) {
        self.launch.note_good_reads(self.unwritten.good());
        self.launch.note_whole_tiles(&self.whole_tiles);
        self.finish_mbarriers();
        self.finish_tensor_memory();
        self.finish_peers();
        // The next launch begins when each CTA lets it or exits: one that waits before is enough.
        if self.ctas.iter().any(|cta| cta.has_waited && !cta.lets_next_begin_early) {
            self.launch.note_end_of_predecessor();
        }
        for cta in &self.ctas {
            for (warp, index) in cta.warps.iter().zip(0..) {
                for (lanes, pc, kind, progress) in warp.leaks() {
                    let worker = Party {
                        cta: cta.linear,
                        role: Role::of_work(index, kind, Awaited::Everything),
                        warp: Some(index),
                        lanes,
                        pc,
                        kind: AccessKind::Write,
                        strength: Strength::Weak,
                        proxy: Some(Proxy::Async),
                    };
                    self.launch.report(Conflict {
                        kind: FindingKind::Leak,
                        space: MemorySpace::Shared,
                        address: 0,
                        length: 0,
                        later: worker,
                        earlier: worker,
                        progress: Some(progress),
                        phases: None,
                        release: None,
                        tile: None,
                    });
                }
            }
        }
    }

    /// Reports accesses of peers to a CTA's shared memory that the CTA does not wait for.
    fn finish_peers(&self) {
        for (cta, shadow) in self.ctas.iter().zip(&self.shadows) {
            for access in shadow.granules().flat_map(|granule| &granule.accesses) {
                let (Role::Warp(warp) | Role::Group(warp, ..)) = Role::of(access.agent) else { continue };
                let lanes = access.lanes_of(access.bytes);
                let missed = cta.outlived.uncovered(access.cta, access.agent, lanes, access.time);
                let is_issue = access.strength == OBJECT && self.remote_copies.contains(&access.pc);
                if access.cta != cta.linear && missed != 0 && !is_issue {
                    let mark = Mark { cta: access.cta, warp, lanes: missed, pc: access.pc };
                    self.report_early_exit(mark, cta.linear);
                }
            }
        }
    }

    /// Reports a conflict.
    fn report_conflicts(&mut self) {
        for conflict in self.conflicts.drain(..) {
            self.launch.report(conflict);
        }
    }
}
