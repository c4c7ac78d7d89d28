//! Page-locked host memory.

use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::backend::{Backend, same_device};
use crate::buffer::{Buffer, Storable};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::{Event, Stream, same_length};

impl Device {
    /// A new buffer in page-locked host memory, filled with zero bytes. Copies between it and this
    /// device need no staging buffer.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn host_buffer<T: Storable>(&self, length: usize) -> Result<HostBuffer<T>> {
        HostBuffer::new(&self.backend, length)
    }
}

impl Stream {
    /// Copies all elements of `from` to the device.
    ///
    /// # Errors
    /// The lengths or devices differ, or the device is lost.
    #[track_caller]
    pub fn copy_to_device<T: Storable>(&self, to: &mut Buffer<T>, from: &mut HostBuffer<T>) -> Result<()> {
        self.expect_no_capture("Stream::copy_to_device")?;
        self.owns("the target of the copy", to)?;
        same_device("the host buffer", &from.backend, &self.backend)?;
        same_length(to.len(), from.len())?;
        // SAFETY: the host buffer is not written or freed before the event recorded next is
        // reached.
        unsafe {
            self.backend.streams.copy_to_device(
                self.handle,
                &to.elements(),
                from.pointer,
                Location::caller(),
            )?;
        }
        to.allocation.unmark();
        from.used_by(self)
    }

    /// Copies all elements of `from` to the host.
    ///
    /// # Errors
    /// The lengths or devices differ, `from` may be half-written, or the device is lost.
    #[track_caller]
    pub fn copy_to_host<T: Storable>(&self, to: &mut HostBuffer<T>, from: &Buffer<T>) -> Result<()> {
        self.expect_no_capture("Stream::copy_to_host")?;
        self.owns("the source of the copy", from)?;
        same_device("the host buffer", &to.backend, &self.backend)?;
        same_length(to.len(), from.len())?;
        from.allocation.check()?;
        let call = Location::caller();
        self.backend.memory.expect_written(&from.elements(), call)?;
        // SAFETY: the host buffer is not accessed or freed before the event recorded next is
        // reached.
        unsafe {
            self.backend.streams.copy_to_host(self.handle, to.pointer, &from.elements(), call)?;
        }
        to.used_by(self)
    }
}

/// `length` elements of page-locked host memory. Copies between it and a device are asynchronous.
///
/// Accessing the elements waits for the copies in flight.
pub struct HostBuffer<T: Storable> {
    backend: Arc<Backend>,
    pointer: NonNull<u8>,
    length: usize,
    /// Elements that there is memory for.
    capacity: usize,
    /// Reached when all copies so far are complete.
    under_way: Vec<Event>,
    element: PhantomData<T>,
}

// SAFETY: it owns its memory, and every access goes through the borrow checker or waits for the
// device.
unsafe impl<T: Storable> Send for HostBuffer<T> {}
// SAFETY: as above; a shared reference only reads.
unsafe impl<T: Storable> Sync for HostBuffer<T> {}

impl<T: Storable> HostBuffer<T> {
    fn new(backend: &Arc<Backend>, length: usize) -> Result<Self> {
        let bytes = length
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::OutOfMemory { bytes: u64::MAX, device: "the host".to_owned() })?;
        let pointer = backend.memory.allocate_host(bytes.max(1))?;
        // SAFETY: the allocation has at least `bytes` bytes and nothing else knows of it.
        unsafe { pointer.write_bytes(0, bytes) };
        let (backend, under_way) = (backend.clone(), Vec::new());
        Ok(Self { backend, pointer, length, capacity: length, under_way, element: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Makes the buffer shorter, or longer again up to the length that it was made with. Elements stay what they are.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Error};
    /// let mut buffer = Device::named("emu:h200")?.host_buffer::<u32>(3)?;
    /// buffer.resize(2)?;
    /// buffer.as_mut_slice()?.copy_from_slice(&[1, 2]);
    /// buffer.resize(3)?;
    /// assert_eq!(buffer.as_slice()?, [1, 2, 0]);
    /// assert!(buffer.resize(4).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for as many elements.
    pub fn resize(&mut self, length: usize) -> Result<()> {
        if length > self.capacity {
            return Err(Error::Range { start: 0, end: length, length: self.capacity });
        }
        self.length = length;
        Ok(())
    }

    /// Whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device that copies to and from it.
    pub fn device(&self) -> Device {
        Device { backend: self.backend.clone() }
    }

    /// The elements, after waiting for the copies in flight.
    ///
    /// # Errors
    /// A copy, or a kernel before it, failed.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.wait()?;
        // SAFETY: the allocation holds `length` elements, aligned for any; all were initialized,
        // and every pattern of bits is a value. No copy is in flight, and starting one into the
        // buffer takes it mutably.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer.cast().as_ptr(), self.length) })
    }

    /// The elements, mutably, after waiting for the copies in flight.
    ///
    /// # Errors
    /// A copy, or a kernel before it, failed.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.wait()?;
        self.under_way.clear();
        // SAFETY: as in `as_slice`, and the buffer is borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer.cast().as_ptr(), self.length) })
    }

    fn wait(&self) -> Result<()> {
        self.under_way.iter().try_for_each(Event::synchronize)
    }

    /// Records that the work on `stream` so far uses the buffer.
    fn used_by(&mut self, stream: &Stream) -> Result<()> {
        // Without an event to wait for, the copy must complete now.
        let reached = stream.record().inspect_err(|_| drop(stream.synchronize()))?;
        self.under_way.retain(|event| !matches!(event.is_reached(), Ok(true)));
        self.under_way.push(reached);
        Ok(())
    }
}

impl<T: Storable> Drop for HostBuffer<T> {
    fn drop(&mut self) {
        // After a failure the device does no more work, including the copy.
        let _ = self.wait();
        // SAFETY: the pointer is from `allocate_host` of the same size, and no copy is in flight.
        unsafe { self.backend.memory.free_host(self.pointer, (self.capacity * size_of::<T>()).max(1)) };
    }
}

impl<T: Storable> std::fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostBuffer<{}>({} elements)", T::NAME, self.length)
    }
}
