//! The kernel library: one file an idea, each with its reference.

pub mod registry;
