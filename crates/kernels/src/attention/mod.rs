//! Attention: softmax(Q·Kᵀ)·V over sequences of keys.

mod accumulator;
mod backward;
pub mod decode;
mod forward;
mod host;
mod packed_blocks;
mod paged_cache;
mod problem;
pub mod score;
mod strides;

pub use host::{
    AttentionBuffers, AttentionScales, Fp8AttentionBuffers, GradientBuffers, Pages, ScaleGranularity,
    TransposeV,
};
pub(crate) use host::{AttentionWorkload, GradientWorkload};
pub use paged_cache::PagedCache;
pub use problem::{Attention, AttentionElement, Mask, Shape};
pub use strides::Strides;
