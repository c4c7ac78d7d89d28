//! The state that an executing operation may access.

pub(crate) mod effect;
pub(crate) mod preload;
pub(crate) mod resolve;
