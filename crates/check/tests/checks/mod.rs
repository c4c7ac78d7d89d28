//! The checkers find what is wrong with a broken kernel, and nothing in its mended twin.

mod alignment;
mod asynchronous;
mod barriers;
mod bulk;
mod cluster_launch;
mod exchange;
mod global;
mod harness;
mod inlining;
mod memory;
mod multiply;
mod operands;
mod places;
mod shuffle;
mod tensor_memory;
mod unwritten;
mod warpgroup;
