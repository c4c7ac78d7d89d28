//! The kernel library: one file an idea, each with its reference.

mod cache;
mod copy;
pub mod demonstrations;
pub mod elementwise;
pub mod gemm;
pub mod histogram;
pub mod hopper_lessons;
pub mod launch_cost;
pub mod map2d;
pub mod matrix_add;
pub mod monoid;
mod number;
pub mod operations;
mod prepared;
pub mod reduce;
mod reference;
pub mod registry;
mod rotation;
pub mod rows;
mod sample;
pub mod scan;
pub mod select;
pub mod sgemm;
pub mod sort;
pub mod transpose;
pub mod vector;
pub mod vector_add;
