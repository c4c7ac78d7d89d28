//! The kernel library: a folder a family, each with its reference.

pub mod attention;
mod cache;
pub mod causal_conv;
pub mod collective;
pub mod columns;
pub mod communicator;
pub mod delta_rule;
pub mod elementwise;
pub mod gated_norm;
pub mod gather;
pub mod gemm;
pub mod gemv;
pub mod group_quantize;
pub mod head_gates;
pub mod histogram;
mod look_back;
pub mod moe;
pub mod monoid;
pub mod operations;
pub mod overlap;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod sampling;
pub mod scan;
pub mod select;
pub mod sgemm;
pub mod sort;
pub mod speculation;
pub mod swiglu;
pub mod transpose;
pub mod vector;
pub mod weight_only_gemm;
pub mod weight_only_gemv;

/// The sources of the kernels, as they were compiled.
pub const SOURCES: warpwright::Sources = warpwright::Sources::new(warpwright::sources!());
