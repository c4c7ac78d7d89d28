//! The kernels of radix sort.

pub(super) mod digit;
pub(super) mod histogram;
pub(super) mod sweep;
