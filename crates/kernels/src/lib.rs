//! The kernel library: a folder a family, each with its reference.

pub mod attention;
mod cache;
pub mod collective;
pub mod delta_rule;
pub mod elementwise;
pub mod gemm;
pub mod histogram;
mod look_back;
pub mod monoid;
pub mod operations;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod sample;
pub mod sampling;
pub mod scan;
pub mod select;
pub mod sgemm;
pub mod sort;
pub mod transpose;
pub mod vector;
pub mod workloads;
