//! Arrivals at an mbarrier in all their forms. PTX ISA, "mbarrier.arrive" and
//! "mbarrier.arrive_drop".

use warpwright_ir::Operand;

use super::check_scope;
use crate::access::Scope;
use crate::operation::refuse;
use crate::requirement::{Feature, require};
use crate::value::Value;

/// An arrival: [`Mbarrier::arrive_as`](super::Mbarrier::arrive_as) and
/// [`RemoteMbarrier::arrive_as`](super::RemoteMbarrier::arrive_as) perform it.
///
/// ```
/// use warpwright_lang::access::Scope;
/// use warpwright_lang::mbarrier::{Arrival, Mbarrier};
/// use warpwright_lang::{block::sync_threads, kernel, launch, special::thread_idx};
///
/// /// Producers that start their last copies, for readers in the whole cluster, and take no part in the phases after.
/// #[kernel]
/// fn last_fill(bytes: u32) {
///     launch::threads(32);
///     let (full, thread) = (Mbarrier::new(), thread_idx().x);
///     if thread == 0 {
///         full.init(2);
///     }
///     sync_threads();
///     if thread < 2 {
///         full.arrive_as(Arrival::new().dropping().expecting(bytes).releasing(Scope::Cluster));
///     }
/// }
/// assert!(last_fill().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    drops: bool,
    ends_no_phase: bool,
    count: Option<Operand>,
    bytes: Option<Operand>,
    order: Option<(&'static str, Scope)>,
}

impl Arrival {
    /// One arrival, with a release at CTA scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// As a thread that does not take part in later phases, which then expect fewer arrivals.
    pub fn dropping(self) -> Self {
        Self { drops: true, ..self }
    }

    /// Counts as `count` arrivals. sm_90, except for arrivals that
    /// [do not end the phase](Self::without_ending).
    #[track_caller]
    pub fn times(self, count: impl Value<u32>) -> Self {
        Self { count: Some(count.operand()), ..self }
    }

    /// The caller guarantees that the phase does not end, because others arrive later in it. It
    /// needs a [count](Self::times).
    pub fn without_ending(self) -> Self {
        Self { ends_no_phase: true, ..self }
    }

    /// First adds `bytes` expected transaction bytes to the phase; sm_90.
    #[track_caller]
    pub fn expecting(self, bytes: impl Value<u32>) -> Self {
        Self { bytes: Some(bytes.operand()), ..self }
    }

    /// Releases what this thread wrote before to the threads of `scope` that wait with an acquire.
    pub fn releasing(self, scope: Scope) -> Self {
        Self { order: Some(("release", scope)), ..self }
    }

    /// Relaxed, at `scope`: for a thread that has written nothing for the waiters; sm_90.
    pub fn relaxed(self, scope: Scope) -> Self {
        Self { order: Some(("relaxed", scope)), ..self }
    }

    /// The modifiers of the instruction and its operands after the address; none after a mistake.
    #[track_caller]
    pub(super) fn parts(self, is_remote: bool) -> Option<(String, Vec<Operand>)> {
        if let Some(mistake) = self.mistake(is_remote) {
            refuse(mistake);
            return None;
        }
        let Self { drops, ends_no_phase, count, bytes, order } = self;
        if is_remote {
            require(Feature::Clusters);
        } else if bytes.is_some() || !ends_no_phase && (count.is_some() || order.is_some()) {
            require(Feature::TransactionBarriers);
        }
        let mut words = if drops { "arrive_drop" } else { "arrive" }.to_owned();
        if bytes.is_some() {
            words.push_str(".expect_tx");
        }
        if ends_no_phase {
            words.push_str(".noComplete");
        }
        if let Some((order, scope)) = order {
            check_scope(scope)?;
            words.push_str(&format!(".{order}{}", scope.word()));
        }
        Some((words, bytes.or(count).into_iter().collect()))
    }

    fn mistake(&self, is_remote: bool) -> Option<&'static str> {
        let Self { ends_no_phase, count, bytes, order, .. } = self;
        if bytes.is_some() && count.is_some() {
            return Some(
                "an arrival that expects bytes counts as one: call `expect` first, then arrive with a count",
            );
        }
        if !ends_no_phase {
            return None;
        }
        if is_remote {
            Some(
                "an arrival at another CTA's barrier may end the phase: `without_ending` is for the \
             CTA's own barriers",
            )
        } else if bytes.is_some() {
            Some(
                "an arrival that expects bytes may end the phase: call `expect` first, then arrive \
                 without ending it",
            )
        } else if count.is_none() {
            Some("an arrival that does not end the phase needs a count: call `times`")
        } else if !matches!(order, None | Some(("release", Scope::Block))) {
            Some("an arrival that does not end the phase has release semantics at CTA scope only")
        } else {
            None
        }
    }
}
