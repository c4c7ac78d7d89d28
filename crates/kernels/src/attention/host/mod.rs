//! Attention on the host: configurations, launches, the workload.

pub(crate) mod config;
mod operations;
mod reference;
mod workload;

pub use operations::AttentionBuffers;
pub(crate) use workload::AttentionWorkload;
