//! Attention on the host: configurations, launches, the workload.

mod backward;
pub(crate) mod config;
mod fp8;
mod operations;
mod value_transpose;

pub use backward::{GradientBuffers, GradientConfiguration};
pub use config::{Configuration, TransposeV};
pub use fp8::{AttentionScales, Fp8AttentionBuffers, ScaleGranularity};
pub use operations::{AttentionBuffers, Pages};
