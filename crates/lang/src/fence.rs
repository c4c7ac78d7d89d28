//! Fences: the order of memory accesses as other threads see them. PTX ISA, `membar`/`fence`.

use crate::access::Scope;
use crate::operation::perform;

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Earlier accesses before later ones, between threads that synchronise: enough for almost everything.
    AcquireRelease,
    /// One order of all such fences that all threads agree on.
    SequentiallyConsistent,
}

/// Orders this thread's accesses before and after it, as the threads of `scope` see them.
#[track_caller]
pub fn fence(semantics: Semantics, scope: Scope) {
    let semantics = match semantics {
        Semantics::AcquireRelease => "acq_rel",
        Semantics::SequentiallyConsistent => "sc",
    };
    perform(format!("fence.{semantics}{}", scope.word()), []);
}

/// CUDA's `__threadfence_block`.
#[track_caller]
pub fn fence_block() {
    fence(Semantics::AcquireRelease, Scope::Block);
}

/// CUDA's `__threadfence`.
#[track_caller]
pub fn fence_device() {
    fence(Semantics::AcquireRelease, Scope::Device);
}

/// CUDA's `__threadfence_system`.
#[track_caller]
pub fn fence_system() {
    fence(Semantics::AcquireRelease, Scope::System);
}
