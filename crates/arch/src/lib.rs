//! What each GPU is: limits, rates and occupancy. Data with sources.
//!
//! Two tables hold the data. A [`Capability`] is what every GPU of one compute capability shares: what an SM holds and what
//! a launch may ask for. An [`Arch`] is one product: how many SMs, how fast, how much memory.
//!
//! ```
//! use warpwright_arch::{Arch, KernelResources};
//!
//! let h200 = Arch::named("h200")?;
//! assert_eq!(h200.capability.shared_bytes_per_cta_opt_in, 227 * 1024);
//!
//! let kernel = KernelResources { threads_per_cta: 256, registers_per_thread: 64, ..Default::default() };
//! assert_eq!(h200.capability.occupancy(&kernel)?.ctas_per_sm, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arch;
mod capability;
mod data_type;
pub mod instructions;
pub mod limits;
pub mod mma;
mod occupancy;
mod roofs;
pub mod tcgen05;
pub mod tensor_map;

pub use arch::{ARCHITECTURES, Arch, TensorRates, UnknownArch};
pub use capability::{CAPABILITIES, Capability, OTHER_CAPABILITIES};
pub use data_type::DataType;
pub use occupancy::{KernelResources, Limiter, Occupancy, OccupancyError, OneMore};
pub use roofs::{Bound, Roof};
