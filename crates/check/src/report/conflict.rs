//! Turns conflicts into findings and their messages.

use std::collections::BTreeSet;

use warpwright_events::{
    AccessKind, AsyncKind, Cell, Class, Code, Completion, Label, LaunchInfo, MbarrierAddress, MemorySpace,
    Proxy, Strength, TileOperand, split_shared,
};

use crate::report::finding::{Finding, FindingKind};
use crate::report::order::{Gap, Rank};
use crate::report::tile::UnwrittenTile;
use crate::state::agents::Role;
use crate::state::mark::{cta_name, who};
use crate::state::shadow::Access;
use crate::state::work::Progress;

/// `a read`, `an atomic operation`
pub(crate) fn with_article(what: &str) -> String {
    let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {what}")
}

/// `a byte`, `16 bytes`
pub(crate) fn byte_count(bytes: u64) -> String {
    if bytes == 1 { "a byte".to_owned() } else { format!("{bytes} bytes") }
}

/// A wait that a new mbarrier does not block.
const RETURNED_AT_ONCE: &str =
    "this wait has returned at once: on a new mbarrier, a wait for parity 1 is for the phase before phase 0";

/// The use that a buffer still has when a copy fills it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refilled {
    /// A wgmma reads it.
    Read,
    /// An earlier copy fills it.
    Filled,
}

/// One side of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    /// The linear index of its CTA.
    pub(crate) cta: u32,
    pub(crate) role: Role,
    /// The warp, if it is known.
    pub(crate) warp: Option<u32>,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
    pub(crate) kind: AccessKind,
    pub(crate) strength: Strength,
    pub(crate) proxy: Option<Proxy>,
}

impl Party {
    /// The thread that accessed these bytes of a granule.
    pub(crate) fn of(
        access: &Access,
        bytes: u16,
        actor: u32,
        actor_cta: u32,
        completion: Option<Completion>,
    ) -> Self {
        let role = Role::of(access.agent);
        let (cta, warp) = match role {
            Role::Warp(warp) | Role::Group(warp, ..) | Role::Issuer(warp) => (access.cta, Some(warp)),
            Role::Mbarrier(_) if completion.is_some() => (actor_cta, Some(actor)),
            Role::Mbarrier(_) => (access.cta, None),
        };
        Self {
            cta,
            role,
            warp,
            lanes: access.lanes_of(bytes),
            pc: access.pc,
            kind: access.kind,
            strength: access.strength,
            proxy: access.proxy,
        }
    }

    pub(crate) fn who(&self, launch: &LaunchInfo) -> String {
        match self.warp {
            Some(warp) => who(launch, self.cta, warp, self.lanes),
            None => cta_name(launch, self.cta),
        }
    }

    /// `a read`, `a copy's write`
    pub(crate) fn what(&self) -> &'static str {
        match (self.proxy, self.kind) {
            (None, AccessKind::Read | AccessKind::ReadTile) => "read",
            (None, AccessKind::Write | AccessKind::Object) => "write",
            (None, AccessKind::Atomic) => "atomic operation",
            (Some(Proxy::Tensormap), _) => "read of the tensor map",
            (Some(_), AccessKind::Read | AccessKind::ReadTile) => "asynchronous read",
            (Some(_), AccessKind::Write | AccessKind::Object) => "asynchronous write",
            (Some(_), AccessKind::Atomic) => "asynchronous reduction",
        }
    }
}

/// The phase of a copy at an mbarrier, and what a thread has waited for that accesses its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) mbarrier: MbarrierAddress,
    /// The phase that the copy completes.
    pub(crate) copy: u32,
    /// The last phase whose end the thread has observed.
    pub(crate) seen: Option<u32>,
    /// The last wait of the thread's warp at the mbarrier that returned; at any, if none did there.
    pub(crate) passed: Option<Passed>,
    /// The mbarrier that the warp has waited for since, by the same instruction.
    pub(crate) passed_since: Option<MbarrierAddress>,
    /// Whether the accessor is another copy that completes in the same phase.
    pub(crate) is_shared: bool,
}

