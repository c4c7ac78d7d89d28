//! What an operation may reach while it executes.

pub(crate) mod effect;
pub(crate) mod preload;
pub(crate) mod resolve;
