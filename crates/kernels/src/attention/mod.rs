//! Attention: softmax(Q·Kᵀ)·V over sequences of keys.

mod accumulator;
mod backward;
pub mod decode;
mod forward;
mod host;
mod packed_blocks;
pub mod paged;
mod paged_cache;
mod problem;
pub mod score;
mod strides;

pub use forward::BLOCK;
pub use host::{
    AttentionBuffers, AttentionScales, Configuration, Fp8AttentionBuffers, GradientBuffers,
    GradientConfiguration, Pages, ScaleGranularity, TransposeV,
};
pub use paged_cache::PagedCache;
pub use problem::{Attention, AttentionElement, Mask, Shape};
pub use strides::{HeadMatrix, Strides};
