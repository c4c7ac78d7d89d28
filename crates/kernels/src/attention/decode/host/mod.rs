//! Launching the kernel, and its workload.

mod operations;
mod reference;
pub(super) mod workload;
