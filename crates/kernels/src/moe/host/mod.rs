//! Launching the kernels.

mod operations;
pub(super) mod workload;
