//! The tests of the crate, in one program.

mod building;
mod optimize;
mod random_kernel;
mod verify;
