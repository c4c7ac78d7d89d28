//! The tests of the crate, in one program.

mod chapter;
mod golden;
mod hardware;
mod postconditions;
mod tiled;
