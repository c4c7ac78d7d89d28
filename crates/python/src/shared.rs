//! What the objects of a device share: a device of the runtime for each schedule.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use warpwright::runtime::{self, Schedule};

use crate::error::DeviceError;

/// A device under one schedule.
pub(crate) struct Part {
    pub(crate) schedule: Schedule,
    pub(crate) device: runtime::Device,
    pub(crate) stream: runtime::Stream,
}

/// What the objects of a device share.
pub(crate) struct Shared {
    pub(crate) parts: Vec<Part>,
    /// What kernels have printed.
    pub(crate) printed: Arc<Mutex<String>>,
    /// The process that opened it: the emulator's threads are its own.
    pub(crate) process: u32,
}

impl Shared {
    pub(crate) fn first(&self) -> &runtime::Device {
        &self.parts[0].device
    }

    pub(crate) fn is_emulated(&self) -> bool {
        self.first().properties().is_emulated
    }

    /// What kernels have printed since the previous call.
    pub(crate) fn take_printed(&self) -> String {
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refuses the use in a process that has forked from the one that opened it.
    pub(crate) fn expect_own_process(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(DeviceError::new_err(format!(
            "the device {} was opened before this process forked, and its threads are of the parent; open the device in \
             the child, or start the child with multiprocessing's `spawn`",
            self.first().name()
        )))
    }
}
