//! Turns conflicts into findings and their messages.

use std::collections::BTreeSet;

use warpwright_events::{
    AccessKind, AsyncKind, Awaited, Cell, Class, Code, Completion, Instruction, Label, LaunchInfo,
    MbarrierAddress, MemorySpace, Proxy, Scope, Strength, TileOperand, split_shared,
};

use crate::report::finding::{Finding, FindingKind};
use crate::report::group::Group;
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

/// Two CTAs write the same element, and none reads it.
fn two_ctas_write() -> (String, String) {
    (
        "two CTAs write the same elements, and nothing orders them: either value may remain".to_owned(),
        "compute coordinates that differ for each CTA: check how they depend on the block index, and the grid of the launch; or use atomics".to_owned(),
    )
}

/// Two copies of a CTA write the same element; of `one_line`, two threads issue them there.
fn two_copies_write(one_line: bool) -> (String, String) {
    if one_line {
        return (
            "several threads execute the copy, and each writes the same elements: nothing orders them".to_owned(),
            "let one thread issue the copy, for example where the thread's index is 0; or let each copy to coordinates of its own"
                .to_owned(),
        );
    }
    (
        "two copies write the same elements, and nothing orders them: either value may remain".to_owned(),
        "let the copies write to different coordinates; or wait for the first (`bulk_commit()`, `bulk_wait(0)`) before the second is issued".to_owned(),
    )
}

/// How to keep a buffer until the wgmma that reads it are complete.
const RELEASE_AFTER_WAIT: &str = "release the buffer after `wait_multiplications` (`wgmma.wait_group`) covers the wgmma: by an arrival at an mbarrier, or by a barrier; and let the thread that issues the copy wait for that release before it fills the buffer again";

/// A wait that a new mbarrier does not block.
const RETURNED_AT_ONCE: &str =
    "this wait has returned at once: on a new mbarrier, a wait for parity 1 is for the phase before phase 0";

/// The use that a buffer still has when a copy fills it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refilled {
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
    fn is_in_step(&self) -> bool {
        self.is_filled && self.phase.is_some_and(|phase| self.waits == phase + 1)
    }
}

impl Phases {
    /// Whether the thread has waited for the phase that the copy overwrites, once for each phase: the
    /// copy comes too early, and not the thread.
    fn is_refilled_early(&self) -> bool {
        let own = self.passed.filter(|passed| passed.mbarrier == self.mbarrier && passed.is_in_step());
        self.passed_since.is_none() && own.is_some_and(|passed| passed.phase < Some(self.copy))
    }

