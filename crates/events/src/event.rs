//! Events, in the terms of the PTX memory model.
//!
//! | an instruction that | reports |
//! |---|---|
//! | loads, stores, or updates memory in the generic proxy | [`Event::Access`]; strong ones [`Event::Release`] before and [`Event::Acquire`] after |
//! | issues asynchronous work | [`Event::AsyncIssue`], once, with every range of bytes that it will access |
//! | commits a group, waits for groups | [`Event::AsyncCommit`], [`Event::AsyncWait`] |
//! | operates on an mbarrier | `Event::Mbarrier..` |
//! | arrives at or leaves a barrier of the CTA or of the cluster | `Event::Barrier..`, `Event::Cluster..` |
//! | fences | [`Event::Fence`] |
//!
//! Asynchronous work is reported when it is issued, whatever the schedule: it may access its bytes
//! at any moment until the program has observed its completion.

use crate::address::MbarrierAddress;
use crate::initialized::GRANULE;
use crate::lanes::LANES;
use crate::work::Unit;

/// Barriers of a CTA (PTX ISA, "bar").
pub const BARRIERS: usize = warpwright_arch::limits::NAMED_BARRIERS as usize;

/// Maximum number of bytes that a lane stores at a time.
pub const VALUE_BYTES: usize = GRANULE as usize;

/// The value that a lane stores.
pub type Value = [u8; VALUE_BYTES];

/// Lanes of one warp at one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// The rank in its cluster of the CTA.
    pub rank: u32,
    /// The warp in its CTA.
    pub warp: u32,
    /// The lanes, as a mask.
    pub lanes: u32,
    /// The operation (see [`Code`](crate::Code)).
    pub pc: u32,
}

/// The memory of an address. Addresses in shared memory are those of `.shared::cluster`, which hold
/// the rank of the CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySpace {
    /// Global memory.
    Global,
    /// Shared memory.
    Shared,
    /// Local memory.
    Local,
    /// Tensor memory: rows of cells one after another, and the rank of the CTA as in shared memory.
    Tensor,
}

/// The kind of an access to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Reads a tile. Parts of it may stay unused and need not be initialized.
    ReadTile,
    /// Writes.
    Write,
    /// Initializes or invalidates an mbarrier: a write of bytes that are not data.
    Object,
    /// Reads and writes atomically.
    Atomic,
}

impl AccessKind {
    /// Whether it changes the bytes.
    pub fn writes(self) -> bool {
        !matches!(self, AccessKind::Read | AccessKind::ReadTile)
    }
}

/// The scope of an ordered access or a fence (PTX ISA, "Scope").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Threads of the CTA.
    #[default]
    Cta,
    /// Threads of the cluster.
    Cluster,
    /// Threads of the GPU.
    Gpu,
    /// All threads.
    System,
}

/// The part of an access in synchronization (PTX ISA, "Operation types").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strength {
    /// It does not.
    #[default]
    Weak,
    /// `.relaxed`, `.acquire`, `.release`, `.acq_rel`, `.volatile`.
    Strong {
        /// The threads it is ordered for.
        scope: Scope,
        /// Whether later accesses are ordered after it.
        acquire: bool,
        /// Whether earlier accesses are ordered before it.
        release: bool,
    },
}

/// A fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// `fence.{sc, acq_rel, acquire, release}` and `membar`.
    Memory(Scope, FenceOrder),
    /// `fence.proxy.async`: between the generic and the asynchronous proxy.
    AsyncProxy,
    /// `fence.proxy.tensormap`: between the generic proxy and the one that reads tensor maps.
    TensormapProxy,
    /// `griddepcontrol.wait`: the previous launch of the stream has ended.
    PreviousLaunch,
    /// `griddepcontrol.launch_dependents`: for this CTA, the next launch of the stream may begin.
    NextLaunch,
    /// `tcgen05.fence::after_thread_sync`: known tensor-memory operations are ordered before those
    /// that follow.
    TensorMemory,
    /// `fence.proxy.alias`, and fences that the checkers do not distinguish.
    Other,
}

/// Whether fences are ordered among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceOrder {
    /// Only together with a later write of this thread, or an earlier read.
    Acquire,
    /// `fence.sc` and `membar`: all such fences are also in one total order.
    Sequential,
}

