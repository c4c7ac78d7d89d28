//! The choice of a kernel, the operations, the reference and the workload.

mod operations;
pub mod plan;
