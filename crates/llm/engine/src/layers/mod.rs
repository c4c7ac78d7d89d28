//! Layers: weights on the device, and what they do to the tokens of a step.

pub(crate) mod attention;
pub(crate) mod decoder;
pub(crate) mod delta_net;
pub(crate) mod experts;
pub(crate) mod linear;
pub(crate) mod mlp;
pub(crate) mod norm;
mod pass;

pub(crate) use pass::{Batch, Memory, Pass, Shape};
