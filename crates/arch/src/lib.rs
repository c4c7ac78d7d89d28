//! What each GPU and each instruction is, as data with sources.
//!
//! | Table | Content |
//! |---|---|
//! | [`limits`] | limits that all supported architectures share |
//! | [`Capability`] | the limits of one compute capability: an SM and a launch |
//! | [`Arch`] | one product: SMs, clocks, memory, tensor-core rates |
//! | [`Die`] | the silicon of a product: transistors, GPCs and TPCs |
//! | [`DataType`] | the data types of matrix elements |
//! | [`mma`], [`tcgen05`] | the shapes and data types of every MMA |
//! | [`instructions`] | every PTX instruction: spelling, operands, class, pipe, PTX versions and targets |
//! | [`Target`], [`SpecialRegister`] | the targets of modules, the special registers |
//! | [`tensor_map`] | tensor maps and their rules |
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
mod die;
pub mod instructions;
pub mod limits;
pub mod mma;
mod occupancy;
mod roofs;
mod special_registers;
mod target;
pub mod tcgen05;
pub mod tensor_map;
pub mod timing;

pub use arch::{ARCHITECTURES, Arch, TensorRates, UnknownArch};
pub use capability::{CAPABILITIES, Capability, OTHER_CAPABILITIES};
pub use data_type::DataType;
pub use die::Die;
pub use occupancy::{KernelResources, Limiter, Occupancy, OccupancyError, OneMore};
pub use roofs::{Bound, Roof};
pub use special_registers::SpecialRegister;
pub use target::{Features, Target};
