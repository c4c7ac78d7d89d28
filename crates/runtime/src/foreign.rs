//! Memory, streams and contexts of other libraries, used where they are.

use std::ffi::c_void;

use crate::allocation::Allocation;
use crate::backend::Handle;
use crate::buffer::{Buffer, Storable};
use crate::cuda;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Stream;

impl Device {
    /// The GPU whose primary context is current on this thread: the one that CUDA's runtime, and libraries on it, use.
    /// The context is retained. [`Device::cuda`](Self::cuda) of the same GPU uses the same context.
    ///
    /// # Errors
    /// No driver is installed, no context is current, or the current one is not the primary context of its GPU.
    pub fn of_current_context() -> Result<Self> {
        cuda::current().map(Self::of)
    }
}

impl<T: Storable> Buffer<T> {
    /// `length` elements in memory of another library, which the buffer does not free: of this GPU, or on the emulator
    /// of the host, at its own address. There, the address may also be one inside a buffer of the device.
    ///
    /// As after [`address`](Self::address), every failing kernel is assumed to have written the buffer.
    ///
    /// ```
    /// # use warpwright_runtime::{Buffer, Device, Error};
    /// let device = Device::named("emu:h200")?;
    /// let numbers = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// // SAFETY: the view is dropped before `numbers`.
    /// let last = unsafe { Buffer::<f32>::from_raw_parts(&device, numbers.address() + 8, 2) }?;
    /// assert_eq!(last.to_vec()?, [3.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Safety
    /// The memory is allocated, and stays so until the buffer, its tensor maps and graphs with it are dropped and all
    /// work that uses them is complete: dropping the buffer does not wait. Meanwhile, work of the other library that
    /// uses the memory is ordered with work of this one by streams or events. Memory of the host is writable and accessed
    /// by the host only while no work uses it.
    ///
    /// # Errors
    /// The address is not a multiple of the element size, or the memory is not accessible to the device.
    pub unsafe fn from_raw_parts(device: &Device, address: u64, length: usize) -> Result<Self> {
        let refused =
            |reason: String| Error::ForeignMemory { address, device: device.name().to_owned(), reason };
        if !address.is_multiple_of(align_of::<T>() as u64) {
            let reason = format!("an element of {} is aligned to {} bytes", T::NAME, align_of::<T>());
            return Err(refused(reason));
        }
        let bytes =
            length.checked_mul(size_of::<T>()).filter(|bytes| address.checked_add(*bytes as u64).is_some());
        let bytes = bytes.ok_or_else(|| refused(format!("{length} elements exceed the address space")))?;
        // SAFETY: the caller keeps the memory allocated.
        let allocation = unsafe { Allocation::adopted(&device.backend, address, bytes) }?;
        allocation.expose();
        Ok(Self::over(allocation))
    }
}

impl Stream {
    /// A stream of another library: a `CUstream`, which is also a `cudaStream_t`, in the context of the device. It is not
    /// destroyed. On the emulator, the number of a stream of [`as_raw`](Self::as_raw), or any other, which is then a
    /// stream of its own.
    ///
    /// While the other library captures the stream, launches, copies and fills become part of its graph, and calls that
    /// wait are errors of the driver.
    ///
    /// # Safety
    /// `raw` is a stream, and stays one until this one is dropped.
    ///
    /// # Errors
    /// The stream is of another context.
    pub unsafe fn from_raw(device: &Device, raw: *mut c_void) -> Result<Self> {
        let handle = Handle::of_pointer(raw);
        // SAFETY: the caller passes a stream.
        unsafe { device.backend.streams.adopt_stream(handle) }?;
        Ok(Self::over(&device.backend, handle, true))
    }

    /// Whether another library captures the stream: what it is given runs later, as often as the graph is launched, and
    /// memory that it uses must live as long.
    ///
    /// # Errors
    /// The driver returns an error.
    pub fn is_captured(&self) -> Result<bool> {
        self.backend.streams.stream_is_captured(self.handle)
    }

    /// The stream, for other libraries: a `CUstream` of a GPU, or a number of the emulator. It is destroyed when `self`
    /// is dropped.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle.pointer()
    }
}
