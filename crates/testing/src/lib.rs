//! What the tests of several crates share.

pub mod archive;
pub mod corpus;
pub mod math;
pub mod ptxas;
pub mod share;
mod skip;

pub use share::{in_threads, one_in};
pub use skip::{gpu, several_gpus, skipped};