/// A wait at an mbarrier that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) pc: u32,
    pub(crate) mbarrier: MbarrierAddress,
    /// The phase that had ended; `None` for the one before the first.
    pub(crate) phase: Option<u32>,
    /// Whether copies were issued in that phase.
    pub(crate) is_filled: bool,
    /// The lane whose waits are counted, and its waits at the mbarrier.
    pub(crate) lane: usize,
    pub(crate) waits: u32,
}

impl Passed {
    /// Whether the warp has waited once for each phase so far, and the last one has brought something.
    pub(super) fn is_in_step(&self) -> bool {
        self.is_filled && self.phase.is_some_and(|phase| self.waits == phase + 1)
    }
}

impl Phases {
    /// Whether the thread has waited for the phase that the copy overwrites, once for each phase: the
    /// copy comes too early, and not the thread.
    pub(super) fn is_refilled_early(&self) -> bool {
        let own = self.passed.filter(|passed| passed.mbarrier == self.mbarrier && passed.is_in_step());
        self.passed_since.is_none() && own.is_some_and(|passed| passed.phase < Some(self.copy))
    }

    /// What the last wait of the thread waited for instead of the copy.
    pub(super) fn wait(&self, code: &Code) -> Option<Label> {
        let Passed { pc, mbarrier, phase, .. } = self.passed?;
        let latest = self.passed_since.unwrap_or(mbarrier);
        let text = match phase {
            _ if latest != self.mbarrier => {
                format!("this wait is for another mbarrier, at shared address {:#x}", latest.offset)
            }
            Some(phase) if self.is_refilled_early() => format!(
                "this wait has returned with the end of phase {phase} for the first time: what that phase brought is in use"
            ),
            None => RETURNED_AT_ONCE.to_owned(),
            Some(phase) if phase < self.copy => format!(
                "this wait has returned with the end of phase {phase} (parity {}), and not of phase {} (parity {})",
                phase % 2,
                self.copy,
                self.copy % 2
            ),
            Some(_) => return None,
        };
        Some(code.label(pc, text))
    }
}

/// Two conflicting accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) kind: FindingKind,
    pub(crate) space: MemorySpace,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) later: Party,
    pub(crate) earlier: Party,
    /// Of asynchronous work of a group: what its issuer has done towards its completion.
    pub(crate) progress: Option<Progress>,
    /// For a copy that completes at an mbarrier: its phase, and what the accessor has waited for.
    pub(crate) phases: Option<Phases>,
    /// For a read of threads that a copy overwrites: the arrival of the reader's warp that the issuer of
    /// the copy has waited for. For an access to what a thread of another CTA has written: the arrival
    /// of that CTA, if its scope is too narrow.
    pub(crate) release: Option<Release>,
    /// The tile that is read, if it is one of which bytes are not written.
    pub(crate) tile: Option<UnwrittenTile>,
}

/// An arrival at an mbarrier that was meant to order two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It precedes the read.
    Early(u32),
    /// Another lane of the warp arrives after the read, and the reader has not synchronized with it.
    OfOtherLanes(u32),
    /// It releases to the threads of its own CTA, and the waiter is in another one.
    Narrow(u32),
    /// The wait for it, which has returned with the phase before the first.
    NotAwaited(u32),
}

impl Release {
    pub(super) fn label(self, code: &Code) -> Label {
        match self {
            Self::Early(pc) => code.label(pc, "this arrival precedes the read".to_owned()),
            Self::OfOtherLanes(pc) => {
                code.label(pc, "another lane of the reader's warp arrives here".to_owned())
            }
            Self::NotAwaited(pc) => code.label(pc, RETURNED_AT_ONCE.to_owned()),
            Self::Narrow(pc) => code.label(
                pc,
                "this arrival at the other CTA's mbarrier releases at the scope of its own CTA".to_owned(),
            ),
        }
    }
}

impl Conflict {
    /// Of two accesses to these bytes, an address and a length; of one access, both are it.
    pub(crate) fn new(
        kind: FindingKind,
        space: MemorySpace,
        (address, length): (u64, u64),
        [later, earlier]: [Party; 2],
    ) -> Self {
        Self {
            kind,
            space,
            address,
            length,
            later,
            earlier,
            progress: None,
            phases: None,
            release: None,
            tile: None,
        }
    }

