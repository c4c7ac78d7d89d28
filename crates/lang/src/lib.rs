//! The kernel language: device values staged by ordinary Rust.
//!
//! Running a kernel's method once *stages* it: ordinary Rust executes at build time, and operations
//! on device values are recorded as IR. `docs/language.md` gives the rules; this crate is their
//! runtime half, and `warpwright-macros` the syntactic half. `docs/operations.md` lists all
//! operations.
//!
//! ```
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::special::{block_idx, thread_idx};
//! use warpwright_lang::{block, kernel, launch};
//!
//! /// The sum of each row of a (rows, `width`): a CTA per row.
//! struct RowSums {
//!     width: u32,
//! }
//!
//! impl RowSums {
//!     #[kernel]
//!     fn run(&self, a: &Global<f32>, sums: &mut Global<f32>) {
//!         launch::threads(128);
//!         let (row, thread) = (block_idx().x, thread_idx().x);
//!         let mut mine = warpwright_lang::value::constant(0.0f32);
//!         for column in (thread..self.width).step_by(128) {
//!             mine += a[row * self.width + column];
//!         }
//!         let sum = block::reduce_sum(mine);
//!         if thread == 0 {
//!             sums[row] = sum;
//!         }
//!     }
//! }
//! assert!(RowSums { width: 1000 }.run().is_ok());
//! ```
//!
//! | To | read |
//! |---|---|
//! | write a first kernel | [`macro@kernel`], [`macro@device`], [`Reg`], [`special`] |
//! | load and store | [`pointer`](mod@pointer), [`memory`], [`shared`], [`access`] |
//! | compute | [`integer`], [`bits`], [`float`], [`math`], [`conversion`], [`comparison`] |
//! | let threads cooperate | [`warp`], [`block`], [`cluster`], [`atomic`], [`fence`] |
//! | write code for several types | [`element`], [`DeviceValue`](trait@DeviceValue) |
//! | copy asynchronously | [`async_copy`], [`bulk`], [`tma`], [`tensor_map`], [`mbarrier`] |
//! | multiply matrices | [`tensor`], [`pipeline`], [`role`], [`tensor_memory`], [`wmma`] |
//! | state the launch | [`launch`], [`registers`] |
//! | use an instruction without a function | [`ptx!`] |
//! | stop, print, check | [`control`] |

extern crate self as warpwright_lang;

pub mod access;
mod arithmetic;
pub mod async_copy;
pub mod atomic;
pub mod bits;
pub mod block;
pub mod bulk;
pub mod cluster;
pub mod cluster_launch;
pub mod comparison;
pub mod composite;
pub mod contraction;
pub mod control;
pub mod conversion;
mod cta_group;
mod device_value;
pub mod element;
pub mod fence;
pub mod float;
pub mod index;
pub mod integer;
pub mod kernel;
pub mod launch;
pub mod length;
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
mod pointer_index;
pub mod recorder;
mod reg;
pub mod registers;
pub mod requirement;
pub mod role;
mod scalar_parameter;
pub mod shared;
mod sources;
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

pub use sources::Sources;
pub use warpwright_macros::{DeviceValue, KernelParameter, device, kernel, ptx, sources};

pub use device_value::DeviceValue;
pub use kernel::{Kernel, StagingErrors};
pub use value::Reg;
