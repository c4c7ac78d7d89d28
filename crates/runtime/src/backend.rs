//! What a device must be able to do: the seam between the public API and the two machines behind
//! it.
//!
//! Sizes are in bytes and addresses are the device's. The API above checks ranges, devices and
//! half-written buffers, so an implementation may assume that what it is handed belongs to it and
//! fits.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_count::Counters;
use warpwright_ptx::syntax;

use crate::device::DeviceProperties;
use crate::error::Result;
use crate::launch::Launch;
use crate::launch_log::LaunchLog;
use crate::reading::Reading;

/// A stream, event or host allocation of a backend: what the driver calls a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) usize);

/// One device.
pub(crate) trait Backend: Send + Sync {
    fn properties(&self) -> &DeviceProperties;
    /// Clocks, power and heat now.
    fn reading(&self) -> Reading {
        Reading::default()
    }
    /// The version of the installed driver, where it is known.
    fn driver_version(&self) -> Option<String> {
        None
    }

    /// Whether launches execute nothing.
    fn is_dry_run(&self) -> bool {
        false
    }
    /// The log of launches.
    fn launch_log(&self) -> &LaunchLog;

    /// Has every launch from now on checked; whether the device can.
    fn check_launches(&self) -> bool;
    /// Has every launch from now on counted; whether the device can.
    fn count_launches(&self) -> bool;
    /// What the launches did since this was last asked; launches of one kernel with the same
    /// extents as one.
    fn take_counters(&self) -> Vec<Counters>;

    fn allocate(&self, bytes: usize) -> Result<u64>;
    fn free(&self, address: u64);
    /// Waits for all work on the device, then copies.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()>;
    /// Waits for all work on the device, then copies.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()>;
    fn synchronize(&self) -> Result<()>;

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>>;
    /// # Safety
    /// `pointer` is from `allocate_host(bytes)`, is freed once, and nothing uses it any more, the
    /// device included.
    unsafe fn free_host(&self, pointer: NonNull<u8>, bytes: usize);

    fn create_stream(&self) -> Result<Handle>;
    fn destroy_stream(&self, stream: Handle);
    fn synchronize_stream(&self, stream: Handle) -> Result<()>;
    fn stream_is_idle(&self, stream: Handle) -> Result<bool>;
    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()>;
    fn fill(&self, stream: Handle, address: u64, byte: u8, bytes: usize) -> Result<()>;
    fn copy(&self, stream: Handle, to: u64, from: u64, bytes: usize) -> Result<()>;
    /// # Safety
    /// `from` is host memory of this backend, alive and not written until the stream has done the
    /// copy.
    unsafe fn copy_to_device(&self, stream: Handle, to: u64, from: NonNull<u8>, bytes: usize) -> Result<()>;
    /// # Safety
    /// `to` is host memory of this backend, alive and not touched until the stream has done the
    /// copy.
    unsafe fn copy_to_host(&self, stream: Handle, to: NonNull<u8>, from: u64, bytes: usize) -> Result<()>;

    fn create_event(&self) -> Result<Handle>;
    fn destroy_event(&self, event: Handle);
    fn record(&self, event: Handle, stream: Handle) -> Result<()>;
    fn synchronize_event(&self, event: Handle) -> Result<()>;
    fn event_is_reached(&self, event: Handle) -> Result<bool>;
    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration>;

    /// Encodes a tensor map that keeps the rules.
    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]>;

    /// Loads a module; `parsed` is the same text as `ptx`, absent where only the driver can read
    /// it.
    fn load(&self, ptx: &str, parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>>;
}

/// A module on a device.
pub(crate) trait LoadedModule: Send + Sync {
    /// The kernel of that name, which keeps the module; `None` if there is none.
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>>;
    /// Address and size of a global variable; `None` if there is none.
    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>>;
}

/// A kernel of a module on a device: what a launch would have to look for has been found.
pub(crate) trait LoadedKernel: Send + Sync {
    fn attributes(&self) -> &KernelAttributes;
    /// How many clusters of a launch the device holds at once; `None` where nobody tells.
    fn clusters_at_once(&self, _launch: &Launch) -> Result<Option<u32>> {
        Ok(None)
    }
    fn launch(&self, stream: Handle, launch: &Launch, arguments: &[Packed<'_>]) -> Result<LaunchCounts>;
}

/// One argument, as the parameter bank holds it.
pub(crate) struct Packed<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// The alignment of its parameter.
    pub(crate) align: usize,
}

/// What the assembler made of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelAttributes {
    /// Registers of a thread; 0 where the device does not tell.
    pub registers_per_thread: u32,
    /// Static shared memory of a CTA, in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread, in bytes.
    pub local_bytes: u32,
    /// Threads of a CTA, at most.
    pub threads_per_cta: u32,
}

/// What an emulated launch executed. A GPU does not count; all is 0 there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchCounts {
    /// Instructions issued, counted once a warp.
    pub warp_instructions: u64,
    /// Instructions issued, counted once for every lane they were for.
    pub lane_operations: u64,
    /// Multiply-adds of matrix instructions.
    pub mma_multiply_adds: u64,
}
