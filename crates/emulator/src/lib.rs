//! Executes PTX without a GPU and reports faults.
//!
//! ```
//! use warpwright_arch::Arch;
//! use warpwright_emulator::{Emulator, Launch};
//!
//! let text = "
//!     .version 8.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry double(.param .u64 values) {
//!         .reg .u32 %r<3>;
//!         .reg .u64 %rd<4>;
//!         ld.param.u64 %rd0, [values];
//!         mov.u32 %r0, %tid.x;
//!         mul.wide.u32 %rd1, %r0, 4;
//!         add.u64 %rd2, %rd0, %rd1;
//!         ld.global.u32 %r1, [%rd2];
//!         shl.b32 %r2, %r1, 1;
//!         st.global.u32 [%rd2], %r2;
//!         ret;
//!     }";
//! let mut device = Emulator::new(Arch::named("a100")?)?;
//! let program = device.load(&warpwright_ptx::parse(text)?)?;
//! let values = device.allocate(16)?;
//! device.write(values, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])?;
//! let launch = Launch { block: [4, 1, 1], parameters: &values.to_le_bytes(), ..Launch::default() };
//! device.launch(&program, "double", &launch)?;
//! let mut doubled = [0; 16];
//! device.read(values, &mut doubled)?;
//! assert_eq!(doubled, [2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/emulator.md` describes the design and its performance.

// A loop over lanes indexes several columns in parallel.
#![allow(clippy::needless_range_loop)]

mod cta;
mod decode;
mod emulator;
mod execution;
mod host;
mod instructions;
mod kernel;
mod lanes;
mod launch;
mod load;
mod load_error;
mod memory;
pub mod numeric;
mod operation;
mod program;
mod registers;
mod scheduling;
pub mod tensor;
pub mod tensor_map;

pub use emulator::{Emulator, StartError};
pub use kernel::image::{Kernel, KernelParameter, LaunchBounds};
pub use launch::limit::{Interrupt, Limit};
pub use launch::schedule::Schedule;
pub use load_error::LoadError;
pub use memory::{Memory, MemoryError, SharedRegion, available_host_bytes};
pub use program::{ModuleVariable, Program};
pub use scheduling::grid::{Launch, LaunchReport};
pub use warpwright_events::{Fault, FaultKind, LaunchInfo, LaunchObserver, Source};
