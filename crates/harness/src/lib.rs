//! A kernel described once: what `warpwright run`, `check`, `bench`, `tune`, `ptx` and `report`
//! need of it.
//!
//! A *workload* is a plain struct whose fields are the options of a kernel. `derive(Options)` makes
//! flags, defaults, help texts, JSON and the search space of autotuning from the fields.
//! [`Workload`] adds what is computed, how it is launched and what the result must be:
//!
//! ```
//! use warpwright::prelude::*;
//! use warpwright::runtime::Device;
//! use warpwright_harness::{Options, Prepared, Result, Setup, Values, Work, Workload, exactly};
//!
//! struct Scale {
//!     threads: u32,
//! }
//!
//! impl Scale {
//!     #[kernel]
//!     fn run(&self, x: &Global<f32>, y: &mut Global<f32>, alpha: f32, length: u32) {
//!         launch::threads(self.threads);
//!         let i = block_idx().x * self.threads + thread_idx().x;
//!         if i < length {
//!             y[i] = x[i] * alpha;
//!         }
//!     }
//! }
//!
//! /// y = alpha x, elementwise.
//! #[derive(Clone, Debug, Options)]
//! struct ScaleWorkload {
//!     /// Elements of x and y.
//!     #[option(default = 1 << 20, min = 1)]
//!     length: u32,
//!     /// Factor of every element.
//!     #[option(default = 2.0)]
//!     alpha: f32,
//!     /// Threads per CTA.
//!     #[option(search = [128, 256, 512])]
//!     threads: Option<u32>,
//! }
//!
//! impl Workload for ScaleWorkload {
//!     const NAME: &'static str = "scale";
//!
//!     fn work(&self) -> Work {
//!         let elements = f64::from(self.length);
//!         Work { operations: elements, bytes: 8.0 * elements }
//!     }
//!
//!     fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
//!         let (length, alpha) = (self.length, self.alpha);
//!         let scale = Scale { threads: self.threads.unwrap_or(256) };
//!         let kernel = setup.device().compile(&scale.run()?)?;
//!         let ctas = length.div_ceil(scale.threads);
//!         let buffers = setup.buffers(self.work(), |seed| {
//!             let x = setup.values::<f32>(Values::Normal, seed, length as usize)?;
//!             Ok((x, setup.output::<f32>(length as usize)?))
//!         })?;
//!         Ok(buffers
//!             .launch(move |stream, (x, y)| Ok(kernel.launch(stream, ctas, (x, y, alpha, length))?))
//!             .verify(move |(x, y)| {
//!                 let x = x.to_vec()?;
//!                 exactly(&y.to_vec()?, |index| f64::from(x[index] * alpha))
//!             }))
//!     }
//! }
//!
//! let mut scale = warpwright_harness::Entry::of::<ScaleWorkload>().workload();
//! scale.set("alpha", "0.37")?;
//! assert_eq!(scale.flags(), "--length 1048576 --alpha 0.37 --threads auto");
//! scale.set("length", "1000")?;
//! let device = Device::named("emu:h200")?;
//! let mut prepared = scale.prepare(&Setup::new(&device))?;
//! prepared.launch(&device.stream()?)?;
//! assert_eq!(prepared.verify()?.elements, 1000);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Writing a workload
//!
//! - The struct's doc comment is the summary of the kernel in `--help`, and a field's doc comment
//!   is the help text of its flag: a sentence, the default is appended. Field `ctas_per_sm` is
//!   `--ctas-per-sm`; `#[option(name = "type")]` renames it.
//! - A field is an integer, a float, a `bool` (a flag without a value), an enum with
//!   strum's `EnumMessage`, `IntoStaticStr` and `VariantArray`, an enum of element types made by [`data_types!`], or an `Option` of one
//!   of them, which is `auto` by default. `default`, `min`, `max` and `search` (values that `tune`
//!   tries) are set in `#[option(..)]`. Options that several workloads share are a struct of their
//!   own with `derive(Options)` in a field with `#[option(flatten)]`.
//! - [`Setup`] makes the buffers. It generates inputs from the seed, poisons outputs, rotates
//!   through several sets of buffers on a GPU so that no launch finds its inputs in L2, and
//!   generates nothing on a device that executes nothing
//!   ([`Device::dry_run`](warpwright::runtime::Device::dry_run)).
//! - The PTX, the launch configuration, registers, shared memory and occupancy are read from the
//!   log of launches of the device; a workload does not state them.
//! - Add `Entry::of::<MyWorkload>()` to the list of workloads of the crate ([`Entry`]).

extern crate self as warpwright_harness;

mod compare;
mod copy;
mod error;
mod number;
mod options;
mod prepared;
mod random;
mod reference;
mod resources;
mod search;
mod setup;
mod work;
mod workload;

/// The types that [`data_types!`] knows.
#[doc(no_inline)]
pub use warpwright::lang::element::types;

pub use compare::{Compared, Mismatch, Verified, compare, compare_parallel, compare_parts, exactly, merge};
pub use error::{Refused, Result};
pub use number::{HostNumber, Values};
pub use options::{
    Automatic, Choice, Form, OptionError, OptionErrorKind, OptionSpec, OptionValue, Options, Plain, words,
};
pub use prepared::{Launched, Prepared, Rotation, SharedRotation};
pub use random::{Random, generate, normal, tiled};
pub use reference::{Strided, product};
pub use resources::Resources;
pub use search::{Candidate, Search};
#[doc(no_inline)]
pub use serde_json::Value as Json;
pub use setup::Setup;
pub use strum;
pub use warpwright_harness_macros::Options;
pub use work::Work;
pub use workload::{DynWorkload, Entry, Ladder, Measure, Workload};
