//! The kernel library: a folder a family, each with its reference.

mod cache;
pub mod copy;
pub mod elementwise;
pub mod gemm;
pub mod histogram;
pub mod launch_cost;
pub mod monoid;
pub mod number;
pub mod operations;
pub mod prepared;
pub mod reduce;
pub mod reference;
pub mod registry;
pub mod rotation;
pub mod rows;
pub mod sample;
pub mod scan;
pub mod select;
pub mod sgemm;
pub mod sort;
pub mod transpose;
pub mod vector;
