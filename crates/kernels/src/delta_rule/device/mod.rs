//! The kernels.

pub mod chunk;
pub mod chunk_factors;
pub mod chunk_recurrence;
mod gates;
mod head_state;
mod output;
mod parts;
mod stages;
pub mod token_factors;
mod tokens;
pub mod triangle;
mod triangular_inverse;
