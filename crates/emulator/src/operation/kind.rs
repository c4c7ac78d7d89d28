//! A decoded instruction, ready to execute.

use std::fmt;

use crate::execution::effect::{Attempt, Effect, Test};
use crate::lanes::LaneOperation;
use crate::operation::barrier::BarrierOperation;
use crate::operation::call::Call;
use crate::operation::collective::Collective;
use crate::operation::warpgroup::WarpgroupOperation;
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

    /// The register of the predicate.
    pub(crate) fn slot(self) -> Slot {
        self.slot
    }

    /// The same guard, with its predicate in another register.
    pub(crate) fn at(self, slot: Slot) -> Self {
        Self { slot, ..self }
    }

    /// The lanes of `mask` for which the guard holds.
    #[inline(always)]
    pub(crate) fn apply(self, registers: &Registers, mask: u32) -> u32 {
        if self.slot == Slot::MAX {
            return mask;
        }
        let bits = registers.predicate(self.slot);
        mask & if self.negated { !bits } else { bits }
    }
}

/// The kinds of operation, by their effect on the lanes that execute them.
pub(crate) enum Kind {
    /// Registers to registers, each lane by itself.
    Lanes(Box<dyn LaneOperation>),
    /// An effect beyond the registers, each lane by itself.
    Effect(Box<dyn Effect>),
    /// A test of what other threads complete.
    Test(Box<dyn Test>),
    /// An effect that all live lanes of the warp execute together.
    Aligned(Box<dyn Effect>),
    /// An operation of a warp with the others of its warpgroup.
    Warpgroup(Box<WarpgroupOperation>),
    /// An exchange between the lanes of a member mask.
    Collective(Box<Collective>),
    /// A barrier of the CTA.
    Barrier(Box<BarrierOperation>),
    /// The wait for the barrier of the cluster.
    ClusterWait,
    /// An effect that all live lanes of the warp execute together, once it is possible.
    Attempt(Box<dyn Attempt>),
    /// A branch.
    Branch { target: u32 },
    /// A branch by table.
    BranchTable { index: Slot, targets: Box<[u32]> },
    /// A call, direct or not.
    Call(Box<Call>),
    /// Return to the caller; in a kernel, the end.
    Return,
    /// The end of the thread.
    Exit,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Lanes(_) => f.write_str("Lanes"),
            Kind::Effect(_) => f.write_str("Effect"),
            Kind::Test(_) => f.write_str("Test"),
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
