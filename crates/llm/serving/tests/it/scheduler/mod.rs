//! The scheduler over the toy executor.

mod alone;
mod behaviour;
mod harness;
mod random;
