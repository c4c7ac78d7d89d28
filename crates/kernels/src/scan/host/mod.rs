//! The operations, the reference and the workload.

mod launch;
mod operations;
pub mod reference;
pub(crate) mod workload;
