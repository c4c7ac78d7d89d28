//! What a GEMM computes: types, shapes, batching, scales and the epilogue. Imports neither of the
//! floors above.

pub mod batching;
pub mod block_scaled;
pub mod epilogue;
pub mod error;
pub mod operands;
pub mod scales;
pub mod types;
