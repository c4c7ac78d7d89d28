//! Layers: weights on the device, and what they do to the tokens of a step.

pub(crate) mod attention;
mod batch;
pub(crate) mod block;
pub(crate) mod cache;
mod cost;
pub(crate) mod decoder;
pub(crate) mod delta_net;
pub(crate) mod experts;
pub(crate) mod linear;
pub(crate) mod mlp;
pub(crate) mod mtp;
pub(crate) mod norm;
mod paged;
mod pass;
mod quantized;
mod swiglu;

pub(crate) use batch::{Batch, Shape, all_padded, end, padded};
pub(crate) use cost::Cost;
pub(crate) use pass::{Memory, Pass, Verified};
