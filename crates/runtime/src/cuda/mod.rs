//! A GPU, accessed through the CUDA driver.

mod assemble;
pub(crate) mod cublas;
mod driver;
mod graph;
mod module;
pub(crate) mod nccl;
mod nvml;
mod shared;
mod tensor_map;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_arch::{CAPABILITIES, Capability};
use warpwright_check::Elements;
use warpwright_count::Counters;
use warpwright_ptx::syntax;

use crate::backend::{Backend, Call, Handle, LoadedGraph, LoadedModule, Predecessor, of_one_kind};
use crate::error::{Error, Result};
use crate::launch_log::LaunchLog;
use crate::properties::DeviceProperties;
use crate::reading::Reading;
use driver::{Driver, Failure, device_attribute, status};
use nvml::Nvml;
use shared::Mapping;

/// A GPU, with its primary context.
pub(crate) struct Cuda {
    context: Arc<Context>,
    ordinal: u32,
    /// Its memory that other GPUs access.
    shared: Mutex<BTreeMap<u64, Mapping>>,
    log: LaunchLog,
    properties: DeviceProperties,
}

/// The primary context of a GPU, shared by the device and its modules.
struct Context {
    driver: &'static Driver,
    device: driver::DeviceHandle,
    handle: driver::Handle,
    capture: graph::CaptureLock,
    /// The fault that made the context unusable.
    lost: OnceLock<Error>,
    /// Kernels launched since the last successful synchronization. If the device has failed, one of
    /// them is the cause.
    launched: Mutex<BTreeSet<String>>,
    /// Number of successful synchronizations. A kernel is noted once between two of them.
    wells: AtomicU64,
}

// SAFETY: the driver's functions may be called from any thread, and contexts, streams, events and
// modules may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; what Rust itself shares is behind a lock.
unsafe impl Sync for Context {}

impl Context {
    /// Makes the context current on this thread, unless a fault made it unusable.
    fn enter(&self) -> Result<&'static Driver> {
        if let Some(error) = self.lost.get() {
            return Err(error.clone());
        }
        // SAFETY: the context was retained and is released only when `self` is dropped.
        self.check(unsafe { self.driver.cuCtxSetCurrent(self.handle) })?;
        Ok(self.driver)
    }

    /// Converts a driver status to a result, and records a fault that makes the context unusable.
    fn check(&self, outcome: std::result::Result<(), Failure>) -> Result<()> {
        outcome.map_err(|failure| self.error(failure))
    }

    fn error(&self, failure: Failure) -> Error {
        let (name, description) = self.driver.describe(failure.code);
        let call = failure.call;
        if !status::STICKY.contains(&failure.code) {
            return Error::Driver { call, name, description };
        }
        let kernels = self.launched().iter().cloned().collect();
        self.lost.get_or_init(|| Error::DeviceLost { call, name, description, kernels }).clone()
    }

    /// As [`check`](Self::check). On success, all earlier launches have succeeded.
    fn check_all_done(&self, outcome: std::result::Result<(), Failure>) -> Result<()> {
        self.check(outcome)?;
        let mut launched = self.launched();
        launched.clear();
        self.wells.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// As [`check`](Self::check), for queries whose answer may be "not ready".
    fn check_ready(&self, outcome: std::result::Result<(), Failure>) -> Result<bool> {
        match outcome {
            Err(Failure { code: status::NOT_READY, .. }) => Ok(false),
            other => self.check(other).map(|()| true),
        }
    }

    /// Records the kernel of a launch, unless `noted` shows that it was recorded since the last
    /// successful synchronization.
    fn note_launch(&self, kernel: &str, noted: &AtomicU64) {
        let wells = self.wells.load(Ordering::Relaxed);
        if noted.load(Ordering::Relaxed) != wells {
            self.launched().insert(kernel.to_owned());
            noted.store(wells, Ordering::Relaxed);
        }
    }

    fn launched(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was retained once for this value.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A driver call that failed before a context existed.
fn start_error(driver: &Driver, failure: Failure) -> Error {
    let (name, description) = driver.describe(failure.code);
    Error::Driver { call: failure.call, name, description }
}

fn open_driver() -> Result<&'static Driver> {
    Driver::get().map_err(|reason| Error::NoDriver { reason: reason.to_owned() })
}

impl Cuda {
    /// The number of GPUs that the driver reports.
    pub(crate) fn count() -> Result<u32> {
        let driver = open_driver()?;
        let mut count = 0;
        // SAFETY: the out-pointer is valid for the call.
        unsafe { driver.cuDeviceGetCount(&mut count) }.map_err(|failure| start_error(driver, failure))?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Opens a GPU and retains its primary context.
    pub(crate) fn open(ordinal: u32) -> Result<Self> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(Error::NoSuchGpu { ordinal, count });
        }
        let driver = open_driver()?;
        let start = |outcome: std::result::Result<(), Failure>| {
            outcome.map_err(|failure| start_error(driver, failure))
        };
        let mut device = 0;
        // SAFETY: the out-pointer is valid for the call, and the ordinal was checked.
        start(unsafe { driver.cuDeviceGet(&mut device, ordinal as c_int) })?;
        let properties =
            properties(driver, ordinal, device).map_err(|failure| start_error(driver, failure))?;
        let (major, minor) = properties.1;
        let properties = properties.0;
        let properties = DeviceProperties {
            capability: nearest_capability(major, minor)
                .ok_or(Error::TooOld { product: properties.product.clone(), capability: (major, minor) })?,
            ..properties
        };
        let mut handle = null_mut();
        // SAFETY: the out-pointer is valid for the call, and the device is the driver's.
        start(unsafe { driver.cuDevicePrimaryCtxRetain(&mut handle, device) })?;
        let context = Context {
            driver,
            device,
            handle,
            capture: graph::capture_lock(device),
            lost: OnceLock::new(),
            launched: Mutex::default(),
            wells: AtomicU64::new(0),
        };
        Ok(Self {
            context: Arc::new(context),
            ordinal,
            shared: Mutex::default(),
            properties,
            log: LaunchLog::default(),
        })
    }
}

