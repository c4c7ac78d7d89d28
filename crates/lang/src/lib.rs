//! The kernel language: device values staged by ordinary Rust.
//!
//! Running a kernel's method once *stages* it: ordinary Rust executes at build time, and operations on device values
//! are recorded as IR. `docs/language.md` gives the rules; this crate is their runtime half, and
//! `warpwright-macros` the syntactic half.

extern crate self as warpwright_lang;

pub mod element;
pub mod kernel;
pub mod launch;
pub mod recorder;
pub mod staging;
pub mod value;

pub use warpwright_macros::{DeviceValue, device, kernel};

pub use kernel::{Kernel, StagingErrors};
pub use staging::DeviceValue;
pub use value::Reg;
