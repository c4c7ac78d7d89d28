//! Attention: the forward pass in 16 and 8 bits, its gradients, and decoding.

mod decode;
mod decode_reference;
mod forward;
mod fp8;
mod gradient_reference;
mod gradients;
mod matrices;
mod options;
mod paged;
mod pages;
mod reference;

pub(crate) use decode::DecodeAttentionWorkload;
pub(crate) use forward::AttentionWorkload;
pub(crate) use gradients::GradientWorkload;
pub(crate) use paged::PagedAttentionWorkload;
