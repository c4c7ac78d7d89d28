//! What is missing between two accesses of a conflict, and how to add it.

use std::collections::BTreeSet;

use warpwright_events::{
    AccessKind, AsyncKind, Awaited, Class, Code, Instruction, MemorySpace, Proxy, Scope, Strength,
    TileOperand,
};

use crate::report::conflict::{Conflict, Party, Phases, Refilled, Release};
use crate::report::finding::FindingKind;
use crate::report::group::Group;
use crate::state::agents::Role;
use crate::state::work::Progress;

/// How to keep a buffer until the wgmma that reads it are complete.
const RELEASE_AFTER_WAIT: &str = "release the buffer after `wait_multiplications` (`wgmma.wait_group`) covers the wgmma: by an arrival at an mbarrier, or by a barrier; and let the thread that issues the copy wait for that release before it fills the buffer again";

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

impl Conflict {
    /// The missing ordering, and how to add it.
    pub(super) fn missing(&self, code: &Code, contended: &BTreeSet<u32>, extent: u32) -> (String, String) {
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
        let is_copy = self.later.proxy == Some(Proxy::Async) && self.later.kind == AccessKind::Write;
        match self.earlier.role {
            Role::Group(_, AsyncKind::TensorCore, _) | Role::Issuer(_) if is_copy => (
                "the tensor core is asynchronous: this thread has waited for no mbarrier to which a tcgen05.commit reports this work".to_owned(),
                "before a copy fills a buffer again, wait on the mbarrier to which the MMAs that read it are committed \
                 (`commit_tensor_core`, `tcgen05.commit`), for the phase of that commit"
                    .to_owned(),
            ),
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
        if kind == AsyncKind::TensorLoad && !same_thread && later.proxy.is_some() && !self.frees() {
            return (
                "this thread has waited for no arrival of the loading warp after its tcgen05.wait::ld".to_owned(),
                "wait until the threads that load the accumulator have released it: at an mbarrier at which they arrive after \
                 `wait_tensor_loads()` (`tcgen05.wait::ld`); or let this access use other columns"
                    .to_owned(),
            );
        }
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

    /// Whether the line of the later access also loads from its space.
    pub(super) fn is_of_loading_line(&self, code: &Code) -> bool {
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
}
