//! Attention on the host: configurations, launches, the workload.

mod backward;
pub(crate) mod config;
mod operations;
mod reference;
mod workload;

pub use backward::GradientBuffers;
pub use operations::AttentionBuffers;
pub(crate) use workload::{AttentionWorkload, GradientWorkload};
