//! The kernels.

pub(super) mod combine;
pub(super) mod permute;
pub(super) mod route;
