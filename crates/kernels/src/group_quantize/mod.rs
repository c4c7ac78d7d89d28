//! Rows of bf16 quantized to e4m3 with a scale for each 128 of a row, as the GEMM takes them, with what comes before: SwiGLU,
//! or RMSNorm.
//!
//! ```text
//! scale = the largest magnitude of a group / 448;  value = x / scale, rounded to the nearest
//! ```

mod kernel;
mod operations;
mod problem;

pub use problem::QuantizedRows;
