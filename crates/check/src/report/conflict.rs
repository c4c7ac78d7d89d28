//! From conflicts to findings: what is told of them, and in which words.

use warpwright_events::{
    AccessKind, AsyncKind, Awaited, Cell, Class, Code, Completion, LaunchInfo, MemorySpace, Proxy, Scope,
    Strength, split_shared,
};

use crate::report::finding::{Finding, FindingKind};
use crate::state::agents::Role;
use crate::state::mark::{cta_name, who};
use crate::state::shadow::Access;

/// `a read`, `an atomic operation`
pub(crate) fn with_article(what: &str) -> String {
    let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {what}")
}

/// `a byte`, `16 bytes`
pub(crate) fn byte_count(bytes: u64) -> String {
    if bytes == 1 { "a byte".to_owned() } else { format!("{bytes} bytes") }
}

/// One side of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    /// The linear index of its CTA.
    pub(crate) cta: u32,
    pub(crate) role: Role,
    /// The warp, where it is known.
    pub(crate) warp: Option<u32>,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
    pub(crate) touch: AccessKind,
    pub(crate) strength: Strength,
    pub(crate) proxy: Option<Proxy>,
}

impl Party {
    /// Who made an access of these bytes of a granule.
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
            touch: access.touch,
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
        match (self.proxy, self.touch) {
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

/// Two accesses that are at odds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) kind: FindingKind,
    pub(crate) space: MemorySpace,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) later: Party,
    pub(crate) earlier: Party,
    /// Of asynchronous work: whether its issuer has waited for it.
    pub(crate) issuer_waited: bool,
    /// Of a copy that an mbarrier tells of: the phase that it completes, and the last one whose end the accessor has seen.
    pub(crate) phases: Option<(u32, Option<u32>)>,
}

impl Conflict {
    /// Findings of the same key are told once.
    pub(crate) fn key(&self) -> (FindingKind, u32, u32) {
        (self.kind, self.later.pc, self.earlier.pc)
    }

