//! Streams and events.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::allocation::ElementType;
use crate::backend::{Backend, Call, Handle, same_device};
use crate::buffer::{Buffer, Storable};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::node::{Node, Recording};

impl Device {
    /// A new stream. Work on one stream is ordered; work on two streams is not.
    ///
    /// # Errors
    /// The driver returns an error.
    #[track_caller]
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.backend, Location::caller())
    }

    /// A new event that is not recorded.
    ///
    /// # Errors
    /// The driver returns an error.
    pub fn event(&self) -> Result<Event> {
        Event::new(&self.backend)
    }
}

/// A queue of work for a device. Its work runs in order and asynchronously to the host. Only events
/// order two streams.
///
/// The emulator completes each operation before the call returns.
pub struct Stream {
    pub(crate) backend: Arc<Backend>,
    pub(crate) handle: Handle,
    /// Whether another library destroys it.
    is_foreign: bool,
    id: u64,
    pub(crate) capture: Recording,
}

impl Stream {
    pub(crate) fn new(backend: &Arc<Backend>, call: Call) -> Result<Self> {
        Ok(Self::over(backend, backend.streams.create_stream(call)?, false))
    }

    pub(crate) fn over(backend: &Arc<Backend>, handle: Handle, is_foreign: bool) -> Self {
        static STREAMS: AtomicU64 = AtomicU64::new(0);
        let id = STREAMS.fetch_add(1, Ordering::Relaxed);
        Self { backend: backend.clone(), handle, is_foreign, id, capture: Recording::default() }
    }

    /// A number that is unique among all streams of this process, as a key for data kept per
    /// stream.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The device of the stream.
    pub fn device(&self) -> Device {
        Device { backend: self.backend.clone() }
    }

    /// The recording, inside a capture.
    #[inline]
    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.capture.is_on().then_some(&self.capture)
    }

    /// Returns an error inside a capture.
    pub(crate) fn expect_no_capture(&self, call: &'static str) -> Result<()> {
        self.recording().map_or(Ok(()), |_| Err(Error::InCapture { call }))
    }

    /// Runs a node, or records it.
    fn run(&self, node: Node) -> Result<()> {
        match self.recording() {
            Some(recording) => recording.add(node),
            None => drop(node.run(&self.backend, self.handle)?),
        }
        Ok(())
    }

    /// Waits until all work on the stream is complete.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        self.expect_no_capture("Stream::synchronize")?;
        self.backend.streams.synchronize_stream(self.handle)
    }

    /// Whether all work on the stream is complete.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn is_idle(&self) -> Result<bool> {
        self.expect_no_capture("Stream::is_idle")?;
        self.backend.streams.stream_is_idle(self.handle)
    }

    /// A new event that is reached when all work on the stream so far is complete.
    ///
    /// # Errors
    /// The driver returns an error.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(&self.backend)?;
        self.record_into(&event)?;
        Ok(event)
    }

    /// Records an existing event, as [`record`](Self::record) does.
    ///
    /// # Errors
    /// The event belongs to another device, or the driver returns an error.
    pub fn record_into(&self, event: &Event) -> Result<()> {
        self.expect_no_capture("Stream::record")?;
        same_device("the event", &event.backend, &self.backend)?;
        self.backend.streams.record(event.handle, self.handle)
    }

    /// Makes later work on the stream wait for an event.
    ///
    /// # Errors
    /// The event belongs to another device, or the driver returns an error.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.expect_no_capture("Stream::wait")?;
        same_device("the event", &event.backend, &self.backend)?;
        self.backend.streams.wait_for_event(self.handle, event.handle)
    }

    /// Copies all elements of `from` to `to`.
    ///
    /// # Errors
    /// The lengths or devices differ, `from` may be half-written, or the device is lost.
    #[track_caller]
    pub fn copy<T: Storable>(&self, to: &mut Buffer<T>, from: &Buffer<T>) -> Result<()> {
        self.owns("the target of the copy", to)?;
        self.owns("the source of the copy", from)?;
        same_length(to.len(), from.len())?;
        let (element, call) = (ElementType::of::<T>(), Location::caller());
        self.run(Node::Copy { to: to.allocation.clone(), from: from.allocation.clone(), element, call })
    }

    /// Sets every byte of a buffer to zero.
    ///
    /// # Errors
    /// The buffer belongs to another device, or the device is lost.
    #[track_caller]
    pub fn fill_zero<T: Storable>(&self, buffer: &mut Buffer<T>) -> Result<()> {
        self.fill(buffer, 0)
    }

    /// Sets every byte of a buffer.
    ///
    /// # Errors
    /// The buffer belongs to another device, or the device is lost.
    #[track_caller]
    pub fn fill<T: Storable>(&self, buffer: &mut Buffer<T>, byte: u8) -> Result<()> {
        self.owns("the buffer", buffer)?;
        let (element, call) = (ElementType::of::<T>(), Location::caller());
        self.run(Node::Fill { buffer: buffer.allocation.clone(), byte, element, call })
    }

    pub(crate) fn owns<T: Storable>(&self, what: &'static str, buffer: &Buffer<T>) -> Result<()> {
        same_device(what, buffer.allocation.backend(), &self.backend)
    }
}

pub(crate) fn same_length(expected: usize, given: usize) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::Length { what: "the source of the copy", expected, given })
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_foreign {
            self.backend.streams.destroy_stream(self.handle);
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream of {}", self.backend.properties.name)
    }
}

/// A point in the work of a stream, with the time when it was reached.
pub struct Event {
    backend: Arc<Backend>,
    handle: Handle,
}

impl Event {
    pub(crate) fn new(backend: &Arc<Backend>) -> Result<Self> {
        Ok(Self { backend: backend.clone(), handle: backend.streams.create_event()? })
    }

    /// Waits until the event is reached. An event that was never recorded counts as reached.
    ///
    /// # Errors
    /// An earlier kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        self.backend.streams.synchronize_event(self.handle)
    }

    /// Whether the event is reached.
    ///
    /// # Errors
    /// An earlier kernel failed.
    pub fn is_reached(&self) -> Result<bool> {
        self.backend.streams.event_is_reached(self.handle)
    }

    /// The time from `start` to this event. On a GPU it is measured by the device's clock, with a
    /// resolution of about half a microsecond.
    ///
    /// # Errors
    /// One of the two events is not recorded or not reached.
    pub fn since(&self, start: &Event) -> Result<Duration> {
        same_device("the event", &start.backend, &self.backend)?;
        self.backend.streams.elapsed(start.handle, self.handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.backend.streams.destroy_event(self.handle);
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event of {}", self.backend.properties.name)
    }
}
