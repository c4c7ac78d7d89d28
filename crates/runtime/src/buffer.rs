//! Buffers of device memory.

use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::TransparentWrapper;
use warpwright_check::Elements;
use warpwright_lang::element::Element;

use crate::allocation::{Allocation, ElementType};
use crate::backend::Call;
use crate::capture::expect_no_capture;
use crate::device::Device;
use crate::error::{Error, Result};

/// An element type of device memory that the host can read: every bit pattern is a valid value.
pub trait Storable: Element + bytemuck::Pod + Send + Sync {}

impl<T: Element + bytemuck::Pod + Send + Sync> Storable for T {}

impl Device {
    /// A new buffer with a copy of `elements`.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn buffer_from<T: Storable>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(elements.len())?;
        buffer.upload(elements)?;
        Ok(buffer)
    }

    /// A new buffer of `length` elements, filled with zero bytes.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn zeros<T: Storable>(&self, length: usize) -> Result<Buffer<T>> {
        let buffer = self.uninitialized(length)?;
        if !buffer.is_empty() {
            self.backend.memory.zero_new(&buffer.elements())?;
        }
        Ok(buffer)
    }

    /// A new buffer of `length` elements with undefined contents. On the emulator every byte is
    /// `0xff`, which is NaN in every float type.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn uninitialized<T: Storable>(&self, length: usize) -> Result<Buffer<T>> {
        Ok(Buffer::over(Allocation::new(&self.backend, length, size_of::<T>())?))
    }
}

/// `length` elements of type `T` in device memory.
///
/// Copies between a buffer and host slices wait for all earlier work on the device, on every
/// stream, so they return what a sequential program would. [`Stream`](crate::Stream) has copies
/// that do not wait.
///
/// After a kernel fails, the buffers that it could write may be half-written. Reading such a
/// buffer, or passing it to another kernel, is an error until the whole buffer is overwritten.
#[derive(TransparentWrapper)]
#[repr(transparent)]
#[transparent(Arc<Allocation>)]
pub struct Buffer<T> {
    pub(crate) allocation: Arc<Allocation>,
    element: PhantomData<T>,
}

impl<T: Storable> Buffer<T> {
    pub(crate) fn over(allocation: Arc<Allocation>) -> Self {
        Self { allocation, element: PhantomData }
    }

    /// The same memory as elements of another type: `buffer.cast::<u8>()` for code that knows the
    /// type as a value.
    pub fn cast<U: Storable>(&self) -> &Buffer<U> {
        TransparentWrapper::<Arc<Allocation>>::wrap_ref(TransparentWrapper::<Arc<Allocation>>::peel_ref(self))
    }

    /// [`cast`](Self::cast), of memory that is written.
    pub fn cast_mut<U: Storable>(&mut self) -> &mut Buffer<U> {
        TransparentWrapper::<Arc<Allocation>>::wrap_mut(TransparentWrapper::<Arc<Allocation>>::peel_mut(self))
    }

    /// Makes the buffer shorter, or longer again up to its [`capacity`](Self::capacity): memory of one size can serve
    /// several. Elements stay what they are.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Error};
    /// let mut buffer = Device::named("emu:h200")?.buffer_from(&[1, 2, 3])?;
    /// buffer.resize(2)?;
    /// buffer.copy_from(&[4, 5])?;
    /// buffer.resize(3)?;
    /// assert_eq!(buffer.to_vec()?, [4, 5, 3]);
    /// assert!(buffer.resize(4).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for as many elements.
    pub fn resize(&mut self, length: usize) -> Result<()> {
        if length > self.capacity() {
            return Err(Error::Range { start: 0, end: length, length: self.capacity() });
        }
        self.allocation = Allocation::beginning(self.allocation.whole(), length * size_of::<T>());
        Ok(())
    }

    /// The number of elements that there is memory for.
    pub fn capacity(&self) -> usize {
        self.allocation.whole().bytes() / size_of::<T>()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.allocation.bytes() / size_of::<T>()
    }

