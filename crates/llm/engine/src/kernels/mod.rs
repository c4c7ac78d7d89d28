//! Kernels of the engine: what the kernel library lacks, for any head and any type.
//!
//! They are simple and right first. f32, head dimensions that the tensor cores do not take, and the
//! layers around them run here; bf16 of common shapes runs in `warpwright_kernels`.

pub(crate) mod attention;
pub(crate) mod bias;
pub(crate) mod int4_product;
pub(crate) mod product;
pub(crate) mod quantize;
pub(crate) mod quantized_experts;
mod quantized_words;
pub(crate) mod speculation;
pub(crate) mod tokens;