/// The driver's description of a device, and its compute capability. The caller fills in the
/// limits.
fn properties(
    driver: &Driver,
    ordinal: u32,
    device: driver::DeviceHandle,
) -> std::result::Result<(DeviceProperties, (u32, u32)), Failure> {
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the out-pointer is valid for the call, and the device is the driver's.
        unsafe { driver.cuDeviceGetAttribute(&mut value, which, device) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0; 256];
    // SAFETY: the buffer has the length passed.
    unsafe { driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device) }?;
    // SAFETY: the driver ends the name with a zero inside the buffer.
    let product = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut global_bytes = 0;
    // SAFETY: the out-pointer is valid for the call.
    unsafe { driver.cuDeviceTotalMem_v2(&mut global_bytes, device) }?;
    let mut version = 0;
    // SAFETY: the out-pointer is valid for the call.
    unsafe { driver.cuDriverGetVersion(&mut version) }?;
    let (major, minor) = (attribute(device_attribute::MAJOR)?, attribute(device_attribute::MINOR)?);
    let version = u32::try_from(version).unwrap_or(0);
    let memory_hertz = f64::from(attribute(device_attribute::MEMORY_CLOCK_KHZ)?) * 1e3;
    let bus_bytes = f64::from(attribute(device_attribute::MEMORY_BUS_BITS)?) / 8.0;
    let properties = DeviceProperties {
        name: format!("cuda:{ordinal}"),
        product,
        is_emulated: false,
        capability: &CAPABILITIES[0],
        target: target(major, minor),
        sm_count: attribute(device_attribute::SM_COUNT)?,
        global_bytes: global_bytes as u64,
        l2_bytes: u64::from(attribute(device_attribute::L2_BYTES)?),
        boost_mhz: attribute(device_attribute::CLOCK_KHZ)? / 1000,
        // The memory transfers data on both clock edges.
        bytes_per_second: 2.0 * memory_hertz * bus_bytes,
        driver: Some((version / 1000, version % 1000 / 10)),
    };
    Ok((properties, (major, minor)))
}

/// The `.target` of a compute capability, with architecture-specific instructions from 9.0 on.
fn target(major: u32, minor: u32) -> String {
    let suffix = if major >= 9 { "a" } else { "" };
    format!("sm_{major}{minor}{suffix}")
}

/// The table row of a capability, or of the nearest earlier one if the table lacks it.
fn nearest_capability(major: u32, minor: u32) -> Option<&'static Capability> {
    CAPABILITIES.iter().rev().find(|row| row.compute_capability <= (major, minor))
}

impl Backend for Cuda {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn reading(&self) -> Reading {
        let Context { driver, device, .. } = *self.context;
        let mut bus_id: [c_char; 32] = [0; 32];
        // SAFETY: the buffer has the length passed, and the device is the driver's.
        let known = unsafe { driver.cuDeviceGetPCIBusId(bus_id.as_mut_ptr(), bus_id.len() as c_int, device) };
        match (known, Nvml::get()) {
            // SAFETY: the driver ended the text with a zero inside the buffer.
            (Ok(()), Some(nvml)) => nvml.reading(unsafe { CStr::from_ptr(bus_id.as_ptr()) }),
            _ => Reading::default(),
        }
    }

    fn driver_version(&self) -> Option<String> {
        Nvml::get()?.driver_version()
    }

