//! What a program calls, and the workloads.

mod operations;

pub use operations::{DeltaRuleInputs, InitialState, Prefill};
