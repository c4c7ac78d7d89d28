//! The streams and events of a GPU.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use warpwright_check::Elements;

use super::context::Context;
use super::driver::{self, Failure, status};
use super::graph::CudaGraph;
use crate::backend::{Call, Handle, LoadedGraph, Streams};
use crate::error::{Error, Result};

impl Streams for Context {
    fn synchronize(&self) -> Result<()> {
        let driver = self.enter()?;
        let _no_capture = self.without_capture();
        // SAFETY: the context is current.
        self.check_all_done(unsafe { driver.cuCtxSynchronize() })
    }

    fn create_stream(&self, _call: Call) -> Result<Handle> {
        let driver = self.enter()?;
        let mut stream = null_mut();
        // SAFETY: the out-pointer is valid for the call.
        self.check(unsafe { driver.cuStreamCreate(&mut stream, driver::STREAM_NON_BLOCKING) })?;
        Ok(Handle::of_pointer(stream))
    }

    fn destroy_stream(&self, stream: Handle) {
        let Ok(driver) = self.enter() else { return };
        // SAFETY: the stream is from `create_stream` and is destroyed once; the driver lets its
        // work finish.
        let _ = self.check(unsafe { driver.cuStreamDestroy_v2(stream.pointer()) });
    }

    unsafe fn adopt_stream(&self, stream: Handle) -> Result<()> {
        let driver = self.enter()?;
        let mut context = null_mut();
        // SAFETY: the out-pointer is valid for the call, and the caller passes a stream.
        self.check(unsafe { driver.cuStreamGetCtx(stream.pointer(), &mut context) })?;
        if self.is(context) {
            return Ok(());
        }
        let on = self.properties.name.clone();
        Err(Error::WrongDevice { what: "the stream", of: "another context".to_owned(), on })
    }

    fn stream_is_captured(&self, stream: Handle) -> Result<bool> {
        let driver = self.enter()?;
        let mut status = 0;
        // SAFETY: the out-pointer is valid for the call, and the stream is alive.
        self.check(unsafe { driver.cuStreamIsCapturing(stream.pointer(), &mut status) })?;
        Ok(status != 0)
    }

    fn synchronize_stream(&self, stream: Handle) -> Result<()> {
        let driver = self.enter()?;
        // SAFETY: the stream is alive.
        self.check(unsafe { driver.cuStreamSynchronize(stream.pointer()) })
    }

    fn stream_is_idle(&self, stream: Handle) -> Result<bool> {
        let driver = self.enter()?;
        // SAFETY: the stream is alive.
        self.check_ready(unsafe { driver.cuStreamQuery(stream.pointer()) })
    }

    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()> {
        let driver = self.enter()?;
        // SAFETY: the stream and the event are alive.
        self.check(unsafe { driver.cuStreamWaitEvent(stream.pointer(), event.pointer(), 0) })
    }

    fn fill(&self, stream: Handle, to: &Elements, byte: u8, _call: Call) -> Result<()> {
        let driver = self.enter()?;
        // SAFETY: the caller owns the elements, and freeing them waits for the stream.
        self.check(unsafe { driver.cuMemsetD8Async(to.address(), byte, to.bytes as usize, stream.pointer()) })
    }

    fn copy(&self, stream: Handle, to: &Elements, from: &Elements, _call: Call) -> Result<()> {
        let driver = self.enter()?;
        let (to, from, bytes) = (to.address(), from.address(), from.bytes as usize);
        // SAFETY: the caller owns `bytes` bytes at both addresses, and freeing them waits for the
        // stream.
        self.check(unsafe { driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream.pointer()) })
    }

    unsafe fn copy_to_device(
        &self,
        stream: Handle,
        to: &Elements,
        from: NonNull<u8>,
        _call: Call,
    ) -> Result<()> {
        let driver = self.enter()?;
        let (to, bytes) = (to.address(), to.bytes as usize);
        // SAFETY: the caller keeps the host's bytes alive and unwritten until the copy is complete.
        self.check(unsafe { driver.cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, stream.pointer()) })
    }

    unsafe fn copy_to_host(
        &self,
        stream: Handle,
        to: NonNull<u8>,
        from: &Elements,
        _call: Call,
    ) -> Result<()> {
        let driver = self.enter()?;
        let (from, bytes) = (from.address(), from.bytes as usize);
        // SAFETY: the caller keeps the host's bytes alive and does not access them until the copy
        // is complete.
        self.check(unsafe { driver.cuMemcpyDtoHAsync_v2(to.as_ptr().cast(), from, bytes, stream.pointer()) })
    }

    fn create_event(&self) -> Result<Handle> {
        let driver = self.enter()?;
        let mut event = null_mut();
        // SAFETY: the out-pointer is valid for the call; flag 0 is an event with a time.
        self.check(unsafe { driver.cuEventCreate(&mut event, 0) })?;
        Ok(Handle::of_pointer(event))
    }

    fn destroy_event(&self, event: Handle) {
        let Ok(driver) = self.enter() else { return };
        // SAFETY: the event is from `create_event` and is destroyed once.
        let _ = self.check(unsafe { driver.cuEventDestroy_v2(event.pointer()) });
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        let driver = self.enter()?;
        // SAFETY: the stream and the event are alive.
        self.check(unsafe { driver.cuEventRecord(event.pointer(), stream.pointer()) })
    }

    fn synchronize_event(&self, event: Handle) -> Result<()> {
        let driver = self.enter()?;
        // SAFETY: the event is alive.
        self.check(unsafe { driver.cuEventSynchronize(event.pointer()) })
    }

    fn event_is_reached(&self, event: Handle) -> Result<bool> {
        let driver = self.enter()?;
        // SAFETY: the event is alive.
        self.check_ready(unsafe { driver.cuEventQuery(event.pointer()) })
    }

    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration> {
        let driver = self.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: the out-pointer is valid for the call, and the events are alive.
        match unsafe { driver.cuEventElapsedTime(&mut milliseconds, start.pointer(), end.pointer()) } {
            // Either not reached yet, or never recorded (the driver reports an invalid handle).
            Err(Failure { code: status::NOT_READY | status::INVALID_HANDLE, .. }) => {
                Err(Error::EventNotReached)
            }
            other => {
                self.check(other).map(|()| Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
            }
        }
    }

    fn instantiate(
        self: Arc<Self>,
        kernels: Vec<Arc<str>>,
        enqueue: &dyn Fn(Handle) -> Result<()>,
    ) -> Result<Option<Box<dyn LoadedGraph>>> {
        Ok(Some(Box::new(CudaGraph::new(self, kernels, enqueue)?)))
    }
}
