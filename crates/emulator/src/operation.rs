//! A decoded instruction, ready to execute.

use std::fmt;

use warpwright_events::Actor;

use crate::barrier::BarrierOperation;
use crate::call::Call;
use crate::cluster::{Blocks, Peers};
use crate::collective::Collective;
use crate::cta::Block;
use crate::instructions::WarpgroupOperation;
use crate::lanes::{LaneOperation, Width, width};
use crate::launch::LaunchContext;
use crate::memory::{LocalMemory, RegionCache, Trouble};
use crate::path::Watched;
use crate::registers::{Registers, Slot};

/// One decoded instruction.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) guard: Guard,
}

/// The predicate that guards an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    slot: Slot,
    negated: bool,
}

impl Guard {
    /// No guard.
    pub(crate) const NONE: Guard = Guard { slot: Slot::MAX, negated: false };

    pub(crate) fn new(slot: Slot, negated: bool) -> Self {
        Self { slot, negated }
    }

    /// The lanes of `mask` that it lets through.
    #[inline(always)]
    pub(crate) fn apply(self, registers: &Registers, mask: u32) -> u32 {
        if self.slot == Slot::MAX {
            return mask;
        }
        let bits = registers.predicate(self.slot);
        mask & if self.negated { !bits } else { bits }
    }
}

/// What an operation does, by how it moves the lanes that execute it.
pub(crate) enum Kind {
    /// Registers to registers, each lane by itself.
    Lanes(Box<dyn LaneOperation>),
    /// Something that reaches beyond the registers, each lane by itself.
    Effect(Box<dyn Effect>),
    /// Something that all live lanes of the warp do together.
    Aligned(Box<dyn Effect>),
    /// What a warp does with the others of its warpgroup.
    Warpgroup(Box<WarpgroupOperation>),
    /// An exchange between the lanes of a member mask.
    Collective(Box<Collective>),
    /// A barrier of the CTA.
    Barrier(Box<BarrierOperation>),
    /// The wait for the barrier of the cluster.
    ClusterWait,
    /// Something that all live lanes of the warp do together once it is possible.
    Attempt(Box<dyn Attempt>),
    /// A branch.
    Branch { target: u32 },
    /// A branch by table.
    BranchTable { index: Slot, targets: Box<[u32]> },
    /// A call, direct or not.
    Call(Box<Call>),
    /// Back to the caller; of a kernel, the end.
    Return,
    /// The end of the thread.
    Exit,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Lanes(_) => f.write_str("Lanes"),
            Kind::Effect(_) => f.write_str("Effect"),
            Kind::Aligned(_) => f.write_str("Aligned"),
            Kind::Warpgroup(_) => f.write_str("Warpgroup"),
            Kind::Collective(collective) => collective.fmt(f),
            Kind::Barrier(barrier) => barrier.fmt(f),
            Kind::Attempt(_) => f.write_str("Attempt"),
            Kind::ClusterWait => f.write_str("ClusterWait"),
            Kind::Branch { target } => write!(f, "Branch({target})"),
            Kind::BranchTable { targets, .. } => write!(f, "BranchTable({targets:?})"),
            Kind::Call(call) => call.fmt(f),
            Kind::Return => f.write_str("Return"),
            Kind::Exit => f.write_str("Exit"),
        }
    }
}

/// What an effect may reach.
pub(crate) struct Execution<'a> {
    pub(crate) launch: &'a LaunchContext<'a>,
    /// The CTA that executes.
    pub(crate) block: &'a mut Block,
    /// The other CTAs of its cluster.
    pub(crate) peers: Peers<'a>,
    pub(crate) registers: &'a mut Registers,
    pub(crate) local: &'a mut LocalMemory,
    pub(crate) cache: &'a mut RegionCache,
    /// The warp's index in the CTA.
    pub(crate) warp: u32,
    /// The instruction, for those that reach beyond the registers.
    pub(crate) pc: u32,
    /// Set by what a thread does over and over while it waits for another one.
    pub(crate) polled: bool,
    /// What it looked at last in doing so.
    pub(crate) watched: Option<Watched>,
    /// Operations that may have changed what other threads see.
    pub(crate) changes: u32,
}

impl Execution<'_> {
    /// Says that the effect which executes changes nothing that other threads see.
    #[inline(always)]
    pub(crate) fn changes_nothing(&mut self) {
        self.changes -= 1;
    }

    /// All CTAs of the cluster.
    pub(crate) fn cluster(&mut self) -> Blocks<'_> {
        Blocks { own: self.block, peers: self.peers.reborrow() }
    }

    /// Lanes of the warp, at this instruction.
    #[inline(always)]
    pub(crate) fn actor(&self, lanes: u32) -> Actor {
        Actor { rank: self.block.rank, warp: self.warp, lanes, pc: self.pc }
    }
}

/// An operation that reaches beyond the registers.
pub(crate) trait Effect: Send + Sync {
    /// Executes in the lanes of `mask`, which is not empty.
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>>;
}

/// An operation that may have to wait.
pub(crate) trait Attempt: Send + Sync {
    /// Executes in the lanes of `mask`; whether it could. If not, it is tried again later.
    fn attempt(&self, execution: &mut Execution<'_>, mask: u32) -> Result<bool, Box<Trouble>>;
    /// What it waits for.
    fn reason(&self, block: &Block, warp: u32) -> String;
}

/// An effect whose body is worth compiling for the machine's vectors.
pub(crate) trait EffectBody: Send + Sync + 'static {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>>;
}

struct Portable<E>(E);

impl<E: EffectBody> Effect for Portable<E> {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        self.0.execute(execution, mask)
    }
}

/// A body compiled for a wider machine. Only `vectored_effect` makes one, after it has looked.
#[cfg(target_arch = "x86_64")]
struct Avx512<E>(E);
#[cfg(target_arch = "x86_64")]
struct Avx2<E>(E);

#[cfg(target_arch = "x86_64")]
impl<E: EffectBody> Effect for Avx512<E> {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn run<E: EffectBody>(
            body: &E,
            execution: &mut Execution<'_>,
            mask: u32,
        ) -> Result<(), Box<Trouble>> {
            body.execute(execution, mask)
        }
        // SAFETY: `vectored_effect` makes this type only on a processor that has these features.
        unsafe { run(&self.0, execution, mask) }
    }
}

#[cfg(target_arch = "x86_64")]
impl<E: EffectBody> Effect for Avx2<E> {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        fn run<E: EffectBody>(
            body: &E,
            execution: &mut Execution<'_>,
            mask: u32,
        ) -> Result<(), Box<Trouble>> {
            body.execute(execution, mask)
        }
        // SAFETY: `vectored_effect` makes this type only on a processor that has these features.
        unsafe { run(&self.0, execution, mask) }
    }
}

/// An effect compiled for the machine's vectors.
pub(crate) fn vectored_effect<E: EffectBody>(body: E) -> Box<dyn Effect> {
    match width() {
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => Box::new(Avx512(body)),
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => Box::new(Avx2(body)),
        Width::Portable => Box::new(Portable(body)),
    }
}
