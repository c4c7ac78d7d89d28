//! Launching the kernel.

mod operations;

pub use operations::SamplingTuning;
