//! A device by numbers: addresses, streams and events without owners, for a driver that is made of one.
//!
//! `crates/cuda` keeps its own tables of what a program allocates and creates, and checks what it passes. Nothing
//! here is dropped with a handle, no buffer is marked after a fault, and nothing is captured.

use std::panic::Location;
use std::ptr::NonNull;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_check::Elements;

use crate::attributes::LaunchCounts;
use crate::backend::{Handle, Packed};
use crate::device::Device;
use crate::error::Result;
use crate::launch::Launch;
use crate::module::{Function, Module};

/// A device by numbers. The bytes of copies and fills are in order on their stream; on the emulator each call
/// completes its work before it returns, and any thread may call.
#[derive(Clone, Debug)]
pub struct RawDevice(Device);

/// A stream, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStream(Handle);

/// An event, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent(Handle);

impl Device {
    /// The device by numbers.
    pub fn raw(&self) -> RawDevice {
        RawDevice(self.clone())
    }
}

impl RawDevice {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.0
    }

    /// Allocates bytes, which are freed by their address only.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn allocate(&self, bytes: usize) -> Result<u64> {
        self.0.backend.memory.allocate(bytes)
    }

    /// Frees an allocation. Another address is ignored.
    pub fn free(&self, address: u64) {
        self.0.backend.memory.free(address);
    }

    /// Makes memory of the host accessible at its own address, until it is [released](Self::release) as often.
    ///
    /// # Safety
    /// The bytes are allocated, and stay so until they are released and all work that uses them is complete.
    ///
    /// # Errors
    /// The device has something else at these addresses.
    pub unsafe fn adopt(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller keeps the bytes allocated.
        unsafe { self.0.backend.memory.adopt(address, bytes) }
    }

    /// Ends one adoption.
    pub fn release(&self, address: u64) {
        self.0.backend.memory.release(address);
    }

    /// A new stream.
    ///
    /// # Errors
    /// The driver refuses one.
    #[track_caller]
    pub fn create_stream(&self) -> Result<RawStream> {
        self.0.backend.streams.create_stream(Location::caller()).map(RawStream)
    }

    /// Destroys a stream.
    pub fn destroy_stream(&self, stream: RawStream) {
        self.0.backend.streams.destroy_stream(stream.0);
    }

    /// A new event.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn create_event(&self) -> Result<RawEvent> {
        self.0.backend.streams.create_event().map(RawEvent)
    }

    /// Destroys an event.
    pub fn destroy_event(&self, event: RawEvent) {
        self.0.backend.streams.destroy_event(event.0);
    }

    /// Records an event on a stream.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn record(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.0.backend.streams.record(event.0, stream.0)
    }

    /// Makes a stream wait for an event.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.0.backend.streams.wait_for_event(stream.0, event.0)
    }

    /// Waits for a stream.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.0.backend.streams.synchronize_stream(stream.0)
    }

    /// Waits for an event.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.0.backend.streams.synchronize_event(event.0)
    }

    /// Waits for all streams.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        self.0.backend.streams.synchronize()
    }

    /// Sets bytes.
    ///
    /// # Errors
    /// They are not inside one allocation, or the checkers find a race.
    #[track_caller]
    pub fn fill(&self, stream: RawStream, to: u64, byte: u8, bytes: u64) -> Result<()> {
        self.0.backend.streams.fill(stream.0, &elements(to, bytes), byte, Location::caller())
    }

    /// Copies bytes between two addresses of the device.
    ///
    /// # Errors
    /// They are not inside one allocation each, or the checkers find a race.
    #[track_caller]
    pub fn copy(&self, stream: RawStream, to: u64, from: u64, bytes: u64) -> Result<()> {
        let (to, from) = (elements(to, bytes), elements(from, bytes));
        self.0.backend.streams.copy(stream.0, &to, &from, Location::caller())
    }

    /// Copies bytes of the host to the device.
    ///
    /// # Safety
    /// `from` has as many bytes, which stay alive and unwritten until the copy is complete.
    ///
    /// # Errors
    /// The bytes are not inside one allocation of the device, or the checkers find a race.
    #[track_caller]
    pub unsafe fn write(&self, stream: RawStream, to: u64, from: NonNull<u8>, bytes: u64) -> Result<()> {
        let (to, call) = (elements(to, bytes), Location::caller());
        // SAFETY: the caller keeps the bytes alive and unwritten.
        unsafe { self.0.backend.streams.copy_to_device(stream.0, &to, from, call) }
    }

    /// Copies bytes of the device to the host.
    ///
    /// # Safety
    /// `to` has as many bytes, which stay alive and are not accessed until the copy is complete.
    ///
    /// # Errors
    /// The bytes are not inside one allocation of the device, or the checkers find a race.
    #[track_caller]
    pub unsafe fn read(&self, stream: RawStream, to: NonNull<u8>, from: u64, bytes: u64) -> Result<()> {
        let (from, call) = (elements(from, bytes), Location::caller());
        // SAFETY: the caller keeps the bytes alive and does not access them.
        unsafe { self.0.backend.streams.copy_to_host(stream.0, to, &from, call) }
    }

    /// Encodes a valid tensor map in the 128 bytes that the device reads.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        self.0.backend.memory.encode_tensor_map(map)
    }

    /// Starts a kernel, whose parameters are these bytes.
    ///
    /// # Errors
    /// The launch does not fit the kernel or the device, the kernel failed, or the checkers find something.
    #[track_caller]
    pub fn launch(
        &self,
        stream: RawStream,
        function: &Function,
        launch: &Launch,
        parameters: &[u8],
    ) -> Result<LaunchCounts> {
        let packed = [Packed { bytes: parameters, align: 1 }];
        function.loaded().launch(stream.0, launch, &packed, Location::caller())
    }
}

impl Module {
    /// The address and the size in bytes of a `.global` or `.const` variable.
    ///
    /// # Errors
    /// The driver fails.
    pub fn raw_variable(&self, name: &str) -> Result<Option<(u64, usize)>> {
        self.loaded().variable(name)
    }
}

/// Bytes of an allocation, as the checkers name them.
fn elements(address: u64, bytes: u64) -> Elements {
    Elements { buffer: address, start: 0, bytes, element: "u8", element_bytes: 1 }
}