    /// Conflicts with the same key are reported once.
    pub(crate) fn key(&self) -> (FindingKind, u32, u32, Option<TileOperand>) {
        (self.kind, self.later.pc, self.earlier.pc, self.tile.map(|tile| tile.part.operand))
    }

    /// Of several conflicts with the same key, the first in the grid is reported; of races, that of
    /// the farthest threads.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        let of = |party: &Party| (party.cta, party.warp, party.lanes);
        let is_race = self.kind == FindingKind::Race;
        (is_race.then(|| self.extent()), of(&self.later), of(&self.earlier), self.address)
    }

    /// How far apart the two threads are, the farthest first: in two CTAs, two warps, or one warp.
    /// What orders the farther ones orders the nearer ones.
    pub(crate) fn extent(&self) -> u32 {
        match (self.later.cta != self.earlier.cta, self.later.warp != self.earlier.warp) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    }

    pub(super) fn location(&self) -> String {
        match self.space {
            MemorySpace::Shared => format!("shared address {:#x}", split_shared(self.address).1),
            MemorySpace::Global => format!("global address {:#x}", self.address),
            MemorySpace::Local => format!("local address {:#x}", self.address),
            MemorySpace::Tensor => {
                let Cell { row, column } = Cell::at_byte(split_shared(self.address).1);
                format!("row {row}, column {column} of tensor memory")
            }
        }
    }

    pub(super) fn message(&self) -> String {
        let bytes = byte_count(self.length);
        let (later, earlier) = (self.later.what(), self.earlier.what());
        let location = self.location();
        let (a_later, an_earlier) = (with_article(later), with_article(earlier));
        if self.frees() {
            return format!("tensor-memory columns freed while {an_earlier} of them is in flight");
        }
        if let Some(tile) = self.tile {
            return tile.message(&location);
        }
        match self.kind {
            FindingKind::NonCoherent => {
                format!(
                    "a load through the read-only path of {bytes} at {location} that the kernel has written"
                )
            }
            FindingKind::Race
            | FindingKind::Overlap
            | FindingKind::StreamOrder
            | FindingKind::Unwritten
            | FindingKind::Barrier
            | FindingKind::Divergence
            | FindingKind::Fault(_)
                if earlier == later =>
            {
                format!("nothing orders two {later}s of {bytes} at {location}")
            }
            FindingKind::Race
            | FindingKind::Overlap
            | FindingKind::StreamOrder
            | FindingKind::Unwritten
            | FindingKind::Barrier
            | FindingKind::Divergence
            | FindingKind::Fault(_) => {
                format!("nothing orders {an_earlier} and {a_later} of {bytes} at {location}")
            }
            FindingKind::Uninitialized => {
                format!("{a_later} of {bytes} at {location}, which nothing has written")
            }
            FindingKind::Leak => match self.earlier.role {
                Role::Group(_, AsyncKind::Multiply, _) => {
                    "the kernel ends with a wgmma that nothing has waited for"
                }
                Role::Group(_, AsyncKind::TensorCore, _) => {
                    "the kernel ends with work of the tensor core that nothing has waited for"
                }
                _ => "the kernel ends with a copy that nothing has waited for",
            }
            .to_owned(),
            FindingKind::InFlight => match self.refilled() {
                Some(Refilled::Read) => {
                    format!("a copy overwrites {bytes} at {location} that a wgmma may still read")
                }
                Some(Refilled::Filled) => {
                    format!("a copy overwrites {bytes} at {location} that an earlier copy still writes")
                }
                None => format!("{a_later} of {bytes} at {location} while {an_earlier} is in flight"),
            },
            FindingKind::TensorFence => {
                format!("{a_later} of {bytes} at {location} may precede {an_earlier}")
            }
            FindingKind::ProxyFence => {
                format!("{a_later} of {bytes} at {location} may miss {an_earlier} through the generic proxy")
            }
        }
    }

    /// The use that a buffer of shared memory still has when a copy fills it again.
    pub(super) fn refilled(&self) -> Option<Refilled> {
        let is_copy = self.later.proxy == Some(Proxy::Async) && self.later.kind == AccessKind::Write;
        if self.kind != FindingKind::InFlight || self.space != MemorySpace::Shared || !is_copy {
            return None;
        }
        match self.earlier.role {
            Role::Group(_, AsyncKind::Multiply, _) if self.earlier.kind == AccessKind::Read => {
                Some(Refilled::Read)
            }
            Role::Mbarrier(_) if self.earlier.kind == AccessKind::Write => Some(Refilled::Filled),
            _ => None,
        }
    }

    /// Whether the later access frees columns of tensor memory.
    pub(super) fn frees(&self) -> bool {
        self.space == MemorySpace::Tensor && self.later.kind == AccessKind::Object
    }

    /// Whether a copy overwrites what a thread reads.
    pub(crate) fn overwrites_a_read(&self) -> bool {
        self.later.proxy.is_some() && self.later.kind.writes() && !self.earlier.kind.writes()
    }

    /// Whether copies that two threads issue at one line write the same bytes.
    pub(super) fn are_copies_of_one_line(&self, code: &Code) -> bool {
        let thread = |party: &Party| (party.cta, party.warp, party.lanes);
        let are_of_two_threads = match self.earlier.role {
            Role::Mbarrier(_) => self.is_of_one_phase(),
            _ => thread(&self.later) != thread(&self.earlier),
        };
        self.both_write()
            && are_of_two_threads
            && self.is_of_one_line(code)
            && [self.later, self.earlier].iter().all(|party| party.proxy.is_some())
    }

    /// Whether two copies complete in one phase of an mbarrier: none of them fills the buffer again.
    pub(super) fn is_of_one_phase(&self) -> bool {
        self.phases.is_some_and(|phases| phases.is_shared)
    }

    /// Whether both accesses are plain writes, by threads or by copies.
    pub(super) fn both_write(&self) -> bool {
        self.later.kind == AccessKind::Write && self.earlier.kind == AccessKind::Write
    }

    /// Whether both accesses are of one instruction, or of instructions that a loop repeats.
    pub(super) fn is_of_one_line(&self, code: &Code) -> bool {
        let source = |party: &Party| code.instruction(party.pc).source.as_ref();
        let (later, earlier) = (source(&self.later), source(&self.earlier));
        self.later.pc == self.earlier.pc || later.is_some() && later == earlier
    }

    /// The mbarrier that the earlier access completes at.
    pub(crate) fn mbarrier(&self) -> Option<(MemorySpace, u64)> {
        self.phases.map(|phases| (MemorySpace::Shared, phases.mbarrier.shared()))
    }

    /// The address that the conflict is about; a leak has none.
    pub(crate) fn at(&self) -> Option<(MemorySpace, u64)> {
        (self.length > 0).then_some((self.space, self.address))
    }

    /// The finding; `contended` are the instructions by which several threads write the same bytes, and
    /// `extent` is how far apart the farthest threads are that have this conflict.
    pub(crate) fn finding(
        &self,
        launch: &LaunchInfo,
        code: &Code,
        count: u64,
        contended: &BTreeSet<u32>,
        extent: u32,
    ) -> Finding {
        let (mut missing, mut help) = self.missing(code, contended, extent);
        let mut message = self.message();
        let initializes = |party: &Party| code.instruction(party.pc).class == Class::MbarrierInit;
        if self.kind == FindingKind::Race && (initializes(&self.earlier) || initializes(&self.later)) {
            message = format!(
                "nothing orders the initialization of the mbarrier at {} and its use",
                self.location()
            );
            if self.earlier.cta != self.later.cta {
                "no barrier.cluster and no mbarrier orders the two CTAs, and an arrival that is `.relaxed` orders only what a fence precedes"
                    .clone_into(&mut missing);
            }
            missing.push_str(": this thread may use the mbarrier before it is initialized");
            help = "initialize it in one thread, then execute a barrier (in a cluster: `fence_mbarrier_init()`, then `cluster_sync()`) before any other thread uses it".to_owned();
        }
        let of_mbarrier = |party: &Party| {
            let done = if initializes(party) { "initialized" } else { "used" };
            format!("{done} by {}", party.who(launch))
        };
        let is_initialization = initializes(&self.earlier) || initializes(&self.later);
        let text = |party: &Party| match is_initialization && self.kind == FindingKind::Race {
            _ if self.tile.is_some() => format!("issued by {}", party.who(launch)),
            true => of_mbarrier(party),
            false if self.kind == FindingKind::Leak => format!("issued by {}", party.who(launch)),
            false if self.frees() && *party == self.later => {
                format!("freed by {}", party.who(launch))
            }
            false => format!("{} by {}", party.what(), party.who(launch)),
        };
        let mut labels = vec![code.label(self.later.pc, text(&self.later))];
        if self.earlier != self.later {
            let before = format!("{}, earlier in this run", text(&self.earlier));
            labels.push(code.label(self.earlier.pc, before));
        }
        labels.extend(self.release.map(|release| release.label(code)));
        if self.kind == FindingKind::InFlight && matches!(self.earlier.role, Role::Mbarrier(_)) {
            labels.extend(self.phases.and_then(|phases| phases.wait(code)));
        }
        Finding {
            kind: self.kind,
            kernel: code.kernel.clone(),
            message,
            labels,
            memory: Vec::new(),
            notes: vec![missing],
            help: Some(help),
            count,
            tile: self.tile.map(|tile| tile.part.operand),
            cause: None,
            rank: self.distance(code),
            gap: self.gap(code),
        }
    }

    /// Adds to the finding of a read of unwritten bytes what writes them later, unordered, as this conflict tells.
    pub(crate) fn explain_early_read(&self, launch: &LaunchInfo, code: &Code, finding: &mut Finding) {
        let write = format!("{} by {}, later in this run", self.later.what(), self.later.who(launch));
        finding.labels.push(code.label(self.later.pc, write));
        finding.notes =
            vec!["nothing lets the read wait for the write, so that it comes too early".to_owned()];
        let is_of_threads = [self.later, self.earlier].iter().all(|party| party.proxy.is_none());
        finding.help = Some(if is_of_threads {
            self.missing(code, &BTreeSet::new(), self.extent()).1
        } else {
            "wait for the write before the read: on the mbarrier at which the copy, or the commit of the MMA, completes".to_owned()
        });
    }

    /// How far it is from its cause.
    pub(super) fn distance(&self, code: &Code) -> Rank {
        match self.kind {
            FindingKind::InFlight if self.are_copies_of_one_line(code) => Rank::Protocol,
            FindingKind::Race
                if self.space == MemorySpace::Global
                    && self.both_write()
                    && self.is_of_one_line(code)
                    && !self.is_of_loading_line(code) =>
            {
                Rank::Protocol
            }
            FindingKind::Race | FindingKind::InFlight if self.tile.is_none() => {
                match (self.earlier.kind.writes(), self.later.kind.writes()) {
                    (true, false) => Rank::EarlyRead,
                    (true, true) => Rank::OverwrittenWrite,
                    (false, _) => Rank::Overwrite,
                }
            }
            kind => Rank::of(kind),
        }
    }

    /// The instructions between which one barrier or fence is missing.
    pub(super) fn gap(&self, code: &Code) -> Option<Gap> {
        let is_of_threads = |party: &Party| matches!(party.role, Role::Warp(_));
        let has_gap = match self.kind {
            FindingKind::Race => is_of_threads(&self.earlier) && is_of_threads(&self.later),
            // One wait, and a barrier behind it, are for all copies of a group and for all threads.
            FindingKind::InFlight => {
                matches!(self.earlier.role, Role::Group(_, AsyncKind::Copy, _)) && is_of_threads(&self.later)
            }
            kind => kind == FindingKind::ProxyFence,
        };
        let extent = if self.kind == FindingKind::InFlight { 0 } else { self.extent() };
        let lines = [self.earlier.pc, self.later.pc].map(|pc| code.instruction(pc).line);
        let [first, last] = [lines[0].min(lines[1]), lines[0].max(lines[1])];
        has_gap.then_some(Gap { kind: self.kind, extent, first, last })
    }
}
