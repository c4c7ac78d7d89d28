//! The tests of the crate, in one program.

mod atoms;
mod blackwell;
mod errata;
mod faults;
mod readme;
mod tutorials;
