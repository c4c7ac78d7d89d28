//! The kernel language: device values staged by ordinary Rust.
//!
//! Running a kernel's method once *stages* it: ordinary Rust executes at build time, and operations
//! on device values are recorded as IR. `docs/language.md` gives the rules; this crate is their
//! runtime half, and `warpwright-macros` the syntactic half.

extern crate self as warpwright_lang;

pub mod access;
mod arithmetic;
pub mod async_copy;
pub mod atomic;
pub mod bits;
pub mod block;
pub mod bulk;
pub mod cluster;
pub mod comparison;
pub mod composite;
pub mod contraction;
pub mod control;
pub mod conversion;
pub mod element;
pub mod fence;
pub mod float;
pub mod index;
pub mod integer;
pub mod kernel;
pub mod launch;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod memory;
pub mod multicast;
mod object;
mod operation;
pub mod operators;
pub mod parameter;
pub mod pipeline;
pub mod plain;
pub mod pointer;
pub mod recorder;
pub mod registers;
pub mod requirement;
pub mod role;
pub mod shared;
pub mod space;
pub mod special;
pub mod staging;
pub mod tensor;
pub mod tensor_map;
pub mod tensor_map_boxes;
pub mod tensor_map_draft;
pub mod tensor_memory;
pub mod tma;
pub mod value;
pub mod warp;
pub mod wmma;

pub use warpwright_macros::{DeviceValue, KernelParameter, device, kernel, ptx};

pub use kernel::{Kernel, StagingErrors};
pub use staging::DeviceValue;
pub use value::Reg;
