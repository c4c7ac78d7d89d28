//! The end of an mbarrier phase, for which threads test or wait. PTX ISA, "mbarrier.test_wait" and
//! "mbarrier.try_wait".

use warpwright_ir::Operand;

use super::check_scope;
use crate::access::Scope;
use crate::operation::refuse;
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

/// The end of a phase, as [`Mbarrier::test`](super::Mbarrier::test),
/// [`Mbarrier::attempt`](super::Mbarrier::attempt) and
/// [`Mbarrier::wait_for`](super::Mbarrier::wait_for) look for it.
///
/// ```
/// use warpwright_lang::access::Scope;
/// use warpwright_lang::mbarrier::{Mbarrier, PhaseEnd};
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::{kernel, launch, special::thread_idx};
///
/// /// Looks for a microsecond at most whether the cluster's producer has filled a buffer.
/// #[kernel]
/// fn glances(filled: &mut Global<u32>, parity: u32) {
///     launch::threads(32);
///     let full = Mbarrier::new();
///     let end = PhaseEnd::of_parity(parity).acquiring(Scope::Cluster).within(1000);
///     if full.attempt(end) {
///         filled[thread_idx().x] = 1;
///     }
/// }
/// assert!(glances().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct PhaseEnd {
    phase: Phase,
    order: Option<(&'static str, Scope)>,
    limit: Option<Operand>,
}

/// How the phase is identified.
#[derive(Clone, Debug)]
enum Phase {
    State(Operand),
    Parity(Operand),
}

impl PhaseEnd {
    /// Of the phase that an arrival returned.
    pub fn of_state(state: Reg<u64>) -> Self {
        Self { phase: Phase::State(state.operand()), order: None, limit: None }
    }

    /// The current phase if it has this parity, otherwise the previous one, which has ended.
    #[track_caller]
    pub fn of_parity(parity: impl Value<u32>) -> Self {
        Self { phase: Phase::Parity(parity.operand()), order: None, limit: None }
    }

    /// With an acquire at `scope`: what threads wrote before they arrived with a release at that
    /// scope is visible afterwards. (The default is CTA scope.)
    pub fn acquiring(self, scope: Scope) -> Self {
        Self { order: Some(("acquire", scope)), ..self }
    }

    /// Relaxed, at `scope`: for a thread that reads nothing that the arriving threads have written;
    /// sm_90.
    pub fn relaxed(self, scope: Scope) -> Self {
        Self { order: Some(("relaxed", scope)), ..self }
    }

    /// Suspended for at most about `nanoseconds`, instead of the hardware's limit.
    #[track_caller]
    pub fn within(self, nanoseconds: impl Value<u32>) -> Self {
        Self { limit: Some(nanoseconds.operand()), ..self }
    }

    /// Whether a plain `test_wait` can look for it on every architecture.
    pub(super) fn is_plain(&self) -> bool {
        self.order.is_none() && self.limit.is_none()
    }

    /// The words after `test_wait` or `try_wait`, and the operands after the address; none after a
    /// mistake.
    #[track_caller]
    pub(super) fn parts(self, is_suspending: bool) -> Option<(String, Vec<Operand>)> {
        let mut words = String::new();
        let mut operands = match self.phase {
            Phase::State(state) => vec![state],
            Phase::Parity(parity) => {
                words.push_str(".parity");
                vec![parity]
            }
        };
        if is_suspending || !matches!(self.order, None | Some(("acquire", Scope::Block))) {
            require(Feature::TransactionBarriers);
        }
        if let Some((order, scope)) = self.order {
            check_scope(scope)?;
            words.push_str(&format!(".{order}{}", scope.word()));
        }
        if let Some(limit) = self.limit {
            if !is_suspending {
                refuse("`test` does not wait, so it has no time limit: use `attempt` or `wait_for`");
                return None;
            }
            operands.push(limit);
        }
        Some((words, operands))
    }
}
