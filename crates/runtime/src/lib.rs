//! `Device`, `Stream`, `Event`, `Buffer`, `Module`: one API for GPUs and the emulator.
//!
//! The same PTX runs on both. A GPU needs only its driver: `libcuda.so.1` is loaded when the first
//! GPU is opened. Without a GPU, the emulator is the device.
//!
//! ```
//! use warpwright_runtime::{Device, Launch};
//!
//! # let device = Device::named("emu:h200")?; let ptx = include_str!("../tests/ptx/vector.ptx");
//! let module = device.load_ptx(ptx)?;
//! let add = module.function("add")?;
//! let x = device.buffer_from(&[1.0f32, 2.0, 3.0])?;
//! let y = device.buffer_from(&[10.0f32, 20.0, 30.0])?;
//! let mut sum = device.uninitialized::<f32>(3)?;
//! let stream = device.stream()?;
//! add.launch(&stream, Launch::new(1, 128), (&x, &y, &mut sum, 3u32))?;
//! assert_eq!(sum.to_vec()?, [11.0, 22.0, 33.0]);
//! # Ok::<(), warpwright_runtime::Error>(())
//! ```

mod allocation;
mod arguments;
mod assemblers;
mod attributes;
mod backend;
mod buffer;
mod capture;
mod compile;
pub mod cublas;
mod cuda;
mod device;
mod dry_run;
mod emulated;
mod error;
mod foreign;
mod graph;
mod host;
mod launch;
mod launch_check;
mod launch_log;
mod module;
pub mod nccl;
mod node;
mod open;
mod peers;
mod properties;
mod raw;
mod reading;
mod signature;
mod stream;
mod tensor_map;
mod tensor_map_parameter;
mod tile_maps;

pub use arguments::{Argument, Arguments, AsArgument, KernelArguments};
pub use assemblers::Assemblers;
pub use attributes::{KernelAttributes, LaunchCounts};
pub use buffer::{Buffer, Storable};
pub use compile::{Compiled, HostParameter, LaunchShape, ptx};
pub use device::Device;
pub use error::{Error, Result, TensorMapMismatch};
pub use graph::Graph;
pub use host::HostBuffer;
pub use launch::{Extents, Launch};
pub use launch_log::LaunchRecord;
pub use module::{Function, Module};
pub use properties::DeviceProperties;
pub use raw::{RawDevice, RawEvent, RawStream};
pub use reading::Reading;
pub use signature::{Parameter, ParameterKind};
pub use stream::{Event, Stream};
pub use tensor_map::{MappedBuffer, TensorMap};
pub use tile_maps::TileMaps;
pub use warpwright_check::{
    Finding, FindingKind, Label, SourceFiles, codes, explain, ordered, render, render_causes,
};
pub use warpwright_count::{
    CopyCounts, Counters, Counts, InstructionCounts, LineCounts, SectorCounts, SharedCounts, Unit, Work,
};
pub use warpwright_emulator::{Limit, Schedule, Source};
pub use warpwright_time::{Assumption, Prediction, Slice, Stall, TimedInstruction, Track};