/// The proxy that asynchronous work accesses memory through (PTX ISA, "Proxies").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proxy {
    /// `cp.async`
    Generic,
    /// `cp.async.bulk` and its kin, `wgmma`, `st.async`.
    Async,
    /// Reading the tensor map of a copy.
    Tensormap,
    /// `tcgen05`, of tensor memory.
    TensorMemory,
}

/// The kinds of asynchronous work that a program commits, to groups or to an mbarrier, and waits
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AsyncKind {
    /// `cp.async.commit_group`, a thread's own.
    Copy,
    /// `cp.async.bulk.commit_group`, a thread's own.
    Bulk,
    /// `wgmma.commit_group`, a warp's.
    Multiply,
    /// `tcgen05.mma` and `tcgen05.cp` of a thread, which `tcgen05.commit` reports to an mbarrier.
    TensorCore,
    /// `tcgen05.ld`, a warp's.
    TensorLoad,
    /// `tcgen05.st`, a warp's.
    TensorStore,
}

impl AsyncKind {
    /// All of them.
    pub const ALL: [AsyncKind; 6] = [
        AsyncKind::Copy,
        AsyncKind::Bulk,
        AsyncKind::Multiply,
        AsyncKind::TensorCore,
        AsyncKind::TensorLoad,
        AsyncKind::TensorStore,
    ];

    /// Whether all lanes of a warp do it, and wait for it, together.
    pub fn is_of_warp(self) -> bool {
        matches!(self, AsyncKind::Multiply | AsyncKind::TensorLoad | AsyncKind::TensorStore)
    }
}

/// How the program can observe that asynchronous work is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// By waiting for the group it is committed to.
    Group(AsyncKind),
    /// By waiting for the phase of an mbarrier, whose byte count its completion updates.
    Mbarrier(MbarrierAddress),
}

/// What an instruction reads as a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileOperand {
    /// A of an MMA.
    A,
    /// B of an MMA.
    B,
    /// The accumulator that an MMA adds to.
    Accumulator,
    /// The scales of A and B in tensor memory.
    Scales,
    /// The metadata of a sparse A in tensor memory.
    Metadata,
    /// The cells that `tcgen05.ld` loads.
    Cells,
    /// The shared memory that `tcgen05.cp` copies.
    Source,
}

/// The first element of a range of bytes in a tile. The parts of a row are reported one after
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePart {
    /// The tile.
    pub operand: TileOperand,
    /// The row; of B the column.
    pub row: u32,
    /// The position in the row; of B in the column.
    pub position: u32,
    /// Rows that the bytes belong to, one element each; 1 if they are elements of one row.
    pub rows: u32,
}

/// A range of bytes that asynchronous work accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The space they are in.
    pub space: MemorySpace,
    /// The first address.
    pub first: u64,
    /// Its length.
    pub bytes: u64,
    /// The kind of access.
    pub kind: AccessKind,
    /// The part of a tile that it is, if it is read as one.
    pub part: Option<TilePart>,
}

/// What a wait for a group guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// All of the groups' work.
    Everything,
    /// Only the reads of their sources (`.read`).
    Sources,
}

/// An instruction's use of a register of up to 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterUse {
    /// The register's number in the frame of its function.
    pub slot: u32,
    /// Whether it writes the register.
    pub writes: bool,
}