    fn launch_log(&self) -> &LaunchLog {
        &self.log
    }

    fn check_launches(&self, _: Predecessor) -> bool {
        false
    }

    fn count_launches(&self) -> bool {
        false
    }

    fn take_counters(&self) -> Vec<Counters> {
        Vec::new()
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let driver = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the out-pointer is valid for the call.
        match unsafe { driver.cuMemAlloc_v2(&mut address, bytes.max(1)) } {
            Err(Failure { code: status::OUT_OF_MEMORY, .. }) => {
                Err(Error::OutOfMemory { bytes: bytes as u64, device: self.properties.name.clone() })
            }
            other => self.context.check(other).map(|()| address),
        }
    }

    fn free(&self, address: u64) {
        if self.unshare(address) {
            return;
        }
        // After a fault the context has nothing left to free.
        let Ok(driver) = self.context.enter() else { return };
        let _no_capture = self.context.without_capture();
        // SAFETY: the address is from `allocate` and is freed once; the driver waits for work that
        // uses it.
        let _ = self.context.check(unsafe { driver.cuMemFree_v2(address) });
    }

    fn share(&self, others: &[&dyn Backend], bytes: usize) -> Result<Option<u64>> {
        of_one_kind(others).map_or(Ok(None), |others| self.share_with(&others, bytes))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.synchronize()?;
        let driver = self.context.enter()?;
        // SAFETY: the caller owns `bytes.len()` bytes at `address`; the call returns once the
        // host's bytes were read.
        self.context.check(unsafe { driver.cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) })?;
        // Later work on other streams must see the copy, which may still be in flight from a
        // staging buffer.
        self.synchronize()
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.synchronize()?;
        let driver = self.context.enter()?;
        // SAFETY: the caller owns `bytes.len()` bytes at `address`; the call returns once the
        // host's bytes were written.
        self.context.check(unsafe { driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) })
    }

    fn synchronize(&self) -> Result<()> {
        let driver = self.context.enter()?;
        let _no_capture = self.context.without_capture();
        // SAFETY: the context is current.
        self.context.check_all_done(unsafe { driver.cuCtxSynchronize() })
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        let driver = self.context.enter()?;
        let mut pointer = null_mut();
        // SAFETY: the out-pointer is valid for the call.
        self.context.check(unsafe { driver.cuMemHostAlloc(&mut pointer, bytes, driver::HOST_PORTABLE) })?;
        NonNull::new(pointer.cast())
            .ok_or_else(|| Error::OutOfMemory { bytes: bytes as u64, device: "the host".to_owned() })
    }

    unsafe fn free_host(&self, pointer: NonNull<u8>, _bytes: usize) {
        let Ok(driver) = self.context.enter() else { return };
        // SAFETY: the caller passes a pointer from `allocate_host`, once, that is no longer used.
        let _ = self.context.check(unsafe { driver.cuMemFreeHost(pointer.as_ptr().cast()) });
    }

    fn create_stream(&self, _call: Call) -> Result<Handle> {
        let driver = self.context.enter()?;
        let mut stream = null_mut();
        // SAFETY: the out-pointer is valid for the call.
        self.context.check(unsafe { driver.cuStreamCreate(&mut stream, driver::STREAM_NON_BLOCKING) })?;
        Ok(wrap(stream))
    }

    fn destroy_stream(&self, stream: Handle) {
        let Ok(driver) = self.context.enter() else { return };
        // SAFETY: the stream is from `create_stream` and is destroyed once; the driver lets its
        // work finish.
        let _ = self.context.check(unsafe { driver.cuStreamDestroy_v2(raw(stream)) });
    }

    fn synchronize_stream(&self, stream: Handle) -> Result<()> {
        let driver = self.context.enter()?;
        // SAFETY: the stream is alive.
        self.context.check(unsafe { driver.cuStreamSynchronize(raw(stream)) })
    }

    fn stream_is_idle(&self, stream: Handle) -> Result<bool> {
        let driver = self.context.enter()?;
        // SAFETY: the stream is alive.
        self.context.check_ready(unsafe { driver.cuStreamQuery(raw(stream)) })
    }

    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()> {
        let driver = self.context.enter()?;
        // SAFETY: the stream and the event are alive.
        self.context.check(unsafe { driver.cuStreamWaitEvent(raw(stream), raw(event), 0) })
    }

    fn fill(&self, stream: Handle, to: &Elements, byte: u8, _call: Call) -> Result<()> {
        let driver = self.context.enter()?;
        // SAFETY: the caller owns the elements, and freeing them waits for the stream.
        self.context
            .check(unsafe { driver.cuMemsetD8Async(to.address(), byte, to.bytes as usize, raw(stream)) })
    }

    fn copy(&self, stream: Handle, to: &Elements, from: &Elements, _call: Call) -> Result<()> {
        let driver = self.context.enter()?;
        let (to, from, bytes) = (to.address(), from.address(), from.bytes as usize);
        // SAFETY: the caller owns `bytes` bytes at both addresses, and freeing them waits for the
        // stream.
        self.context.check(unsafe { driver.cuMemcpyDtoDAsync_v2(to, from, bytes, raw(stream)) })
    }

    unsafe fn copy_to_device(
        &self,
        stream: Handle,
        to: &Elements,
        from: NonNull<u8>,
        _call: Call,
    ) -> Result<()> {
        let driver = self.context.enter()?;
        let (to, bytes) = (to.address(), to.bytes as usize);
        // SAFETY: the caller keeps the host's bytes alive and unwritten until the copy is complete.
        self.context
            .check(unsafe { driver.cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, raw(stream)) })
    }

    unsafe fn copy_to_host(
        &self,
        stream: Handle,
        to: NonNull<u8>,
        from: &Elements,
        _call: Call,
    ) -> Result<()> {
        let driver = self.context.enter()?;
        let (from, bytes) = (from.address(), from.bytes as usize);
        // SAFETY: the caller keeps the host's bytes alive and does not access them until the copy
        // is complete.
        self.context
            .check(unsafe { driver.cuMemcpyDtoHAsync_v2(to.as_ptr().cast(), from, bytes, raw(stream)) })
    }

    fn create_event(&self) -> Result<Handle> {
        let driver = self.context.enter()?;
        let mut event = null_mut();
        // SAFETY: the out-pointer is valid for the call; flag 0 is an event with a time.
        self.context.check(unsafe { driver.cuEventCreate(&mut event, 0) })?;
        Ok(wrap(event))
    }

    fn destroy_event(&self, event: Handle) {
        let Ok(driver) = self.context.enter() else { return };
        // SAFETY: the event is from `create_event` and is destroyed once.
        let _ = self.context.check(unsafe { driver.cuEventDestroy_v2(raw(event)) });
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        let driver = self.context.enter()?;
        // SAFETY: the stream and the event are alive.
        self.context.check(unsafe { driver.cuEventRecord(raw(event), raw(stream)) })
    }

    fn synchronize_event(&self, event: Handle) -> Result<()> {
        let driver = self.context.enter()?;
        // SAFETY: the event is alive.
        self.context.check(unsafe { driver.cuEventSynchronize(raw(event)) })
    }

    fn event_is_reached(&self, event: Handle) -> Result<bool> {
        let driver = self.context.enter()?;
        // SAFETY: the event is alive.
        self.context.check_ready(unsafe { driver.cuEventQuery(raw(event)) })
    }

    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration> {
        let driver = self.context.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: the out-pointer is valid for the call, and the events are alive.
        match unsafe { driver.cuEventElapsedTime(&mut milliseconds, raw(start), raw(end)) } {
            // Either not reached yet, or never recorded (the driver reports an invalid handle).
            Err(Failure { code: status::NOT_READY | status::INVALID_HANDLE, .. }) => {
                Err(Error::EventNotReached)
            }
            other => self
                .context
                .check(other)
                .map(|()| Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3)),
        }
    }

    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        let driver = self.context.enter()?;
        let (encoded, outcome) = tensor_map::encode(driver, map);
        self.context.check(outcome).map(|()| encoded)
    }

    fn load(&self, ptx: &str, _parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>> {
        Ok(Arc::new(module::CudaModule::load(self.context.clone(), ptx, &self.properties)?))
    }

    fn instantiate(
        &self,
        kernels: Vec<Arc<str>>,
        enqueue: &dyn Fn(Handle) -> Result<()>,
    ) -> Result<Option<Box<dyn LoadedGraph>>> {
        Ok(Some(Box::new(graph::CudaGraph::new(self, kernels, enqueue)?)))
    }
}

fn raw(handle: Handle) -> driver::Handle {
    std::ptr::with_exposed_provenance_mut(handle.0)
}

fn wrap(handle: driver::Handle) -> Handle {
    Handle(handle.expose_provenance())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_past_the_table_keep_the_nearest_limits_and_their_own_target() {
        let row = |major, minor| nearest_capability(major, minor).map(|row| row.compute_capability);
        assert_eq!(row(9, 0), Some((9, 0)));
        assert_eq!(row(8, 7), Some((8, 6)));
        assert_eq!(row(10, 3), Some((10, 3)));
        assert_eq!(row(11, 0), Some((10, 3)));
        assert_eq!(row(13, 0), Some((12, 0)));
        assert_eq!(row(7, 5), None);
        assert_eq!(target(8, 6), "sm_86");
        assert_eq!(target(10, 3), "sm_103a");
    }
}
