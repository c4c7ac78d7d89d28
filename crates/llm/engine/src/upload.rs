//! Numbers that the host writes and the device reads.

use std::ops::Deref;

use warpwright::runtime::{Buffer, Device, HostBuffer, Storable, Stream};

use crate::error::Result;

/// A buffer on the device and its copy in page-locked host memory.
pub(crate) struct Upload<T: Storable> {
    host: HostBuffer<T>,
    device: Buffer<T>,
    /// Whether the device has what the host has.
    is_copied: bool,
}

impl<T: Storable + PartialEq> Upload<T> {
    /// Anything. To write zeros would wait for the device.
    pub(crate) fn new(device: &Device, length: usize) -> Result<Self> {
        let (host, device) = (device.host_buffer(length)?, device.uninitialized(length)?);
        Ok(Self { host, device, is_copied: false })
    }

    /// Makes both shorter, or longer again.
    pub(crate) fn resize(&mut self, length: usize) -> Result<()> {
        if self.device.len() != length {
            self.is_copied = false;
            self.host.resize(length)?;
            self.device.resize(length)?;
        }
        Ok(())
    }

    /// The numbers for later work on the stream. Nothing is copied if they are the same as before.
    pub(crate) fn set(&mut self, stream: &Stream, numbers: &[T]) -> Result<()> {
        if !self.is_copied || self.host.as_slice()? != numbers {
            self.host.as_mut_slice()?.copy_from_slice(numbers);
            stream.copy_to_device(&mut self.device, &mut self.host)?;
            self.is_copied = true;
        }
        Ok(())
    }
}

impl<T: Storable> Upload<T> {
    /// The buffer, for kernels that write it. Numbers are not set after that.
    pub(crate) fn device_mut(&mut self) -> &mut Buffer<T> {
        &mut self.device
    }
}

impl<T: Storable> Deref for Upload<T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.device
    }
}
