//! The race check: whether an access follows those it conflicts with.

use smallvec::SmallVec;
use warpwright_events::{
    AccessKind, Actor, AsyncKind, ByteRange, Completion, LANES, MemorySpace, Proxy, Scope, Strength, Value,
    lanes, split_shared,
};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party};
use crate::report::finding::FindingKind;
use crate::report::overlap::{self, Overlap};
use crate::rules::verdict::Accessor;
use crate::state::agents::Role;
use crate::state::clock::Time;
use crate::state::mbarrier::OBJECT;
use crate::state::shadow::{Access, Granule, Part, Verdict, cut, cut_range};

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
        self.report_unwritten(actor, space, addresses, size, access);
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
        let stores = differing.map(|lane| {
            let access =
                Access { lanes: 1 << lane, bytes: u16::MAX, ..self.own_access(actor, AccessKind::Write) };
            Party::of(&access, u16::MAX, actor.warp, cta, None)
        });
        let bytes = (addresses[differing[0]], size);
        self.launch.report(Conflict::new(FindingKind::Race, space, bytes, stores));
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
        let is_store = completion == Completion::Group(AsyncKind::Bulk);
        let repeats = (is_copy || is_store) && self.repeats_copy(actor, ranges);
        if repeats && is_store {
            self.launch.note_repeated_store(actor.pc);
        }
        if !(repeats && is_copy) {
            self.serial += 1;
        }
        if is_copy || is_store {
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
        if space == MemorySpace::Shared && self.ctas.len() > 1 {
            self.check_started(actor, parts);
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
                    let common = earlier.bytes & access.bytes;
                    let later = Party::of(&access, common, actor.warp, accessor.cta, completion);
                    let earlier_party = Party::of(earlier, common, actor.warp, accessor.cta, None);
                    let bytes = first_common(part.granule, common);
                    let conflict = Conflict::new(kind, space, bytes, [later, earlier_party]);
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

    /// Reports an access to the shared memory of a peer that may not have started.
    fn check_started(&self, actor: Actor, parts: &[Part]) {
        let knowledge = self.warp_of(actor).knowledge(actor.lanes.trailing_zeros());
        let ranks = parts.iter().map(|part| split_shared(part.granule).0);
        let mut peers =
            ranks.filter(|&rank| rank != actor.rank).filter_map(|rank| self.cluster.get(rank as usize));
        if let Some(&peer) = peers.find(|&&peer| !knowledge.has_start(peer)) {
            self.report_early_access(self.mark(actor), peer);
        }
    }

    /// Reports a conflict.
    fn report_conflicts(&mut self) {
        for conflict in self.conflicts.drain(..) {
            self.launch.report(conflict);
        }
    }
}
