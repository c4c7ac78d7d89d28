//! Regions: sequences of staged code that run together.

use warpwright_ir::{Body, Label, Location, Operand, Register, RegisterClass};

use super::error::StagingError;

/// Names a region; the two branches of one `if` share the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub(crate) u32);

impl RegionId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A region, and which branch of an `if`: what one computes is not there in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) region: RegionId,
    pub(crate) otherwise: bool,
}

/// What outlives a region.
pub(crate) struct RegionRecord {
    pub(crate) location: Location,
    /// The scope that a dissolved region became part of.
    pub(crate) dissolved_into: Option<Scope>,
}

/// An open region: the statements recorded so far and what will become of them.
pub(crate) struct Region {
    pub(crate) id: RegionId,
    pub(crate) body: Body,
    pub(crate) kind: RegionKind,
    pub(crate) location: Location,
    /// Whether the code that follows in it is unreachable.
    pub(crate) ended: bool,
}

/// What a region is part of.
pub(crate) enum RegionKind {
    Kernel,
    Then {
        condition: Register,
    },
    Otherwise {
        condition: Register,
        then: Body,
        then_ended: bool,
    },
    Loop {
        label: Label,
        decided: bool,
        /// Mistakes if this turns out to be a device-time loop.
        pending: Vec<StagingError>,
    },
    Step {
        label: Label,
        body: Body,
    },
    Block {
        label: Label,
        /// Whether there is an early exit, so that what follows is conditional.
        left: bool,
    },
}

/// What a finished device-time `if` writes to one register: the type to move with and the value
/// from each branch; `None` for a branch that does not reach its end.
pub(crate) struct IfResult {
    pub(crate) class: RegisterClass,
    pub(crate) then: Option<(&'static str, Operand)>,
    pub(crate) otherwise: Option<(&'static str, Operand)>,
}

/// How a `break`, `continue` or `return` is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// By Rust, immediately.
    BuildTime,
    /// It has been recorded (or refused); the rest of the region is unreachable.
    Device,
}

impl Region {
    /// Whether its statements run only on a device-time condition, or more than once.
    pub(crate) fn is_conditional(&self) -> bool {
        match &self.kind {
            RegionKind::Kernel => false,
            RegionKind::Then { .. } | RegionKind::Otherwise { .. } | RegionKind::Step { .. } => true,
            RegionKind::Loop { decided, .. } => *decided,
            RegionKind::Block { left, .. } => *left,
        }
    }

    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.kind, RegionKind::Loop { decided: false, .. })
    }

    pub(crate) fn is_loop(&self) -> bool {
        matches!(self.kind, RegionKind::Loop { .. } | RegionKind::Step { .. })
    }

    pub(crate) fn is_otherwise(&self) -> bool {
        matches!(self.kind, RegionKind::Otherwise { .. })
    }

    pub(crate) fn has_label(&self, wanted: Label) -> bool {
        match &self.kind {
            RegionKind::Loop { label, .. }
            | RegionKind::Step { label, .. }
            | RegionKind::Block { label, .. } => *label == wanted,
            _ => false,
        }
    }

    pub(crate) fn remark(&self) -> String {
        match &self.kind {
            RegionKind::Loop { .. } | RegionKind::Step { .. } => {
                "the device-time loop begins here".to_owned()
            }
            RegionKind::Block { .. } => "this function returns early on a device-time condition".to_owned(),
            _ => "the device-time condition is here".to_owned(),
        }
    }
}
