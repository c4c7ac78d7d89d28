//! The common parts of `ld`, `st`, `atom` and `red`: spaces, semantics, scopes and cache hints.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering, fence};

use warpwright_events::{AccessKind, Event, FaultKind, LANES, Scope, Strength};
use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::address;
use crate::decode::{DecodeError, Decoder, File, Words};
use crate::execution::effect::Execution;
use crate::execution::resolve::memory_space;
use crate::lanes::{Operands, one};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};

/// How an access is ordered with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ordered {
    /// Later accesses are ordered after it.
    pub(super) acquire: bool,
    /// Earlier accesses are ordered before it.
    pub(super) release: bool,
    /// Whether it may be repeated until another thread's store is visible.
    pub(super) polls: bool,
    /// Its strength for observers.
    pub(super) strength: Strength,
}

impl Ordered {
    #[inline(always)]
    pub(super) fn before(self) {
        if self.release {
            fence(Ordering::SeqCst);
        }
    }

    /// Locks strong accesses to global memory if an observer orders them, because CTAs run on
    /// several threads. Held from before the access is reported until its acquire is.
    #[inline(always)]
    pub(super) fn turn<'l>(self, execution: &Execution<'l>, space: Space) -> Option<MutexGuard<'l, ()>> {
        let is_ordered = self.strength != Strength::Weak && space == Space::Global;
        if is_ordered { execution.launch.strong_access() } else { None }
    }

    /// Before a store or atomic operation: reports the release.
    #[inline(always)]
    pub(super) fn publishes(
        self,
        execution: &Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
        kind: AccessKind,
    ) {
        if self.strength != Strength::Weak
            && execution.block.observer.listens()
            && let Some(site) = memory_space(space)
        {
            execution.block.observer.report(Event::Release {
                actor: execution.actor(mask),
                space: site,
                addresses,
                kind,
                strength: self.strength,
            });
        }
    }

    /// After a load or atomic operation: reports the acquire.
    #[inline(always)]
    pub(super) fn acquires(
        self,
        execution: &Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
        kind: AccessKind,
    ) {
        if self.strength != Strength::Weak
            && execution.block.observer.listens()
            && let Some(site) = memory_space(space)
        {
            execution.block.observer.report(Event::Acquire {
                actor: execution.actor(mask),
                space: site,
                addresses,
                kind,
                strength: self.strength,
            });
        }
    }

    #[inline(always)]
    pub(super) fn after(self) {
        if self.acquire {
            fence(Ordering::SeqCst);
        }
    }
}

/// The scopes that an instruction may name.
pub(super) const SCOPES: &[(&str, Scope)] =
    &[("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::System)];

/// Semantics and scope of a load or store; `unnamed` is the default without explicit semantics. The
/// host's own ordering holds for every scope.
pub(super) fn ordered(w: &mut Words<'_>, unnamed: Semantics) -> Ordered {
    let semantics = w.choose(&[
        ("weak", Semantics::Weak),
        ("volatile", Semantics::Volatile),
        ("relaxed", Semantics::Relaxed),
        ("acquire", Semantics::Acquire),
        ("release", Semantics::Release),
        ("acq_rel", Semantics::AcquireRelease),
    ]);
    let mmio = w.take("mmio");
    let semantics = semantics.unwrap_or(if mmio { Semantics::Volatile } else { unnamed });
    let scope = w.choose(SCOPES);
    let acquire = matches!(semantics, Semantics::Acquire | Semantics::AcquireRelease);
    let release = matches!(semantics, Semantics::Release | Semantics::AcquireRelease);
    let scope = match semantics {
        Semantics::Volatile => Scope::System,
        // PTX ISA, "atom": without a scope, .gpu applies.
        _ => scope.unwrap_or(Scope::Gpu),
    };
    let strength = match semantics {
        Semantics::Weak => Strength::Weak,
        _ => Strength::Strong { scope, acquire, release },
    };
    let polls = !matches!(semantics, Semantics::Weak | Semantics::Release);
    Ordered { acquire, release, polls, strength }
}

/// The semantics that an access names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Semantics {
    Weak,
    /// As `.relaxed.sys` (PTX ISA, "Volatile operations").
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// Cache operators and hints, which do not change the access. Returns whether a policy operand
/// follows.
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

/// The bytes of an access that only global memory has.
pub(super) const WIDEST: u64 = 32;

/// Refuses an access of 256 bits that does not reach global memory.
#[inline(always)]
pub(super) fn check_width(space: Space, bytes: u64, lanes: u32) -> Result<(), Box<Failure>> {
    if bytes < WIDEST || space == Space::Global {
        return Ok(());
    }
    let message =
        format!("An access of 256 bits reaches {} memory; only global memory has it.", space.name());
    Err(Failure::new(FaultKind::IllegalInstruction, lanes, message))
}

/// `.v2`, `.v4`, `.v8`
pub(super) fn vector(w: &mut Words<'_>) -> usize {
    w.choose(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
}

/// The space of an access: that of the variable it names, or that of the instruction.
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

/// Checks the policy operand of a hint.
pub(super) fn policy(d: Decoder<'_, '_, '_>, operand: Option<&Operand>) -> Result<(), DecodeError> {
    match operand {
        Some(operand) => d.source(operand, Type::B64).map(|_| ()),
        None => Err(DecodeError::new("`.L2::cache_hint` needs a policy operand.")),
    }
}

/// Instructions that only advise the caches: their operands are checked, and nothing is executed.
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
