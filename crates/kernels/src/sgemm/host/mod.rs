//! The choice of a kernel, the operations, the reference and the workload.

pub(super) mod method;
mod operations;
pub mod plan;
pub mod reference;
pub(crate) mod workload;