    /// What the last wait of the thread waited for instead of the copy.
    fn wait(&self, code: &Code) -> Option<Label> {
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
    fn label(self, code: &Code) -> Label {
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

    fn location(&self) -> String {
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

    fn message(&self) -> String {
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
    fn refilled(&self) -> Option<Refilled> {
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
    fn frees(&self) -> bool {
        self.space == MemorySpace::Tensor && self.later.kind == AccessKind::Object
    }

    /// The missing ordering, and how to add it.
    fn missing(&self, code: &Code, contended: &BTreeSet<u32>, extent: u32) -> (String, String) {
        if let Some(tile) = self.tile.filter(|tile| tile.part.operand != TileOperand::Accumulator) {
            return tile.missing();
        }
        if let Some(missing) = self.missing_for_kind(code) {
            return missing;
        }
        if let Some((missing, help)) = self.missing_group(code) {
            let is_released_early =
                self.progress == Some(Progress::Awaited) && self.refilled() == Some(Refilled::Read);
            return (missing, if is_released_early { RELEASE_AFTER_WAIT.to_owned() } else { help });
        }
        if self.is_update(code, contended) {
            return (
                "several threads update this element: each reads it and writes it, and another thread may write it between \
                 the two, whatever barrier follows"
                    .to_owned(),
                "update it by one atomic operation: `atomic_add`, or `reduce_add` if its old value is not needed; or let one \
                 thread update it"
                    .to_owned(),
            );
        }
        match self.earlier.role {
            Role::Group(_, AsyncKind::TensorCore, _) | Role::Issuer(_) => (
                "the tensor core is asynchronous: this thread has waited for no mbarrier to which a tcgen05.commit reports this work".to_owned(),
                "call `commit_tensor_core` (`tcgen05.commit`) in the issuing thread, and wait on its mbarrier before the access".to_owned(),
            ),
            Role::Group(_, kind, awaited) => self.missing_wait(kind, awaited),
            Role::Mbarrier(_) if self.both_write() && self.is_of_one_phase() => (
                "two copies of one phase of the mbarrier write the same bytes, and nothing orders them".to_owned(),
                "let each copy write a part of its own; in a cluster, check the masks of the multicasts, too: a copy goes to the same \
                 offset in every CTA of its mask"
                    .to_owned(),
            ),
            Role::Mbarrier(_) if self.refilled().is_some() => {
                let (missing, _) = self.missing_phase();
                (missing, "before a copy fills a buffer again, wait until its readers have released it: at the mbarrier at which they arrive (`wait_parity`). Without readers, wait for the earlier copy".to_owned())
            }
            Role::Mbarrier(_) => self.missing_phase(),
            Role::Warp(_) => self.missing_between_threads(code, extent),
        }
    }

    /// What the kind of the finding says is missing.
    fn missing_for_kind(&self, code: &Code) -> Option<(String, String)> {
        let (missing, help) = match (self.kind, self.earlier.role) {
            (FindingKind::Uninitialized, _) => return Some(self.missing_write()),
            (FindingKind::Leak, Role::Group(_, kind, _)) => {
                return Some(self.missing_wait_before_exit(code, kind));
            }
            (FindingKind::ProxyFence, _) if self.later.proxy == Some(Proxy::Tensormap) => (
                "no fence.proxy.tensormap is between the two: the copy may use the old tensor map",
                "call `fence_tensor_map_acquire` (`fence.proxy.tensormap::generic.acquire`) in the thread that issues the copy",
            ),
            (FindingKind::NonCoherent, _) => (
                "`ld.global.nc` reads what does not change while the kernel runs: it may miss the write, whatever synchronization is between the two",
                "load without the path: `load()` (`ld.global`)",
            ),
            (FindingKind::TensorFence, _) => (
                "the threads have synchronized, with no tcgen05.fence::after_thread_sync afterwards: tcgen05 is asynchronous, and may begin before the synchronization",
                "call `tensor_fence_after_sync()` (`tcgen05.fence::after_thread_sync`) between the wait or barrier and this instruction; and `tensor_fence_before_sync()` before the arrival, if that is not a tcgen05.commit",
            ),
            (FindingKind::ProxyFence, _) => (
                "no fence.proxy.async is between the two",
                "call `fence_proxy_async()` (`fence.proxy.async`) in the threads that wrote, after the write and before the barrier that precedes the copy",
            ),
            _ => return None,
        };
        Some((missing.to_owned(), help.to_owned()))
    }

    /// A write before the read of memory that holds nothing.
    fn missing_write(&self) -> (String, String) {
        let whose = match self.space {
            MemorySpace::Shared => "shared memory is not zeroed for a CTA: it holds what an earlier CTA left",
            MemorySpace::Local => {
                "a thread's local memory (arrays indexed by device values, and spilled registers) is not initialized"
            }
            MemorySpace::Global => "new memory is not initialized: the emulator fills it with 0xff",
            MemorySpace::Tensor => {
                return (
                    "tensor-memory columns are not zeroed when they are allocated".to_owned(),
                    "let the first tcgen05.mma overwrite D (enable-input-d false), or write the columns with `tcgen05.st` or `tcgen05.cp`".to_owned(),
                );
            }
        };
        (whose.to_owned(), "write it before it is read".to_owned())
    }

    /// A wait for work in flight before the threads exit.
    fn missing_wait_before_exit(&self, code: &Code, kind: AsyncKind) -> (String, String) {
        let is_covered_late = matches!(self.progress, Some(Progress::Left { .. }));
        if let Some(missing) = self.missing_group(code).filter(|_| !is_covered_late) {
            return missing;
        }
        let wait = match kind {
            AsyncKind::Copy => "call `wait_all_async_copies()` (`cp.async.wait_all`)",
            AsyncKind::Bulk => "call `bulk_wait_read(0)` (`cp.async.bulk.wait_group.read 0`)",
            AsyncKind::Multiply => "call `wait_multiplications(0)` (`wgmma.wait_group 0`)",
            AsyncKind::TensorCore => "call `commit_tensor_core` (`tcgen05.commit`) and wait on its mbarrier",
            AsyncKind::TensorLoad => "call `wait_tensor_loads()` (`tcgen05.wait::ld`)",
            AsyncKind::TensorStore => "call `wait_tensor_stores()` (`tcgen05.wait::st`)",
        };
        (
            "no wait covers it: the memory that it accesses may belong to another CTA by then".to_owned(),
            format!("{wait} before the threads exit"),
        )
    }

    /// A wait for the group of an access.
    fn missing_wait(&self, kind: AsyncKind, awaited: Awaited) -> (String, String) {
        let (later, earlier) = (&self.later, &self.earlier);
        let (wait, call, unit) = match (kind, awaited) {
            (AsyncKind::Copy, _) => ("cp.async.wait_group", "wait_async_copies", "copy"),
            (AsyncKind::Bulk, Awaited::Sources) => {
                ("cp.async.bulk.wait_group.read", "bulk_wait_read", "bulk copy")
            }
            (AsyncKind::Bulk, Awaited::Everything) => ("cp.async.bulk.wait_group", "bulk_wait", "bulk copy"),
            (AsyncKind::TensorLoad, _) => ("tcgen05.wait::ld", "wait_tensor_loads", "load"),
            (AsyncKind::TensorStore, _) => ("tcgen05.wait::st", "wait_tensor_stores", "store"),
            (AsyncKind::Multiply | AsyncKind::TensorCore, _) => {
                ("wgmma.wait_group", "wait_multiplications", "wgmma")
            }
        };
        let same_thread = (later.cta, later.warp, later.lanes) == (earlier.cta, earlier.warp, earlier.lanes);
        let whom = if same_thread { "this thread" } else { "the thread that issued it" };
        (
            format!("no {wait} by {whom} covers the {unit} before this access"),
            if matches!(kind, AsyncKind::TensorLoad | AsyncKind::TensorStore) && same_thread {
                format!("call `{call}()` (`{wait}`) between the two")
            } else if same_thread {
                format!("call `{call}` (`{wait}`) for the group of the {unit}")
            } else if self.refilled().is_some() {
                RELEASE_AFTER_WAIT.to_owned()
            } else {
                format!(
                    "call `{call}` (`{wait}`) in the issuing thread, then synchronize at a barrier; or let the {unit} use another buffer than this access"
                )
            },
        )
    }

    /// Synchronization between two accesses that threads make themselves.
    fn missing_between_threads(&self, code: &Code, extent: u32) -> (String, String) {
        let (later, earlier) = (&self.later, &self.earlier);
        let reaches =
            |party: &Party| matches!(party.strength, Strength::Strong { scope, .. } if scope >= Scope::Gpu);
        match self.release {
            Some(Release::Narrow(_)) => (
                "an arrival publishes what its thread has written to the CTA that waits only if its scope is the cluster's: \
                 `.release.cta`, the default, does not wait until the writes are visible there"
                    .to_owned(),
                "arrive with `arrive_in(Scope::Cluster)` (`mbarrier.arrive.release.cluster`) after the writes, and wait with \
                 `wait_parity_in` at the same scope; or call `cluster_sync()` between the two"
                    .to_owned(),
            ),
            Some(Release::NotAwaited(_)) => (
                "this thread has not waited for the arrivals at the mbarrier that follow the other access".to_owned(),
                "wait for the phase of the arrivals: the first one has the parity 0".to_owned(),
            ),
            Some(Release::OfOtherLanes(_)) => self.missing_release(),
            _ if self.overwrites_a_read() => self.missing_release(),
            _
                if later.cta != earlier.cta
                    && self.space == MemorySpace::Global
                    && reaches(later)
                    && reaches(earlier) =>
            (
                "this thread has observed a later write, with no fence between the two writes: it may still read the old value here".to_owned(),
                "call `fence_device()` (`fence.acq_rel.gpu`, `__threadfence`) after the write and before the one that publishes it; or publish with a release".to_owned(),
            ),
            _ if later.cta != earlier.cta && self.space == MemorySpace::Global => {
                let strong = |party: &Party| party.strength != Strength::Weak;
                if strong(later) && strong(earlier) {
                    (
                        "the scopes of the two do not include both CTAs".to_owned(),
                        "use .gpu scope between CTAs of a grid, .cluster within a cluster".to_owned(),
                    )
                } else if self.both_write() {
                    two_ctas_write()
                } else {
                    (
                        "nothing orders the two CTAs: the second acquires no release of the first at .gpu scope".to_owned(),
                        "publish with a release at .gpu scope (or `fence.acq_rel.gpu` and a relaxed store) and read with an acquire; a thread that publishes for others synchronizes with them at a barrier before its release. Or use atomics".to_owned(),
                    )
                }
            }
            _ if later.cta != earlier.cta => (
                "no barrier.cluster and no mbarrier is between the two CTAs".to_owned(),
                "call `cluster_sync()` (`barrier.cluster`) in both CTAs between the two".to_owned(),
            ),
            _ if self.both_write() && self.is_of_one_line(code) => (
                "the threads write different values with the same instruction".to_owned(),
                "let one thread write, or each to an address of its own".to_owned(),
            ),
            _ if extent == 2 => (
                if [later, earlier].iter().all(|party| party.strength != Strength::Weak) {
                    "`.volatile` and `.relaxed` accesses do not make lanes wait for each other, and no bar.warp.sync is between the two"
                } else {
                    "no bar.warp.sync is between the two lanes"
                }
                .to_owned(),
                "call `sync_warp` (`bar.warp.sync`, `__syncwarp`) between the two; shuffles and votes do not order memory".to_owned(),
            ),
            _ if later.warp == earlier.warp => (
                "no barrier is between the threads of the two lines".to_owned(),
                "call `sync_threads()` (`bar.sync`, `__syncthreads`) between the two; where only some warps of the block come, `NamedBarrier::sync`".to_owned(),
            ),
            _ => (
                "no barrier is between the two warps".to_owned(),
                "call `sync_threads()` (`bar.sync`, `__syncthreads`) between the two; where only some warps of the block come, `NamedBarrier::sync`".to_owned(),
            ),
        }
    }

    /// What is missing between the issue of work of a group and its completion.
    fn missing_group(&self, code: &Code) -> Option<(String, String)> {
        if self.both_write() && self.space == MemorySpace::Global {
            match (self.earlier.cta == self.later.cta, self.later.proxy) {
                (false, _) => return Some(two_ctas_write()),
                (true, Some(_)) => return Some(two_copies_write(self.are_copies_of_one_line(code))),
                (true, None) => {}
            }
        }
        let Role::Group(_, kind, awaited) = self.earlier.role else { return None };
        let group = Group::of(kind, awaited)?;
        let is_own = (self.later.cta, self.later.warp) == (self.earlier.cta, self.earlier.warp);
        match self.progress? {
            Progress::Awaited if self.both_write() && self.later.proxy.is_some() => None,
            Progress::Awaited => Some(group.missing_barrier()),
            // Another thread runs on meanwhile: it may commit and wait after this access.
            Progress::Uncommitted { wait: None } | Progress::Committed { early_wait: None }
                if !is_own && self.kind != FindingKind::Leak =>
            {
                None
            }
            progress => group.missing(progress, code),
        }
    }

    /// Whether a copy overwrites what a thread reads.
    pub(crate) fn overwrites_a_read(&self) -> bool {
        self.later.proxy.is_some() && self.later.kind.writes() && !self.earlier.kind.writes()
    }

    /// What is missing between a read of threads and the copy that overwrites the bytes.
    fn missing_release(&self) -> (String, String) {
        let (missing, help) = match self.release {
            Some(Release::OfOtherLanes(_)) => (
                "the thread that overwrites the bytes has waited for an arrival of another lane, with which the reader has not \
                 synchronized after the read",
                "call `sync_warp` (`bar.warp.sync`, `__syncwarp`) between the reads and the arrival; if one thread arrives for several \
                 warps, a barrier of them",
            ),
            Some(Release::Early(_)) => (
                "the thread that issues the copy has waited for an arrival that precedes the read",
                "arrive after the last read of the buffer; or let the thread that issues the copy wait for the phase of a later \
                 arrival",
            ),
            _ if self.later.cta != self.earlier.cta => (
                "nothing orders the read before the copy that another CTA issues",
                "call `cluster_sync()` (`barrier.cluster`) in both CTAs between the read and the copy; or let the reader arrive at an \
                 mbarrier for which the issuer waits",
            ),
            _ => (
                "nothing orders the read before the copy",
                "synchronize the reader with the issuer of the copy, by a barrier or an mbarrier, between the read and the issue: \
                 let the issuer wait until its readers have released the buffer; if the read should see this copy's data, wait for \
                 the copy first",
            ),
        };
        (missing.to_owned(), help.to_owned())
    }

    /// Whether copies that two threads issue at one line write the same bytes.
    fn are_copies_of_one_line(&self, code: &Code) -> bool {
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
    fn is_of_one_phase(&self) -> bool {
        self.phases.is_some_and(|phases| phases.is_shared)
    }

    /// Whether both accesses are plain writes, by threads or by copies.
    fn both_write(&self) -> bool {
        self.later.kind == AccessKind::Write && self.earlier.kind == AccessKind::Write
    }

    /// Whether both accesses are of one instruction, or of instructions that a loop repeats.
    fn is_of_one_line(&self, code: &Code) -> bool {
        let source = |party: &Party| code.instruction(party.pc).source.as_ref();
        let (later, earlier) = (source(&self.later), source(&self.earlier));
        self.later.pc == self.earlier.pc || later.is_some() && later == earlier
    }

    /// Whether the line of the later access also loads from its space.
    fn is_of_loading_line(&self, code: &Code) -> bool {
        let line = |at: &Instruction| at.source.as_ref().map(|source| (source.file.clone(), source.line));
        let own = line(code.instruction(self.later.pc));
        let loads = |at: &&Instruction| matches!(at.class, Class::Load(_)) && at.text.contains(".global");
        own.is_some() && code.instructions.iter().filter(loads).any(|at| line(at) == own)
    }

    /// Whether threads update an element: each reads it and writes it, as `counts[i] += 1` does. They do
    /// so in one expression, or are lanes that all read it and then all write it, or write it at one
    /// line with others that do the same (`contended`).
    fn is_update(&self, code: &Code, contended: &BTreeSet<u32>) -> bool {
        let (later, earlier) = (&self.later, &self.earlier);
        let source = |party: &Party| code.instruction(party.pc).source.as_ref();
        let line = |party: &Party| source(party).map(|source| (&source.file, source.line));
        let is_plain = |party: &Party| matches!(party.role, Role::Warp(_)) && party.proxy.is_none();
        let kinds = [later.kind, earlier.kind];
        // More lanes than bytes have one address.
        let is_shared = |party: &Party| u64::from(party.lanes.count_ones()) > self.length;
        let is_of_lanes = (later.cta, later.warp, later.lanes) == (earlier.cta, earlier.warp, earlier.lanes);
        let is_of_line = line(later).is_some() && line(later) == line(earlier);
        self.kind == FindingKind::Race
            && is_plain(later)
            && is_plain(earlier)
            && kinds.contains(&AccessKind::Read)
            && kinds.contains(&AccessKind::Write)
            && (source(later).is_some() && source(later) == source(earlier)
                || is_of_lanes && is_shared(later)
                || is_of_line && (is_shared(later) || is_shared(earlier))
                || is_of_line && [later.pc, earlier.pc].iter().any(|pc| contended.contains(pc)))
    }

    /// The note for a copy whose mbarrier phase was not waited for.
    fn missing_phase(&self) -> (String, String) {
        let Some(phases) = self.phases else {
            return (
                "this thread has not waited for the phase of the mbarrier that the copy completes".to_owned(),
                "wait on the mbarrier with the parity of the phase that the copy was issued in".to_owned(),
            );
        };
        let Phases { mbarrier, copy, seen, passed, passed_since, .. } = phases;
        if phases.is_refilled_early() {
            let phase = passed.and_then(|passed| passed.phase).unwrap_or(0);
            return (
                format!(
                    "the copy fills the buffer again, for phase {copy} of the mbarrier at shared address {:#x}, while this thread \
                     still uses what phase {phase} brought",
                    mbarrier.offset
                ),
                "let the thread that issues the copy wait until its readers have released the buffer: at the mbarrier at which they \
                 arrive, for the phase of that use (`wait_parity`); and let each reader arrive there once, after its last read"
                    .to_owned(),
            );
        }
        let seen = match seen {
            None => "this thread has observed the end of none of its phases".to_owned(),
            Some(seen) => format!("the last phase whose end this thread has observed is phase {seen}"),
        };
        let at = format!("the mbarrier at shared address {:#x}", mbarrier.offset);
        let has_waited = passed.is_some_and(|passed| passed.mbarrier == mbarrier);
        let parity = copy % 2;
        (
            format!("the copy completes phase {copy} of {at}, and {seen}"),
            match has_waited {
                true if passed_since.is_some() => format!(
                    "access the buffer whose mbarrier the wait is for: one index for both; or wait for phase {copy} of the mbarrier of \
                     this one, which has the parity {parity}"
                ),
                true => {
                    format!("wait for phase {copy} of it, which has the parity {parity}, before this access")
                }
                false => format!(
                    "wait on the mbarrier before this access (`wait_parity`): for phase {copy}, which has the parity {parity}"
                ),
            },
        )
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

    /// How far it is from its cause.
    fn distance(&self, code: &Code) -> Rank {
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
    fn gap(&self, code: &Code) -> Option<Gap> {
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
