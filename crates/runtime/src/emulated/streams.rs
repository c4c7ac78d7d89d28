//! The streams and events of an emulated device.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use warpwright_check::{Elements, Transfer};

use super::clocks::Clocks;
use super::{Machine, expect_none, source};
use crate::backend::{Call, Handle, Streams};
use crate::error::{Error, Result};

impl Streams for Machine {
    fn synchronize(&self) -> Result<()> {
        self.settle_all();
        Ok(())
    }

    fn create_stream(&self, call: Call) -> Result<Handle> {
        let stream = self.new_handle();
        self.note(|host| host.stream_made(stream.0, source(call)));
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Handle) {
        self.settle(stream);
        self.note(|host| host.stream_dropped(stream.0));
    }

    unsafe fn adopt_stream(&self, _stream: Handle) -> Result<()> {
        // Streams are numbers, and a new number is a new stream.
        Ok(())
    }

    fn synchronize_stream(&self, stream: Handle) -> Result<()> {
        self.settle(stream);
        self.note(|host| host.stream_synchronized(stream.0));
        Ok(())
    }

    fn stream_is_idle(&self, stream: Handle) -> Result<bool> {
        self.synchronize_stream(stream).map(|()| true)
    }

    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()> {
        self.settle(stream);
        self.clocks().wait(stream, event);
        self.note(|host| host.event_awaited(stream.0, event.0));
        Ok(())
    }

    fn fill(&self, stream: Handle, to: &Elements, byte: u8, call: Call) -> Result<()> {
        self.settle(stream);
        self.result(self.read().fill(to.address(), byte, to.bytes as usize))?;
        self.time_transfer(stream, 0, to.bytes);
        self.check_transfer(stream, Transfer::Fill(*to), call)
    }

    fn copy(&self, stream: Handle, to: &Elements, from: &Elements, call: Call) -> Result<()> {
        self.settle(stream);
        self.result(self.read().copy(from.address(), to.address(), from.bytes as usize))?;
        self.time_transfer(stream, from.bytes, to.bytes);
        self.check_transfer(stream, Transfer::Copy { to: *to, from: *from }, call)
    }

    unsafe fn copy_to_device(
        &self,
        stream: Handle,
        to: &Elements,
        from: NonNull<u8>,
        call: Call,
    ) -> Result<()> {
        self.settle(stream);
        // SAFETY: the caller passes live host memory of the elements' size that is not written during
        // the call.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), to.bytes as usize) };
        self.result(self.read().write(to.address(), bytes))?;
        self.check_transfer(stream, Transfer::ToDevice(*to), call)
    }

    unsafe fn copy_to_host(
        &self,
        stream: Handle,
        to: NonNull<u8>,
        from: &Elements,
        call: Call,
    ) -> Result<()> {
        self.settle(stream);
        // SAFETY: the caller passes live host memory of the elements' size that is not accessed during
        // the call.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), from.bytes as usize) };
        self.result(self.read().read(from.address(), bytes))?;
        self.check_transfer(stream, Transfer::ToHost(*from), call)
    }

    fn create_event(&self) -> Result<Handle> {
        let event = self.new_handle();
        self.clocks().create(event);
        Ok(event)
    }

    fn destroy_event(&self, event: Handle) {
        self.clocks().destroy(event);
        self.note(|host| host.event_dropped(event.0));
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        self.settle(stream);
        self.clocks().record(event, stream);
        self.note(|host| host.event_recorded(event.0, stream.0));
        Ok(())
    }

    fn synchronize_event(&self, event: Handle) -> Result<()> {
        self.note(|host| host.event_reached(event.0));
        Ok(())
    }

    fn event_is_reached(&self, event: Handle) -> Result<bool> {
        self.synchronize_event(event).map(|()| true)
    }

    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration> {
        let is_predicted = self.timed.load(Ordering::Relaxed);
        let elapsed = self.clocks().elapsed(start, end, is_predicted).ok_or(Error::EventNotReached)?;
        // The driver measures only between events that are reached.
        self.synchronize_event(start).and_then(|()| self.synchronize_event(end)).map(|()| elapsed)
    }
}

impl Machine {
    /// Checks a copy or a fill, which has been done.
    fn check_transfer(&self, stream: Handle, transfer: Transfer, call: Call) -> Result<()> {
        let findings = self.host_checks().map(|host| host.transfer(stream.0, transfer, source(call)));
        expect_none(findings.unwrap_or_default())
    }

    pub(super) fn clocks(&self) -> MutexGuard<'_, Clocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream moves bytes of device memory, if the device is timed.
    fn time_transfer(&self, stream: Handle, read: u64, written: u64) {
        if self.timed.load(Ordering::Relaxed) {
            let microseconds = warpwright_time::transfer_microseconds(self.read().arch(), read, written);
            self.clocks().advance(stream, microseconds);
        }
    }
}
