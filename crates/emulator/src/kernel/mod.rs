//! Decoded kernels without their operations.

pub(crate) mod image;
pub(crate) mod special;
