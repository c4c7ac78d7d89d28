//! The kernels.

pub(super) mod combine;
pub(super) mod permute;
pub(super) mod route;
pub(super) mod shared_expert;
