//! What the tests of several crates share.

pub mod archive;
pub mod corpus;
pub mod ptxas;
mod skip;

pub use skip::{gpu, skipped};
