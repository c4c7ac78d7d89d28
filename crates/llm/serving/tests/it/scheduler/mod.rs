//! The scheduler over the toy executor.

pub(crate) mod alone;
mod behaviour;
pub(crate) mod harness;
mod random;
