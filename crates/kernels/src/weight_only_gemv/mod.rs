//! Products of quantized weights with a few vectors, as a decode step has them: y = x Wᵀ, where W
//! is (n, k) in int4, int8 or e4m3 with a scale for each group of 32, 64 or 128 weights along k,
//! and x is (batch, k) in bf16: a batch of 1 to 8, or a few times 8.
//!
//! The time is that of reading the weights. Each is read once, and takes part in one `mma.sync`
//! whose other operand is the batch, so that 8 vectors cost as many instructions as one.
//! `dequantize` has the formats, `vectors` the batch in shared memory, `kernel` the product. `experts` multiplies each
//! vector with a matrix of its own, and `matrix` makes a matrix of bf16 for a GEMM.

mod dequantize;
mod experts;
mod kernel;
mod matrix;
mod matrix_operations;
mod operations;
mod problem;
mod vectors;
mod words;

pub use operations::GemvTuning;
pub use problem::{QuantizedWeights, WeightFormat};
