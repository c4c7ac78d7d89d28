//! The checkers find what is wrong with a broken kernel, and nothing in its mended twin.

#[path = "../common/mod.rs"]
mod common;

mod asynchronous;
mod barriers;
mod global;
mod harness;
