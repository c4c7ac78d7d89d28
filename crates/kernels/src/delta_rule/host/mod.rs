//! What a program calls, and the workloads.

pub mod layer;
mod operations;
pub(crate) mod workload;

pub use operations::{DeltaRuleInputs, InitialState, Prefill};
