//! The kernels, and what they share.

pub(super) mod bulk;
pub(super) mod clusters;
mod convolution;
mod inputs;
pub(super) mod recurrent;
