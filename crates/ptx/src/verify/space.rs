//! The state space of an address: from the words of the opcode, one for each address.

use crate::syntax::{Opcode, StateSpace};

/// Where an address of an instruction points.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Space {
    /// A space that the opcode names, or the only one of the instruction.
    Named(StateSpace),
    /// An address of .global, .shared or .local.
    Generic,
    /// Any variable: `fence.proxy` of a tensor map.
    Any,
}

impl Space {
    /// The space of the operand after so many `addresses`: the first address has the first space that the
    /// opcode names, the second one the second. An address after those is an mbarrier.
    pub(super) fn of(opcode: &Opcode, addresses: usize) -> Self {
        let word = |modifier: &str| modifier.split("::").next().and_then(StateSpace::from_word);
        let mut named = opcode.modifiers().filter_map(word).peekable();
        let is_in_shared = named.peek().is_some() || opcode.base() == "mbarrier";
        match (opcode.base(), named.nth(addresses)) {
            ("fence", _) => Self::Any,
            (_, Some(space)) => Self::Named(space),
            (_, None) if is_in_shared => Self::Named(StateSpace::Shared),
            _ => Self::Generic,
        }
    }

    /// Refuses a variable of another space.
    pub(super) fn check(self, name: &str, space: StateSpace) -> Result<(), String> {
        match self {
            Self::Named(own) if own != space => Err(format!(
                "`{name}` is in .{}, and the instruction accesses .{}.",
                space.word(),
                own.word()
            )),
            Self::Generic if matches!(space, StateSpace::Constant | StateSpace::Parameter) => Err(format!(
                "`{name}` is in .{0}, which generic addresses do not reach: write `.{0}`.",
                space.word()
            )),
            _ => Ok(()),
        }
    }

    /// Whether its addresses have 64 bits also where addresses of .shared have 32.
    pub(super) fn is_wide(self, base: &str) -> bool {
        match self {
            Self::Named(space) => space == StateSpace::Global,
            Self::Generic => matches!(base, "ld" | "ldu" | "st" | "atom" | "red" | "prefetch"),
            Self::Any => false,
        }
    }
}
