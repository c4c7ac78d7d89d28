//! The shared state of a resident CTA, and its work in flight.

pub(crate) mod asynchronous;
pub(crate) mod barrier;
pub(crate) mod block;
pub(crate) mod cluster_barrier;
pub(crate) mod mbarrier;
pub(crate) mod mbarrier_update;
pub(crate) mod register_budget;
pub(crate) mod tensor_memory;
pub(crate) mod warpgroup;