/// An event in a cluster. Events of one warp are reported in the order of its execution.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // Each event's text says what its fields are.
pub enum Event<'a> {
    /// The lanes of the actor have executed the operations from `actor.pc` up to `end` in sequence.
    /// The events of these operations are reported before.
    Executed { actor: Actor, end: u32 },
    /// Lanes reached an operation and did not execute it, because of its predicate.
    PredicatedOff { actor: Actor },
    /// Lanes of a warp diverged at a branch.
    Diverged { actor: Actor },

    /// Lanes access `bytes` bytes each, in the generic proxy. `values` are those that a store
    /// writes, if known.
    Access {
        actor: Actor,
        space: MemorySpace,
        addresses: &'a [u64; LANES],
        bytes: u64,
        kind: AccessKind,
        strength: Strength,
        values: Option<&'a [Value; LANES]>,
    },
    /// Lanes load from local memory; the lanes of `unwritten` have not written these bytes.
    LocalLoad { actor: Actor, unwritten: u32, addresses: &'a [u64; LANES], bytes: u64 },
    /// `cp.async` of lanes, from global to shared memory; the lanes of `reading` read their
    /// sources, the others fill with zeros. Each lane's copy is an
    /// [`AsyncIssue`](Event::AsyncIssue) besides.
    LaneCopies {
        actor: Actor,
        sources: &'a [u64; LANES],
        targets: &'a [u64; LANES],
        bytes: u64,
        reading: u32,
    },
    /// Before a strong store or an atomic operation, which publishes what it releases.
    Release {
        actor: Actor,
        space: MemorySpace,
        addresses: &'a [u64; LANES],
        kind: AccessKind,
        strength: Strength,
    },
    /// After a strong load or an atomic operation: what it acquires has happened before.
    Acquire {
        actor: Actor,
        space: MemorySpace,
        addresses: &'a [u64; LANES],
        kind: AccessKind,
        strength: Strength,
    },
    /// Lanes execute a fence.
    Fence { actor: Actor, fence: Fence },

    /// All lanes of the actor synchronize (`bar.warp.sync`), each at its own instruction.
    WarpSync { actor: Actor },
    /// Lanes reach an exchange (`shfl`, `vote`, `match`, `redux`, `elect`, `bar.warp.sync`) and wait
    /// there for the other lanes of their member mask. Those of `otherwise` are named by the mask and
    /// execute the same instruction with the mask `other`.
    ExchangeWait { actor: Actor, members: u32, otherwise: u32, other: u32 },
    /// Lanes execute an exchange together, those of each arrival at an instruction of its own: if
    /// they are in different calls of a function, at the call. Reported if there are several
    /// arrivals, and of an exchange that only `synchronizes` (`bar.warp.sync`) in any case.
    Exchange { arrivals: &'a [Actor], synchronizes: bool },
    /// Lanes arrive at a barrier of the CTA, in this generation; whether it waits for `all` threads
    /// of the CTA.
    BarrierArrive { actor: Actor, barrier: u32, generation: u32, all: bool },
    /// Lanes reach a barrier of the CTA at which they have arrived, before it has completed.
    BarrierRearrive { actor: Actor, barrier: u32 },
    /// Lanes proceed from a barrier, because this generation has completed.
    BarrierLeave { actor: Actor, barrier: u32, generation: u32 },
    /// Lanes arrive at the cluster barrier; `releases` unless it is `.relaxed`.
    ClusterArrive { actor: Actor, releases: bool },
    /// All threads of the cluster have arrived at its barrier.
    ClusterComplete,
    /// Lanes continue from `barrier.cluster.wait`.
    ClusterLeave { actor: Actor },
    /// Lanes execute a shuffle, each with the value of the lane `from`. That of the lanes of
    /// `undefined` does not take part: it has exited, or is not in the member mask. Reported if there
    /// are such lanes, and while an observer [`follows`](crate::ClusterObserver::follows) registers.
    Shuffle { actor: Actor, from: &'a [u8; LANES], undefined: u32 },
    /// Lanes execute a selection, a comparison that is combined with a predicate, or logic of predicates
    /// ([`Class`](crate::Class)): the lanes in which the selecting predicate, the combined one, or each of the
    /// two sources holds. Reported while an observer [`follows`](crate::ClusterObserver::follows) registers.
    Predicates { actor: Actor, values: [u32; 2] },
    /// A call passes bytes of local memory between the frames of the caller and of the function.
    /// Reported while an observer [`follows`](crate::ClusterObserver::follows) registers.
    FrameCopy { actor: Actor, from: u64, to: u64, bytes: u64 },
    /// Lanes execute an `.aligned` instruction other than a barrier without the rest of their
    /// warp, which has exited, does not exist, or is predicated off.
    Incomplete { actor: Actor },
    /// Lanes exit.
    Exit { actor: Actor },

    /// A lane initializes an mbarrier for `count` arrivals a phase.
    MbarrierInit { actor: Actor, mbarrier: MbarrierAddress, count: u32 },
    /// A lane invalidates an mbarrier.
    MbarrierInvalidate { actor: Actor, mbarrier: MbarrierAddress },
    /// A lane arrives at an mbarrier, or adds expected bytes; it releases at a scope unless it is
    /// `.relaxed`. The lanes of `together` execute the instruction, each with an event of its own.
    MbarrierArrive { actor: Actor, mbarrier: MbarrierAddress, release: Option<Scope>, together: u32 },
    /// A lane has issued a store that completes at an mbarrier of the cluster, which is a release.
    MbarrierRelease { actor: Actor, mbarrier: MbarrierAddress },
    /// `cp.async.mbarrier.arrive` and `tcgen05.commit`: the mbarrier tracks the asynchronous work
    /// that a lane has issued so far.
    MbarrierTrack { actor: Actor, mbarrier: MbarrierAddress, kind: AsyncKind },
    /// A lane's delayed arrival is performed, after its copies.
    MbarrierTrackedArrive { warp: u32, lane: u32, mbarrier: MbarrierAddress },
    /// A lane adds expected bytes to an mbarrier (`expect_tx`).
    MbarrierExpect { actor: Actor, mbarrier: MbarrierAddress, bytes: u32 },
    /// Bytes arrive at an mbarrier (`complete_tx`); reported before the phase ends because of them.
    MbarrierBytes { mbarrier: MbarrierAddress, bytes: u32 },
    /// A copy that completes at an mbarrier has moved its bytes, which arrive next.
    MbarrierCopyComplete { mbarrier: MbarrierAddress },
    /// A phase of an mbarrier ends: after the last arrival, or the last bytes.
    MbarrierPhaseEnd { mbarrier: MbarrierAddress },
    /// A lane tests whether a phase of an mbarrier has `ended` (`test_wait`, `try_wait`); if so,
    /// the lane `acquires` unless it is `.relaxed`.
    MbarrierTest { actor: Actor, mbarrier: MbarrierAddress, ended: bool, acquires: bool },

    /// The single lane of the actor issues asynchronous work that accesses these ranges (for
    /// `wgmma`, the whole warp does).
    AsyncIssue { actor: Actor, proxy: Proxy, completion: Completion, ranges: &'a [ByteRange] },
    /// Lanes commit the work that they have issued to a group.
    AsyncCommit { actor: Actor, kind: AsyncKind },
    /// Lanes have waited until at most `latest` of the groups that they committed are in flight;
    /// `None` for all work, committed or not (`cp.async.wait_all`).
    AsyncWait { actor: Actor, kind: AsyncKind, latest: Option<u32>, awaited: Awaited },

    /// A warp executes `wgmma.fence`.
    RegisterFence { actor: Actor },
    /// A warp waits for all its `wgmma`, as ptxas makes it do before accumulators are moved.
    RegistersSettled { actor: Actor },
    /// A warp issues a `wgmma` that uses these columns of its registers as accumulators and as A,
    /// and `reads` the values of some; `shape` is the columns and the depth of its tile. `reads` is
    /// empty in a device function, where calls write registers without an event.
    Wgmma {
        actor: Actor,
        accumulators: &'a [u32],
        fragments: &'a [u32],
        reads: &'a [u32],
        shape: (usize, usize),
    },
    /// A warp executes an ordinary instruction on registers that asynchronous work also uses. Their
    /// columns count from `base`.
    RegistersUsed { actor: Actor, base: u32, uses: &'a [RegisterUse] },

    /// A warp allocates columns of its CTA's tensor memory.
    TensorAllocate { actor: Actor, first: u32, columns: u32 },
    /// A warp frees columns of its CTA's tensor memory.
    TensorFree { actor: Actor, first: u32, columns: u32 },
    /// A lane issues a `tcgen05.mma` of this many arithmetic operations in all its CTAs, each of which reads these bytes
    /// of its shared memory. Its shape and types are in its instruction descriptor, a register.
    TensorMultiply { actor: Actor, unit: Unit, operations: u64, shared_bytes: u32 },
    /// A warp issues a load of tensor memory into these columns of its registers.
    TensorLoad { actor: Actor, columns: &'a [u32] },

    /// A warp ends a turn of a launch that an observer schedules.
    TurnEnd { rank: u32, warp: u32 },

    /// All CTAs of the cluster have ended.
    End,
}
