//! Attention on the host: configurations, launches, the workload.

mod backward;
pub(crate) mod config;
mod fp8;
mod fp8_workload;
mod gradient_reference;
mod gradient_workload;
mod matrices;
mod operations;
mod options;
pub(crate) mod pages;
mod reference;
mod value_transpose;
mod workload;

pub use backward::GradientBuffers;
pub use config::TransposeV;
pub use fp8::{AttentionScales, Fp8AttentionBuffers, ScaleGranularity};
pub(crate) use gradient_workload::GradientWorkload;
pub use operations::{AttentionBuffers, Pages};
pub(crate) use workload::AttentionWorkload;
