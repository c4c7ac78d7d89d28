//! The kernel library: one file an idea, each with its reference.

pub mod gemm;
pub mod map2d;
pub mod matrix_add;
mod prepared;
mod reference;
pub mod registry;
pub mod transpose;
pub mod vector_add;
