//! The seam of streams: what runs in order and asynchronously to the host.

use std::ffi::c_void;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use warpwright_check::Elements;

use crate::error::Result;

/// A stream or an event: the driver's pointer, or a number of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) usize);

impl Handle {
    /// The handle that a driver's pointer is.
    pub(crate) fn of_pointer(pointer: *mut c_void) -> Self {
        Self(pointer.expose_provenance())
    }

    /// The driver's pointer.
    pub(crate) fn pointer(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// The position of a call in the user's program.
pub(crate) type Call = &'static Location<'static>;

/// The streams, events and graphs of one device.
pub(crate) trait Streams: Send + Sync {
    /// Waits for all work on the device.
    fn synchronize(&self) -> Result<()>;

    fn create_stream(&self, call: Call) -> Result<Handle>;
    fn destroy_stream(&self, stream: Handle);
    /// Returns an error if a stream of another owner is not one of this device.
    ///
    /// # Safety
    /// It is a stream.
    unsafe fn adopt_stream(&self, stream: Handle) -> Result<()>;
    /// Whether another library captures the stream.
    fn stream_is_captured(&self, _stream: Handle) -> Result<bool> {
        Ok(false)
    }
    fn synchronize_stream(&self, stream: Handle) -> Result<()>;
    fn stream_is_idle(&self, stream: Handle) -> Result<bool>;
    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()>;
    fn fill(&self, stream: Handle, to: &Elements, byte: u8, call: Call) -> Result<()>;
    /// Copies between elements of equal size.
    fn copy(&self, stream: Handle, to: &Elements, from: &Elements, call: Call) -> Result<()>;
    /// # Safety
    /// `from` is host memory of this device, of the size of `to`, that stays alive and unwritten until
    /// the copy is complete.
    unsafe fn copy_to_device(
        &self,
        stream: Handle,
        to: &Elements,
        from: NonNull<u8>,
        call: Call,
    ) -> Result<()>;
    /// # Safety
    /// `to` is host memory of this device, of the size of `from`, that stays alive and is not accessed
    /// until the copy is complete.
    unsafe fn copy_to_host(&self, stream: Handle, to: NonNull<u8>, from: &Elements, call: Call)
    -> Result<()>;

    fn create_event(&self) -> Result<Handle>;
    fn destroy_event(&self, event: Handle);
    fn record(&self, event: Handle, stream: Handle) -> Result<()>;
    fn synchronize_event(&self, event: Handle) -> Result<()>;
    fn event_is_reached(&self, event: Handle) -> Result<bool>;
    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration>;

    /// A graph of what `enqueue` puts on a stream, with these kernels, or `None` if a launch of the graph
    /// runs its nodes.
    fn instantiate(
        self: Arc<Self>,
        _kernels: Vec<Arc<str>>,
        _enqueue: &dyn Fn(Handle) -> Result<()>,
    ) -> Result<Option<Box<dyn LoadedGraph>>> {
        Ok(None)
    }
}

/// A graph that the device launches as a whole.
pub(crate) trait LoadedGraph: Send + Sync {
    fn launch(&self, stream: Handle) -> Result<()>;
}
