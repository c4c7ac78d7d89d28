//! The kernels.

pub mod chunk;
pub mod chunk_factors;
pub mod chunk_recurrence;
pub mod decode;
mod gates;
mod triangular_inverse;
