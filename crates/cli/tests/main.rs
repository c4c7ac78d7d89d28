//! The tests of the crate, in one program.

mod check;
mod compiled;
mod exec;
mod json;
mod mutants;
mod mutation;
mod refusals;
mod report;
mod verbs;
