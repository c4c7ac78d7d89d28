//! What `ld`, `st`, `atom` and `red` have in common: spaces, semantics, scopes and cache hints.

use std::sync::atomic::{Ordering, fence};

use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::{Decoder, address};
use crate::decode::{AddressOperand, DecodeError, File, Words};
use crate::lanes::{Operands, one};
use crate::memory::Space;

/// How an access is ordered with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ordered {
    /// Later accesses come after it.
    pub(super) acquire: bool,
    /// Earlier accesses come before it.
    pub(super) release: bool,
    /// It may be repeated until another thread's store is seen.
    pub(super) polls: bool,
}

impl Ordered {
    #[inline(always)]
    pub(super) fn before(self) {
        if self.release {
            fence(Ordering::SeqCst);
        }
    }

    #[inline(always)]
    pub(super) fn after(self) {
        if self.acquire {
            fence(Ordering::SeqCst);
        }
    }
}

/// Semantics and scope. The host's own ordering holds for every scope.
pub(super) fn ordered(w: &mut Words<'_>) -> Ordered {
    let ordered = w.choose(&[
        ("weak", Ordered::default()),
        ("volatile", Ordered { polls: true, ..Ordered::default() }),
        ("relaxed", Ordered { polls: true, ..Ordered::default() }),
        ("acquire", Ordered { acquire: true, polls: true, ..Ordered::default() }),
        ("release", Ordered { release: true, ..Ordered::default() }),
        ("acq_rel", Ordered { acquire: true, release: true, polls: true }),
        ("mmio", Ordered { polls: true, ..Ordered::default() }),
    ]);
    w.take("mmio");
    w.choose(&[("cta", ()), ("cluster", ()), ("gpu", ()), ("sys", ())]);
    ordered.unwrap_or_default()
}

/// Cache operators and hints, which do not change what an access does. Returns whether a policy operand follows.
pub(super) fn cache_hints(w: &mut Words<'_>) -> bool {
    const HINTS: &[(&str, ())] = &[
        ("ca", ()),
        ("cg", ()),
        ("cs", ()),
        ("lu", ()),
        ("cv", ()),
        ("wb", ()),
        ("wt", ()),
        ("nc", ()),
        ("unified", ()),
        ("L1::evict_normal", ()),
        ("L1::evict_unchanged", ()),
        ("L1::evict_first", ()),
        ("L1::evict_last", ()),
        ("L1::no_allocate", ()),
        ("L2::evict_normal", ()),
        ("L2::evict_first", ()),
        ("L2::evict_last", ()),
        ("L2::64B", ()),
        ("L2::128B", ()),
        ("L2::256B", ()),
    ];
    while w.choose(HINTS).is_some() {}
    w.take("L2::cache_hint")
}

/// `.v2`, `.v4`, `.v8`
pub(super) fn vector(w: &mut Words<'_>) -> usize {
    w.choose(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
}

/// The space of an access: that of the variable it names, or the one the instruction names.
pub(super) fn space_of(d: Decoder<'_, '_, '_>, named: Option<Space>, operand: &AddressOperand) -> Space {
    match (named, operand.space) {
        // A `.param` variable of a device function lives in its local frame.
        (_, Some(Space::Local)) => Space::Local,
        (Some(Space::Parameter), _) if !d.is_kernel() => Space::Local,
        (Some(named), _) => named,
        (None, Some(space)) => space,
        (None, None) => Space::Generic,
    }
}

/// Checks the policy operand that a hint asks for.
pub(super) fn policy(d: Decoder<'_, '_, '_>, operand: Option<&Operand>) -> Result<(), DecodeError> {
    match operand {
        Some(operand) => d.source(operand, Type::B64).map(|_| ()),
        None => Err(DecodeError::new("`.L2::cache_hint` needs a policy operand.")),
    }
}

/// Instructions that only advise the caches: their operands are checked, and nothing is done.
pub(super) fn hint(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    const WORDS: &[(&str, ())] = &[
        ("L1", ()),
        ("L2", ()),
        ("tensormap", ()),
        ("fractional", ()),
        ("range", ()),
        ("cvt", ()),
        ("L2::evict_last", ()),
        ("L2::evict_normal", ()),
        ("L2::evict_first", ()),
        ("L2::evict_unchanged", ()),
    ];
    address::space(w);
    while w.choose(WORDS).is_some() {}
    if i.opcode.base() == "createpolicy" {
        w.ty()?;
        let policy = d.bits(0, File::Long);
        let destination = d.destination(d.operand(&i.operands, 0)?, Type::B64)?;
        d.lanes(Operands { d: destination, a: policy, ..Operands::default() }, one(|a: u64| a));
        return Ok(());
    }
    d.memory(d.operand(&i.operands, 0)?).map(|_| ())
}
