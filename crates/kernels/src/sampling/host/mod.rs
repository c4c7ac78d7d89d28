//! Launching the kernel.

mod operations;
mod workload;

pub(crate) use workload::SamplingWorkload;
