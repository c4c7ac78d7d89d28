//! The tests of the crate, in one program.

mod atoms;
mod blackwell;
mod errata;
mod examples;
mod faults;
mod readme;
mod tutorials;
