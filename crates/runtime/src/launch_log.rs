//! A log of the launches of a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpwright_arch::{Capability, Occupancy};

use crate::attributes::KernelAttributes;
use crate::error::Result;
use crate::launch::Launch;

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct LaunchRecord {
    /// The name of the kernel.
    pub kernel: Arc<str>,
    /// The PTX of the kernel's module.
    pub ptx: Arc<str>,
    /// The launch configuration.
    pub launch: Launch,
    /// The kernel's resources. If the device has no assembler, `registers_per_thread` is the
    /// kernel's `.maxnreg`, or 0 without one.
    pub attributes: KernelAttributes,
    /// The compute capability of the device.
    pub capability: &'static Capability,
}

impl LaunchRecord {
    /// Static and dynamic shared memory of a CTA, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.attributes.shared_bytes + self.launch.dynamic_shared_bytes
    }

    /// The number of CTAs an SM holds, and what limits it.
    ///
    /// # Errors
    /// No CTA fits an SM.
    pub fn occupancy(&self) -> Result<Occupancy> {
        self.launch.occupancy(&self.kernel, &self.attributes, self.capability)
    }
}

/// The launches of a device while the log is on. While it is off, a launch only reads a flag.
#[derive(Default)]
pub(crate) struct LaunchLog {
    is_on: AtomicBool,
    records: Mutex<Vec<LaunchRecord>>,
}

impl LaunchLog {
    /// Empties the log and turns it on.
    pub(crate) fn begin(&self) {
        self.end();
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Turns the log off and empties it.
    pub(crate) fn end(&self) -> Vec<LaunchRecord> {
        self.is_on.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of launches in the log.
    pub(crate) fn len(&self) -> usize {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Appends the result of `record` if the log is on.
    #[inline]
    pub(crate) fn add(&self, record: impl FnOnce() -> LaunchRecord) {
        if self.is_on.load(Ordering::Relaxed) {
            self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record());
        }
    }
}
