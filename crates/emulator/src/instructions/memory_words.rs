//! The common parts of `ld`, `st`, `atom` and `red`: spaces, semantics, scopes and cache hints.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering, fence};

use warpwright_events::{AccessKind, Event, FaultKind, LANES, Scope, Strength};

use crate::decode::{DecodeError, Decoded, Decoder, File, Row};
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
pub(super) fn ordered(i: &Row<'_>, unnamed: Semantics) -> Ordered {
    let semantics = i.choose(&[
        ("weak", Semantics::Weak),
        ("volatile", Semantics::Volatile),
        ("relaxed", Semantics::Relaxed),
        ("acquire", Semantics::Acquire),
        ("release", Semantics::Release),
        ("acq_rel", Semantics::AcquireRelease),
    ]);
    let semantics = semantics.unwrap_or(unnamed);
    let acquire = matches!(semantics, Semantics::Acquire | Semantics::AcquireRelease);
    let release = matches!(semantics, Semantics::Release | Semantics::AcquireRelease);
    let scope = match semantics {
        Semantics::Volatile => Scope::System,
        // PTX ISA, "atom": without a scope, .gpu applies.
        _ => i.choose(SCOPES).unwrap_or(Scope::Gpu),
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

/// Decodes the policy of an instruction with a cache hint, its last operand.
pub(super) fn policy(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<(), DecodeError> {
    d.source_at(i, i.operands.len() - 1).map(|_| ())
}

/// Instructions that only advise the caches: their operands are decoded, and nothing is executed.
pub(super) fn hint(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.base() == "createpolicy" {
        let slots = Operands { d: d.destination_at(i, 0)?, a: d.bits(0, File::Long), ..Operands::default() };
        return d.lanes(slots, one(|a: u64| a));
    }
    d.memory_at(i, 0).map(|_| ())
}
