//! The kernel language: device values staged by ordinary Rust.
//!
//! Running a kernel's method once *stages* it: ordinary Rust executes at build time, and operations on device values
//! are recorded as IR. `docs/language.md` gives the rules; this crate is their runtime half, and
//! `warpwright-macros` the syntactic half.

pub mod element;
pub mod recorder;
pub mod value;
