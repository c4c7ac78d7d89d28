//! The tests of the crate, in one program.

mod check;
mod compiled;
mod exec;
mod mutants;
mod mutation;
mod report;
mod verbs;
