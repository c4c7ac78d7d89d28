//! The tests of the crate, in one program.

mod chapters;
mod check;
mod compiled;
mod exec;
mod mutants;
mod mutation;
mod report;
mod verbs;
