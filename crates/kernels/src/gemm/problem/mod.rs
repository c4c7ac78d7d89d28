//! What a GEMM computes: types, shapes, batching, scales and the epilogue. Imports neither of the
//! floors above.

pub mod batching;
pub mod epilogue;
pub mod error;
pub mod narrow;
pub mod scales;
pub mod types;
