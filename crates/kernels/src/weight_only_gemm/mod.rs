//! Products of quantized weights with more vectors than a [GEMV](crate::weight_only_gemv) takes, a mixed-input GEMM: weights
//! become bf16 in registers on their way to the tensor cores.

mod kernel;
mod operations;
