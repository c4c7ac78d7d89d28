//! The operation.

pub(super) mod operations;
