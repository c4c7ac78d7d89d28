//! The tests of the crate, in one program.

mod acceptance;
mod compiled;
mod conversions;
mod fuzz;
mod instructions;
mod lower;
mod modules;
mod parse;
mod spelling;
mod write;
