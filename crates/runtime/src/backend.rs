//! The interface that a device implements: a GPU, the emulator or a dry run.
//!
//! Sizes are in bytes; addresses are device addresses. The callers check ranges, devices and
//! half-written buffers, so an implementation may assume that its arguments are valid.

use std::any::Any;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_check::{Elements, Finding};
use warpwright_count::Counters;
use warpwright_emulator::Limit;
use warpwright_ptx::syntax;

use crate::assemblers::Assemblers;
use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::launch_log::LaunchLog;
use crate::properties::DeviceProperties;
use crate::reading::Reading;

/// A handle of a stream, an event or a host allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) usize);

/// The position of a call in the user's program.
pub(crate) type Call = &'static Location<'static>;

/// The devices as those of one kind; `None` if one is of another.
pub(crate) fn of_one_kind<'a, B: Backend + 'static>(devices: &[&'a dyn Backend]) -> Option<Vec<&'a B>> {
    devices.iter().map(|device| device.as_any().downcast_ref()).collect()
}

/// What the checkers assume of the predecessor that a launch may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predecessor {
    /// It is the launch in front, if there is one.
    AsLaunched,
    /// Where there is none: a kernel that writes all of global memory.
    WritesEverything,
}

/// Receives what kernels print.
pub(crate) struct Printer(pub(crate) Box<dyn FnMut(&str) + Send>);

/// One device.
pub(crate) trait Backend: Send + Sync {
    fn properties(&self) -> &DeviceProperties;
    /// The current clocks, power and temperature.
    fn reading(&self) -> Reading {
        Reading::default()
    }
    /// The version of the installed driver, if it is known.
    fn driver_version(&self) -> Option<String> {
        None
    }

    /// Whether launches execute nothing.
    fn is_dry_run(&self) -> bool {
        false
    }
    /// The device that loads the kernels of this one, if it is a rehearsal.
    fn rehearses(&self) -> Option<&Arc<dyn Backend>> {
        None
    }
    /// What assembles its kernels before they are loaded, if it is a rehearsal.
    fn assemblers(&self) -> Option<&Assemblers> {
        None
    }
    /// The launch log.
    fn launch_log(&self) -> &LaunchLog;

    /// Turns on checking of all later launches. Returns whether the device supports it.
    fn check_launches(&self, predecessor: Predecessor) -> bool;
    /// The remarks of the checkers since the previous call.
    fn take_remarks(&self) -> Vec<Finding> {
        Vec::new()
    }
    /// Passes what kernels print to a function. Returns whether the device supports it.
    fn print_to(&self, _printer: Printer) -> bool {
        false
    }
    /// Turns on counting of all later launches. Returns whether the device supports it.
    fn count_launches(&self) -> bool;
    /// Sets how much each later launch may execute. Returns whether the device supports it.
    fn limit_launches(&self, _limit: Limit) -> bool {
        false
    }
    /// The counters of the launches since the previous call. Launches of one kernel with the same
    /// extents are added up.
    fn take_counters(&self) -> Vec<Counters>;

    /// Allocates device memory. One of 0 bytes has an address of its own, too.
    fn allocate(&self, bytes: usize) -> Result<u64>;
    /// Frees memory of [`allocate`](Self::allocate) or [`share`](Self::share).
    fn free(&self, address: u64);
    /// Allocates memory of this device that these others access, too; `None` if they cannot.
    fn share(&self, others: &[&dyn Backend], bytes: usize) -> Result<Option<u64>>;
    /// The device as what it is.
    fn as_any(&self) -> &dyn Any;
    /// Waits for all work on the device, then copies.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()>;
    /// Waits for all work on the device, then sets bytes to zero.
    fn zero(&self, to: &Elements, call: Call) -> Result<()> {
        self.synchronize()?;
        let stream = self.create_stream(call)?;
        let filled = self.fill(stream, to, 0, call).and_then(|()| self.synchronize_stream(stream));
        self.destroy_stream(stream);
        filled
    }
    /// Waits for all work on the device, then copies.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()>;
    /// Returns an error if the host reads elements that nothing has written, and the device checks it.
    fn expect_written(&self, _read: &Elements, _call: Call) -> Result<()> {
        Ok(())
    }
    fn synchronize(&self) -> Result<()>;

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>>;
    /// # Safety
    /// `pointer` is from `allocate_host(bytes)`, is freed once, and is no longer used by the host
    /// or the device.
    unsafe fn free_host(&self, pointer: NonNull<u8>, bytes: usize);

    fn create_stream(&self, call: Call) -> Result<Handle>;
    fn destroy_stream(&self, stream: Handle);
    fn synchronize_stream(&self, stream: Handle) -> Result<()>;
    fn stream_is_idle(&self, stream: Handle) -> Result<bool>;
    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()>;
    fn fill(&self, stream: Handle, to: &Elements, byte: u8, call: Call) -> Result<()>;
    /// Copies between elements of equal size.
    fn copy(&self, stream: Handle, to: &Elements, from: &Elements, call: Call) -> Result<()>;
    /// # Safety
    /// `from` is host memory of this backend, of the size of `to`, that stays alive and unwritten until
    /// the copy is complete.
    unsafe fn copy_to_device(
        &self,
        stream: Handle,
        to: &Elements,
        from: NonNull<u8>,
        call: Call,
    ) -> Result<()>;
    /// # Safety
    /// `to` is host memory of this backend, of the size of `from`, that stays alive and is not accessed
    /// until the copy is complete.
    unsafe fn copy_to_host(&self, stream: Handle, to: NonNull<u8>, from: &Elements, call: Call)
    -> Result<()>;

    fn create_event(&self) -> Result<Handle>;
    fn destroy_event(&self, event: Handle);
    fn record(&self, event: Handle, stream: Handle) -> Result<()>;
    fn synchronize_event(&self, event: Handle) -> Result<()>;
    fn event_is_reached(&self, event: Handle) -> Result<bool>;
    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration>;

    /// Encodes a valid tensor map.
    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]>;

    /// Loads a module. `parsed` is the syntax tree of `ptx`; it is absent if only the driver can
    /// parse the text.
    fn load(&self, ptx: &str, parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>>;

    /// A graph of what `enqueue` puts on a stream, with these kernels, or `None` if a launch of the graph
    /// runs its nodes.
    fn instantiate(
        &self,
        _kernels: Vec<Arc<str>>,
        _enqueue: &dyn Fn(Handle) -> Result<()>,
    ) -> Result<Option<Box<dyn LoadedGraph>>> {
        Ok(None)
    }
}

/// A graph that the device launches as a whole.
pub(crate) trait LoadedGraph: Send + Sync {
    fn launch(&self, stream: Handle) -> Result<()>;
}

/// A module loaded on a device.
pub(crate) trait LoadedModule: Send + Sync {
    /// The kernel of that name, or `None`. The kernel keeps the module loaded.
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>>;
    /// Address and size of a global variable, or `None`.
    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>>;
}

/// A kernel of a loaded module. It caches what a launch needs.
pub(crate) trait LoadedKernel: Send + Sync {
    fn attributes(&self) -> &KernelAttributes;
    /// The maximum number of clusters of a launch that are resident at the same time, or `None` if
    /// the device does not report it.
    fn resident_clusters(&self, _launch: &Launch) -> Result<Option<u32>> {
        Ok(None)
    }
    fn launch(
        &self,
        stream: Handle,
        launch: &Launch,
        arguments: &[Packed<'_>],
        call: Call,
    ) -> Result<LaunchCounts>;
}

/// One argument, as it is in the parameter bank.
pub(crate) struct Packed<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// The alignment of its parameter.
    pub(crate) align: usize,
}

/// Returns an error if `of`, the device of `what`, is not the device `on`.
#[inline]
pub(crate) fn same_device(what: &'static str, of: &Arc<dyn Backend>, on: &Arc<dyn Backend>) -> Result<()> {
    if Arc::ptr_eq(of, on) {
        return Ok(());
    }
    same_gpu(what, of, on)
}

/// Returns an error if a kernel of `of` cannot be launched on a stream of `on`: its own device, or a rehearsal for it.
#[inline]
pub(crate) fn loads_kernels_of(of: &Arc<dyn Backend>, on: &Arc<dyn Backend>) -> Result<()> {
    same_device("the kernel", of, on.rehearses().unwrap_or(on))
}

#[cold]
fn same_gpu(what: &'static str, of: &Arc<dyn Backend>, on: &Arc<dyn Backend>) -> Result<()> {
    let (of_properties, on_properties) = (of.properties(), on.properties());
    // Two handles of one GPU share its context. Two emulated devices share nothing, even if their
    // names are equal, and neither do dry runs.
    let is_real = !of_properties.is_emulated && !of.is_dry_run() && !on.is_dry_run();
    if is_real && of_properties.name == on_properties.name {
        return Ok(());
    }
    let name = |properties: &DeviceProperties, other: &DeviceProperties| {
        if properties.name == other.name {
            format!("another {}", properties.name)
        } else {
            properties.name.clone()
        }
    };
    Err(Error::WrongDevice { what, of: name(of_properties, on_properties), on: on_properties.name.clone() })
}
