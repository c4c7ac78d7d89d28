//! What lies below the handles of a device: three seams, which a GPU, the emulator and a dry run fill.
//!
//! ```text
//! Device, Buffer, Stream, Event, Graph, Module, Function     check, then call a seam
//!     Memory        allocations, addresses, copies that wait, peers, tensor maps
//!     Streams       streams, events, copies and fills on a stream, graphs
//!     Loader        modules and their variables, kernels, launches, occupancy
//! cuda, emulated, dry_run                                     fill the seams
//! ```
//!
//! Sizes are in bytes; addresses are device addresses. The callers check ranges, devices and
//! half-written buffers, so an implementation may assume that its arguments are valid.

mod loader;
mod memory;
mod observation;
mod streams;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::launch_log::LaunchLog;
use crate::properties::DeviceProperties;

pub(crate) use loader::{LoadedKernel, LoadedModule, Loader, Packed};
pub(crate) use memory::{Memory, of_one_kind};
pub(crate) use observation::{Observation, Predecessor, Printer};
pub(crate) use streams::{Call, Handle, LoadedGraph, Streams};

/// One device: its properties, and what fills its seams. The handles of a device share it.
pub(crate) struct Backend {
    pub(crate) properties: DeviceProperties,
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) streams: Arc<dyn Streams>,
    pub(crate) loader: Arc<dyn Loader>,
    /// What checks, counts and limits launches; only the emulator does.
    pub(crate) observation: Option<Arc<dyn Observation>>,
    pub(crate) log: LaunchLog,
    /// Whether launches execute nothing.
    pub(crate) is_dry_run: bool,
    /// The device that its kernels are loaded on, if it is a rehearsal for one.
    pub(crate) rehearses: Option<Arc<Self>>,
}

impl Backend {
    /// A device whose seams one value fills.
    pub(crate) fn new<S: Memory + Streams + Loader + 'static>(
        properties: DeviceProperties,
        seams: Arc<S>,
    ) -> Self {
        Self {
            properties,
            memory: seams.clone(),
            streams: seams.clone(),
            loader: seams,
            observation: None,
            log: LaunchLog::default(),
            is_dry_run: false,
            rehearses: None,
        }
    }
}

/// Returns an error if `of`, the device of `what`, is not the device `on`.
#[inline]
pub(crate) fn same_device(what: &'static str, of: &Arc<Backend>, on: &Arc<Backend>) -> Result<()> {
    if Arc::ptr_eq(of, on) {
        return Ok(());
    }
    same_gpu(what, of, on)
}

/// Returns an error if a kernel of `of` cannot be launched on a stream of `on`: its own device, or a rehearsal for it.
#[inline]
pub(crate) fn loads_kernels_of(of: &Arc<Backend>, on: &Arc<Backend>) -> Result<()> {
    same_device("the kernel", of, on.rehearses.as_ref().unwrap_or(on))
}

#[cold]
fn same_gpu(what: &'static str, of: &Backend, on: &Backend) -> Result<()> {
    // Two handles of one GPU share its context. Two emulated devices share nothing, even if their
    // names are equal, and neither do dry runs.
    let is_real = !of.properties.is_emulated && !of.is_dry_run && !on.is_dry_run;
    let (of, on) = (&of.properties, &on.properties);
    if is_real && of.name == on.name {
        return Ok(());
    }
    let of = if of.name == on.name { format!("another {}", of.name) } else { of.name.clone() };
    Err(Error::WrongDevice { what, of, on: on.name.clone() })
}
