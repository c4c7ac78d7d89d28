//! What the emulator tells its checkers: who did what, in the words of the PTX memory model.

use crate::mbarrier::MbarrierAddress;

/// Lanes of one warp at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// The rank in its cluster of the CTA.
    pub(crate) rank: u32,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
}

/// Where bytes are. Addresses in shared memory are those of `.shared::cluster`, which hold the rank of the CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Site {
    Global,
    Shared,
    Local,
    /// Tensor memory: rows of cells one after another, and the rank of the CTA as in shared memory.
    Tensor,
}

/// What an access does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Touch {
    Read,
    /// Reads a tile of which parts may stay unused, so that not all of them need be initialised.
    ReadTile,
    Write,
    /// Makes or unmakes an mbarrier: a write of bytes that are no data.
    Object,
    /// Reads and writes as one.
    Atomic,
}

impl Touch {
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Touch::Read | Touch::ReadTile)
    }
}

/// The threads that an ordered access or a fence is ordered for (PTX ISA, "Scope").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scope {
    #[default]
    Cta,
    Cluster,
    Gpu,
    System,
}

/// How an access takes part in synchronisation (PTX ISA, "Operation types").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Strength {
    #[default]
    Weak,
    /// `.relaxed`, `.acquire`, `.release`, `.acq_rel`, `.volatile`.
    Strong { scope: Scope, acquire: bool, release: bool },
}

/// A fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// `fence.{sc, acq_rel, acquire, release}` and `membar`.
    Memory(Scope, FenceOrder),
    /// `fence.proxy.async`: between the generic and the asynchronous proxy.
    AsyncProxy,
    /// `fence.proxy.tensormap`: between the generic proxy and the one that reads tensor maps.
    TensormapProxy,
    /// `griddepcontrol.wait`: the launch in front has ended.
    LaunchInFront,
    /// `tcgen05.fence::after_thread_sync`: of what is known, what is done in tensor memory comes before what follows there.
    TensorMemory,
    /// `fence.proxy.alias`, and fences for what the checkers do not tell apart.
    Other,
}

/// Whether fences are ordered among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceOrder {
    /// Only with what a thread writes after, and another has read before it.
    Acquire,
    /// `fence.sc` and `membar`: all such fences are in one order, too.
    Sequential,
}

/// The proxy that asynchronous work accesses memory through (PTX ISA, "Proxies").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Proxy {
    /// `cp.async`
    Generic,
    /// `cp.async.bulk` and its kin, `wgmma`, `st.async`.
    Async,
    /// Reading the tensor map of a copy.
    Tensormap,
    /// `tcgen05`, of tensor memory.
    TensorMemory,
}

/// The kinds of asynchronous work that a program commits, to groups or to an mbarrier, and waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GroupKind {
    /// `cp.async.commit_group`, a thread's own.
    Copy,
    /// `cp.async.bulk.commit_group`, a thread's own.
    Bulk,
    /// `wgmma.commit_group`, a warp's.
    Multiply,
    /// `tcgen05.mma` and `tcgen05.cp`, a thread's own, which `tcgen05.commit` tells an mbarrier of.
    TensorCore,
    /// `tcgen05.ld`, a warp's.
    TensorLoad,
    /// `tcgen05.st`, a warp's.
    TensorStore,
}

impl GroupKind {
    pub(crate) const ALL: [GroupKind; 6] = [
        GroupKind::Copy,
        GroupKind::Bulk,
        GroupKind::Multiply,
        GroupKind::TensorCore,
        GroupKind::TensorLoad,
        GroupKind::TensorStore,
    ];

    /// Whether all lanes of a warp do it, and wait for it, together.
    pub(crate) fn is_of_warp(self) -> bool {
        matches!(self, GroupKind::Multiply | GroupKind::TensorLoad | GroupKind::TensorStore)
    }
}

/// How the program can learn that a piece of asynchronous work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Completion {
    /// By waiting for the group it is committed to.
    Group(GroupKind),
    /// By waiting for the phase of an mbarrier, to whose count of bytes its completion adds.
    Mbarrier(MbarrierAddress),
}

/// A range of bytes that asynchronous work touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) site: Site,
    pub(crate) first: u64,
    pub(crate) bytes: u64,
    pub(crate) touch: Touch,
}

/// What waiting for a group promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// All that the groups do.
    Everything,
    /// Only that they have read their sources (`.read`).
    Sources,
}
