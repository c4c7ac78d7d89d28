//! The primary context of a GPU: entering it, and the faults that end it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use super::driver::{self, DeviceHandle, Driver, Failure, status};
use crate::error::{Error, Result};
use crate::properties::DeviceProperties;

/// Written while a stream of a GPU is captured: the driver then refuses to synchronize the GPU's
/// primary context, which all devices of the process for that GPU share.
pub(super) type CaptureLock = &'static RwLock<()>;

/// The lock of a GPU. Another GPU has another one: synchronizing one GPU may wait for a kernel that
/// waits for work that the host has yet to put on the other.
fn capture_lock(gpu: DeviceHandle) -> CaptureLock {
    static LOCKS: Mutex<BTreeMap<DeviceHandle, CaptureLock>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.entry(gpu).or_insert_with(|| Box::leak(Box::default()))
}

/// An allocation that is mapped on its peers.
pub(super) struct Mapping {
    pub(super) memory: u64,
    pub(super) bytes: usize,
}

/// The primary context of a GPU, shared by the device and its modules.
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    pub(super) device: DeviceHandle,
    handle: *mut c_void,
    pub(super) properties: DeviceProperties,
    /// Its memory that other GPUs access.
    pub(super) shared: Mutex<BTreeMap<u64, Mapping>>,
    pub(super) capture: CaptureLock,
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
    /// Retains the primary context of a GPU.
    pub(super) fn retain(
        driver: &'static Driver,
        device: DeviceHandle,
        properties: DeviceProperties,
    ) -> Result<Self> {
        let mut handle = null_mut();
        // SAFETY: the out-pointer is valid for the call, and the device is the driver's.
        let retained = unsafe { driver.cuDevicePrimaryCtxRetain(&mut handle, device) };
        retained.map_err(|failure| start_error(driver, failure))?;
        Ok(Self {
            driver,
            device,
            handle,
            properties,
            shared: Mutex::default(),
            capture: capture_lock(device),
            lost: OnceLock::new(),
            launched: Mutex::default(),
            wells: AtomicU64::new(0),
        })
    }

    /// Whether it is this context of the driver.
    pub(super) fn is(&self, handle: *mut c_void) -> bool {
        self.handle == handle
    }

    /// Makes the context current on this thread, unless a fault made it unusable.
    pub(super) fn enter(&self) -> Result<&'static Driver> {
        if let Some(error) = self.lost.get() {
            return Err(error.clone());
        }
        // SAFETY: the context was retained and is released only when `self` is dropped.
        self.check(unsafe { self.driver.cuCtxSetCurrent(self.handle) })?;
        Ok(self.driver)
    }

    /// Converts a driver status to a result, and records a fault that makes the context unusable.
    pub(super) fn check(&self, outcome: std::result::Result<(), Failure>) -> Result<()> {
        outcome.map_err(|failure| self.error(failure))
    }

    pub(super) fn error(&self, failure: Failure) -> Error {
        let (name, description) = self.driver.describe(failure.code);
        let call = failure.call;
        if !status::STICKY.contains(&failure.code) {
            return Error::Driver { call, name, description };
        }
        let kernels = self.launched().iter().cloned().collect();
        self.lost.get_or_init(|| Error::DeviceLost { call, name, description, kernels }).clone()
    }

    /// As [`check`](Self::check). On success, all earlier launches have succeeded.
    pub(super) fn check_all_done(&self, outcome: std::result::Result<(), Failure>) -> Result<()> {
        self.check(outcome)?;
        let mut launched = self.launched();
        launched.clear();
        self.wells.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// As [`check`](Self::check), for queries whose answer may be "not ready".
    pub(super) fn check_ready(&self, outcome: std::result::Result<(), Failure>) -> Result<bool> {
        match outcome {
            Err(Failure { code: status::NOT_READY, .. }) => Ok(false),
            other => self.check(other).map(|()| true),
        }
    }

    /// Records the kernel of a launch, unless `noted` shows that it was recorded since the last
    /// successful synchronization.
    pub(super) fn note_launch(&self, kernel: &str, noted: &AtomicU64) {
        let wells = self.wells.load(Ordering::Relaxed);
        if noted.load(Ordering::Relaxed) != wells {
            self.launched().insert(kernel.to_owned());
            noted.store(wells, Ordering::Relaxed);
        }
    }

    /// Waits for the end of a capture; none begins before the guard is dropped.
    pub(super) fn without_capture(&self) -> RwLockReadGuard<'static, ()> {
        self.capture.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// While it lives, this thread may allocate memory and load modules although another library captures a stream.
    pub(super) fn relaxed(&self) -> RelaxedCapture {
        let mut mode = driver::CAPTURE_RELAXED;
        // SAFETY: the pointer is valid for the call.
        let exchanged = unsafe { self.driver.cuThreadExchangeStreamCaptureMode(&mut mode) };
        RelaxedCapture { driver: self.driver, before: exchanged.is_ok().then_some(mode) }
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

/// Restores how this thread treats captures.
pub(super) struct RelaxedCapture {
    driver: &'static Driver,
    before: Option<c_uint>,
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        if let Some(mut mode) = self.before {
            // SAFETY: the pointer is valid for the call.
            let _ = unsafe { self.driver.cuThreadExchangeStreamCaptureMode(&mut mode) };
        }
    }
}

/// A driver call that failed before a context existed.
pub(super) fn start_error(driver: &Driver, failure: Failure) -> Error {
    let (name, description) = driver.describe(failure.code);
    Error::Driver { call: failure.call, name, description }
}