    /// Whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.allocation.bytes()
    }

    /// The device address, for a pointer inside a structure, a table of pointers, or an address
    /// inside the buffer.
    ///
    /// After this call, every failing kernel is assumed to have written the buffer.
    pub fn address(&self) -> u64 {
        self.allocation.expose();
        self.allocation.address()
    }

    /// The device that the buffer belongs to.
    pub fn device(&self) -> Device {
        Device { backend: self.allocation.backend().clone() }
    }

    /// Overwrites all elements.
    ///
    /// # Errors
    /// The length of `elements` differs, or the device is lost.
    pub fn copy_from(&mut self, elements: &[T]) -> Result<()> {
        expect_no_capture("Buffer::copy_from")?;
        self.upload(elements)
    }

    /// As [`copy_from`](Self::copy_from), also inside a capture: of a new buffer, which no recorded work
    /// uses.
    pub(crate) fn upload(&mut self, elements: &[T]) -> Result<()> {
        if elements.len() != self.len() {
            return Err(Error::Length {
                what: "the source of the copy",
                expected: self.len(),
                given: elements.len(),
            });
        }
        self.allocation.backend().memory.upload(self.allocation.address(), bytemuck::cast_slice(elements))?;
        self.allocation.unmark();
        Ok(())
    }

    /// Sets every byte to zero.
    ///
    /// # Errors
    /// The device is lost.
    pub fn fill_zero(&mut self) -> Result<()> {
        expect_no_capture("Buffer::fill_zero")?;
        self.upload_zeros()
    }

    /// As [`fill_zero`](Self::fill_zero), also inside a capture: of a new buffer.
    pub(crate) fn upload_zeros(&mut self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.allocation.backend().memory.zero(&self.elements())?;
        self.allocation.unmark();
        Ok(())
    }

    /// Overwrites the elements from index `start`.
    ///
    /// # Errors
    /// The elements do not fit, or the device is lost.
    pub fn write_at(&mut self, start: usize, elements: &[T]) -> Result<()> {
        expect_no_capture("Buffer::write_at")?;
        let range = self.checked(start..start.saturating_add(elements.len()))?;
        let address = self.allocation.address() + (range.start * size_of::<T>()) as u64;
        self.allocation.backend().memory.upload(address, bytemuck::cast_slice(elements))
    }

    /// All elements.
    ///
    /// # Errors
    /// A kernel failed and may have left the buffer half-written, nothing has written an element and the
    /// device is [checked](Device::checked), or the device is lost.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        expect_no_capture("Buffer::to_vec")?;
        self.read(0..self.len())
    }

    /// The elements in a range.
    ///
    /// # Errors
    /// The range is not inside the buffer; otherwise as [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>> {
        expect_no_capture("Buffer::read")?;
        self.read_as(range, ElementType::of::<T>(), Location::caller())
    }

    /// The elements in a range; reports count those of a type.
    fn read_as(&self, range: Range<usize>, element: ElementType, call: Call) -> Result<Vec<T>> {
        let range = self.checked(range)?;
        let mut elements = vec![T::zeroed(); range.len()];
        let (start, bytes) = (range.start * size_of::<T>(), range.len() * size_of::<T>());
        let all = self.allocation.elements(element);
        let read = Elements { start: start as u64, bytes: bytes as u64, ..all };
        let backend = self.allocation.backend();
        self.allocation.check()?;
        backend.memory.download(read.address(), bytemuck::cast_slice_mut(&mut elements))?;
        // The download waited for earlier kernels; one of them may have failed.
        self.allocation.check()?;
        backend.memory.expect_written(&read, call)?;
        Ok(elements)
    }

    /// All elements.
    pub(crate) fn elements(&self) -> Elements {
        self.allocation.elements(ElementType::of::<T>())
    }

    fn checked(&self, range: Range<usize>) -> Result<Range<usize>> {
        if range.start <= range.end && range.end <= self.len() {
            return Ok(range);
        }
        Err(Error::Range { start: range.start, end: range.end, length: self.len() })
    }
}

impl Buffer<u8> {
    /// All bytes of a buffer whose elements have a type of that name and size: what a checked device
    /// reports of unwritten elements counts those.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_bytes_of(&self, element: &'static str, element_bytes: u64) -> Result<Vec<u8>> {
        expect_no_capture("Buffer::to_bytes_of")?;
        self.read_as(0..self.len(), ElementType::named(element, element_bytes), Location::caller())
    }
}

impl<T: Storable> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer<{}>({} elements)", T::NAME, self.len())
    }
}