    /// What of several findings of one key is told: the first in the grid.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        let of = |party: &Party| (party.cta, party.warp, party.lanes);
        (of(&self.later), of(&self.earlier), self.address)
    }

    fn place(&self) -> String {
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
        let place = self.place();
        let (a_later, an_earlier) = (with_article(later), with_article(earlier));
        if self.frees() {
            return format!(
                "columns of tensor memory are given back while {an_earlier} of them is under way"
            );
        }
        match self.kind {
            FindingKind::Race | FindingKind::Overlap | FindingKind::Barrier | FindingKind::Fault(_)
                if earlier == later =>
            {
                format!("nothing orders two {later}s of {bytes} at {place}")
            }
            FindingKind::Race | FindingKind::Overlap | FindingKind::Barrier | FindingKind::Fault(_) => {
                format!("nothing orders {an_earlier} and {a_later} of {bytes} at {place}")
            }
            FindingKind::Uninitialised => {
                format!("{a_later} of {bytes} at {place}, which nothing has written")
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
            FindingKind::InFlight => {
                format!("{a_later} of {bytes} at {place} while {an_earlier} is under way")
            }
            FindingKind::TensorFence => {
                format!("{a_later} of {bytes} at {place} may come before {an_earlier}")
            }
            FindingKind::ProxyFence => {
                format!("{a_later} of {bytes} at {place} may miss {an_earlier} through the generic proxy")
            }
        }
    }

    /// Whether the later one gives columns of tensor memory back.
    fn frees(&self) -> bool {
        self.space == MemorySpace::Tensor && self.later.touch == AccessKind::Object
    }

    /// The edge whose lack is the fault, and what to do.
    fn missing(&self) -> (String, String) {
        let (later, earlier) = (&self.later, &self.earlier);
        if self.kind == FindingKind::Uninitialised {
            let whose = match self.space {
                MemorySpace::Shared => {
                    "shared memory holds whatever was left there: it is not zeroed for a CTA"
                }
                MemorySpace::Local => {
                    "a thread's local memory (arrays that are indexed by device values, and what does not fit its registers) holds whatever was left there"
                }
                MemorySpace::Global => "fresh memory holds anything: on the emulator 0xff in every byte",
                MemorySpace::Tensor => {
                    return (
                        "columns hold whatever was left there: they are not zeroed when they are allocated".to_owned(),
                        "let the first tcgen05.mma not add to what is there (enable-input-d false), or write it with `tcgen05.st` or `tcgen05.cp`".to_owned(),
                    );
                }
            };
            return (whose.to_owned(), "write it before it is read".to_owned());
        }
        if let (FindingKind::Leak, Role::Group(_, kind, _)) = (self.kind, earlier.role) {
            let wait = match kind {
                AsyncKind::Copy => "wait with `cp.async.wait_all`",
                AsyncKind::Bulk => "wait with `cp.async.bulk.wait_group.read 0`",
                AsyncKind::Multiply => "wait with `wgmma.wait_group.sync.aligned 0`",
                AsyncKind::TensorCore => {
                    "commit it with `tcgen05.commit`, and wait on the mbarrier that is told,"
                }
                AsyncKind::TensorLoad => "wait with `tcgen05.wait::ld.sync.aligned`",
                AsyncKind::TensorStore => "wait with `tcgen05.wait::st.sync.aligned`",
            };
            return (
                "no wait covers it: what it reads and writes may belong to another CTA by then".to_owned(),
                format!("{wait} before the threads exit"),
            );
        }
        if self.kind == FindingKind::ProxyFence && later.proxy == Some(Proxy::Tensormap) {
            return (
                "there is no fence.proxy.tensormap between the two: the copy may use the tensor map as it was before".to_owned(),
                "execute `fence.proxy.tensormap::generic.acquire` on the 128 bytes in the thread that issues the copy".to_owned(),
            );
        }
        if self.kind == FindingKind::TensorFence {
            return (
                "the threads have met, and there is no tcgen05.fence::after_thread_sync behind that: what tcgen05 does is asynchronous, and may begin before it".to_owned(),
                "execute `tcgen05.fence::after_thread_sync` after the wait or the barrier, before this instruction (and `tcgen05.fence::before_thread_sync` before the arrival, if that is not a tcgen05.commit)".to_owned(),
            );
        }
        if self.kind == FindingKind::ProxyFence {
            return (
                "there is no fence.proxy.async between the two".to_owned(),
                "execute `fence.proxy.async` after the write, in the threads that wrote, and before the barrier that lets the copy begin".to_owned(),
            );
        }
        let reaches =
            |party: &Party| matches!(party.strength, Strength::Strong { scope, .. } if scope >= Scope::Gpu);
        match earlier.role {
            Role::Group(_, AsyncKind::TensorCore, _) | Role::Issuer(_) => (
                "the tensor core works on its own: no tcgen05.commit has told an mbarrier of this that the thread has waited for".to_owned(),
                "let the issuing thread `tcgen05.commit` to an mbarrier after it, and wait on that mbarrier before the bytes are touched".to_owned(),
            ),
            Role::Group(_, kind, awaited) => {
                let (wait, unit) = match (kind, awaited) {
                    (AsyncKind::Copy, _) => ("cp.async.wait_group", "copy"),
                    (AsyncKind::Bulk, Awaited::Sources) => ("cp.async.bulk.wait_group.read", "bulk copy"),
                    (AsyncKind::Bulk, Awaited::Everything) => ("cp.async.bulk.wait_group", "bulk copy"),
                    (AsyncKind::TensorLoad, _) => ("tcgen05.wait::ld", "load"),
                    (AsyncKind::TensorStore, _) => ("tcgen05.wait::st", "store"),
                    (AsyncKind::Multiply | AsyncKind::TensorCore, _) => ("wgmma.wait_group", "wgmma"),
                };
                let same_thread =
                    (later.cta, later.warp, later.lanes) == (earlier.cta, earlier.warp, earlier.lanes);
                if self.issuer_waited {
                    return (
                        format!("the thread that issued the {unit} has waited for it, and nothing has told this one"),
                        "put a barrier after the wait, before other threads touch the bytes".to_owned(),
                    );
                }
                let whom = if same_thread { "this thread" } else { "the thread that issued it" };
                (
                    format!("no {wait} by {whom} covers the {unit} before this access"),
                    if matches!(kind, AsyncKind::TensorLoad | AsyncKind::TensorStore) && same_thread {
                        format!("execute `{wait}.sync.aligned` between the two")
                    } else if same_thread {
                        format!("wait with `{wait}` for the group that the {unit} is in")
                    } else {
                        format!("let the issuing thread wait with `{wait}`, and then meet at a barrier")
                    },
                )
            }
            Role::Mbarrier(_) => self.missing_phase(),
            Role::Warp(_) if later.proxy.is_some() && later.touch.writes() && !earlier.touch.writes() => (
                "nothing says that the read is over when the copy begins".to_owned(),
                "let who reads tell who copies, by a barrier or an mbarrier, after the read and before the copy is issued; if the read was to see what this copy brings, let it wait for the copy".to_owned(),
            ),
            Role::Warp(_) if self.space == MemorySpace::Global && reaches(later) && reaches(earlier) => (
                "this thread has seen something that was written after this write, with no fence between the two: it may still find here what was there before".to_owned(),
                "execute `fence.acq_rel.gpu` (`__threadfence`) after the write, before what tells other threads of it; or tell them with a release".to_owned(),
            ),
            Role::Warp(_) if later.cta != earlier.cta && self.space == MemorySpace::Global => {
                let strong = |party: &Party| party.strength != Strength::Weak;
                if strong(later) && strong(earlier) {
                    (
                        "the scope of the two does not reach from one CTA to the other".to_owned(),
                        "use .gpu scope between CTAs of a grid, .cluster within a cluster".to_owned(),
                    )
                } else {
                    (
                        "nothing orders the two CTAs: no release by the first that the second acquires, at .gpu scope".to_owned(),
                        "publish with a release at .gpu scope (or `fence.acq_rel.gpu` and a relaxed store) and read with an acquire; the thread that publishes for others meets them at a barrier before its release. Or use atomics".to_owned(),
                    )
                }
            }
            Role::Warp(_) if later.cta != earlier.cta => (
                "there is no barrier.cluster, nor an mbarrier, between the two CTAs".to_owned(),
                "let both CTAs arrive at and wait for the cluster's barrier between the two".to_owned(),
            ),
            Role::Warp(_) if later.pc == earlier.pc && later.touch == AccessKind::Write => (
                "the instruction is the same, and the threads write different values".to_owned(),
                "let one thread write, or each to a place of its own".to_owned(),
            ),
            Role::Warp(_) if later.warp == earlier.warp => (
                "there is no bar.warp.sync between the two lanes".to_owned(),
                "put a barrier of the warp (`__syncwarp`, `bar.warp.sync`) between the two; shuffles and votes do not order memory".to_owned(),
            ),
            Role::Warp(_) => (
                "there is no barrier between the two warps".to_owned(),
                "put a barrier of the CTA (`__syncthreads`, `bar.sync`) between the two".to_owned(),
            ),
        }
    }

    /// That the phase which a copy completes was not waited for.
    fn missing_phase(&self) -> (String, String) {
        let Some((phase, seen)) = self.phases else {
            return (
                "this thread has not waited for the phase of the mbarrier that the copy completes".to_owned(),
                "wait on the mbarrier with the parity of the phase that the copy was issued in".to_owned(),
            );
        };
        let seen = match seen {
            None => "this thread has seen the end of none of its phases".to_owned(),
            Some(seen) => format!("the last phase whose end this thread has seen is phase {seen}"),
        };
        (
            format!("the copy completes phase {phase} of its mbarrier, and {seen}"),
            format!("wait on the mbarrier for phase {phase}, which has the parity {}", phase % 2),
        )
    }

    /// The address it is about; a leak is of none.
    pub(crate) fn at(&self) -> Option<(MemorySpace, u64)> {
        (self.length > 0).then_some((self.space, self.address))
    }

    /// The finding, as it is told.
    pub(crate) fn finding(&self, launch: &LaunchInfo, code: &Code, count: u64) -> Finding {
        let (mut missing, mut help) = self.missing();
        let mut message = self.message();
        let initialises = |party: &Party| code.instruction(party.pc).class == Class::MbarrierInit;
        if self.kind == FindingKind::Race && (initialises(&self.earlier) || initialises(&self.later)) {
            message =
                format!("nothing orders the initialisation of the mbarrier at {} and its use", self.place());
            missing.push_str(": this thread may come before the mbarrier is there");
            help = "initialise it in one thread, then meet at a barrier (in a cluster: `fence.mbarrier_init`, then `barrier.cluster`) before any other thread uses it".to_owned();
        }
        let of_mbarrier = |party: &Party| {
            let done = if initialises(party) { "initialised" } else { "used" };
            format!("{done} by {}", party.who(launch))
        };
        let is_initialisation = initialises(&self.earlier) || initialises(&self.later);
        let text = |party: &Party| match is_initialisation && self.kind == FindingKind::Race {
            true => of_mbarrier(party),
            false if self.kind == FindingKind::Leak => format!("issued by {}", party.who(launch)),
            false if self.frees() && *party == self.later => {
                format!("given back by {}", party.who(launch))
            }
            false => format!("{} by {}", party.what(), party.who(launch)),
        };
        let mut labels = vec![code.label(self.later.pc, text(&self.later))];
        if self.earlier != self.later {
            let before = format!("{}, before it in this run", text(&self.earlier));
            labels.push(code.label(self.earlier.pc, before));
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
        }
    }
}
