//! The tests of the crate, in one program.

mod compiled;
mod conversions;
mod fuzz;
mod instructions;
mod lower;
mod parse;
mod spelling;
mod write;
