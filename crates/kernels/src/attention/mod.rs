//! Attention: softmax(Q·Kᵀ)·V over sequences of keys.

pub mod decode;
mod forward;
mod host;
mod problem;

pub use forward::score;
pub use host::AttentionBuffers;
pub(crate) use host::AttentionWorkload;
pub use problem::{Attention, AttentionElement, Mask, Shape};
