//! Kernels, decoded, but for their operations.

pub(crate) mod image;
pub(crate) mod special;
