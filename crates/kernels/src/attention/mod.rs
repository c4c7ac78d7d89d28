//! Attention: softmax(Q·Kᵀ)·V over sequences of keys.

mod accumulator;
mod backward;
pub mod decode;
mod forward;
mod host;
mod problem;

pub use forward::score;
pub use host::{AttentionBuffers, AttentionScales, Fp8AttentionBuffers, GradientBuffers, ScaleGranularity};
pub(crate) use host::{AttentionWorkload, GradientWorkload};
pub use problem::{Attention, AttentionElement, Mask, Shape};
