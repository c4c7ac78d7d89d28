//! Streams: order among operations, asynchronous to the host.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use warpwright_runtime::{RawDevice, RawStream};

use crate::capture::Capture;
use crate::context::{Context, current};
use crate::edge::is_per_thread;
use crate::event::Event;
use crate::handles::{Handle, Handles};
use crate::machine::machine;
use crate::queue::{Point, Queue};
use crate::report;
use crate::status::{Result, Status};

/// Streams by their handles.
pub(crate) static STREAMS: Handles<Stream> = Handles::new();

/// `CU_STREAM_LEGACY`, and null in calls without a suffix.
const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`
const PER_THREAD: usize = 2;

/// How a stream is ordered with the others of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// The default stream: with all blocking streams.
    Legacy,
    /// With the default stream.
    Blocking,
    /// With no other stream.
    Alone,
}

/// What an operation does with the device.
pub(crate) type Operation = Box<dyn FnOnce(&RawDevice, RawStream) -> warpwright_runtime::Result<()> + Send>;

/// A stream.
pub(crate) struct Stream {
    pub(crate) number: usize,
    pub(crate) context: &'static Context,
    pub(crate) ordered: Ordered,
    pub(crate) priority: i32,
    raw: RawStream,
    pub(crate) queue: Arc<Queue>,
    /// Points that the next operation waits for.
    awaited: Mutex<Vec<Point>>,
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Stream {
    pub(crate) fn create(context: &'static Context, ordered: Ordered, priority: i32) -> Result<Arc<Self>> {
        let raw = machine()?.raw.create_stream().map_err(|error| report::status(&error))?;
        let make = |number| Self {
            number,
            context,
            ordered,
            priority,
            raw,
            queue: Arc::default(),
            awaited: Mutex::default(),
            capture: Mutex::default(),
        };
        Ok(STREAMS.add(make).1)
    }

    /// The stream of a handle, in the current context.
    pub(crate) fn of(handle: Handle<Self>) -> Result<Arc<Self>> {
        let context = current()?;
        match handle.0 {
            0 if is_per_thread() => context.of_thread(),
            0 | LEGACY => context.legacy(),
            PER_THREAD => context.of_thread(),
            _ => {
                let stream = STREAMS.get(handle)?;
                stream.context.check()?;
                Ok(stream)
            }
        }
    }

    /// Destroys a stream that the program created, after its work.
    pub(crate) fn destroy(handle: Handle<Self>) -> Result<()> {
        let stream = STREAMS.get(handle)?;
        if stream.ordered == Ordered::Legacy {
            return Err(Status::INVALID_HANDLE);
        }
        STREAMS.remove(handle)?;
        let (raw, machine) = (stream.raw, machine()?);
        if machine.in_order {
            machine.raw.destroy_stream(raw);
        } else {
            stream.queue.add(Vec::new(), Box::new(move || machine.raw.destroy_stream(raw)));
        }
        Ok(())
    }

    /// The points of other streams that its next operation waits for.
    fn predecessors(&self) -> Vec<Point> {
        let mut points = std::mem::take(&mut *self.awaited.lock().unwrap_or_else(PoisonError::into_inner));
        points.extend(self.neighbours().iter().filter_map(|other| other.queue.end()));
        points
    }

    /// The streams that order with this one without an event.
    fn neighbours(&self) -> Vec<Arc<Self>> {
        match self.ordered {
            Ordered::Alone => Vec::new(),
            Ordered::Blocking => self.context.legacy().into_iter().collect(),
            Ordered::Legacy => {
                let streams = self.context.streams();
                streams.into_iter().filter(|other| other.ordered == Ordered::Blocking).collect()
            }
        }
    }

    /// Adds an operation. Its failure is the context's.
    pub(crate) fn add(&self, operation: Operation) -> Result<()> {
        let machine = machine()?;
        let (raw, context) = (self.raw, self.context);
        let run = move || {
            if context.check().is_ok()
                && let Err(error) = operation(&machine.raw, raw)
                && let Err(status) = report::failure(&error)
            {
                context.fail(status);
            }
        };
        if machine.in_order {
            self.order_checked(&machine.raw).map_err(|error| report::status(&error))?;
            run();
        } else {
            self.queue.add(self.predecessors(), Box::new(run));
        }
        Ok(())
    }

    /// Tells the checkers which streams this one orders with, as events.
    fn order_checked(&self, raw: &RawDevice) -> warpwright_runtime::Result<()> {
        for neighbour in self.neighbours() {
            let event = raw.create_event()?;
            raw.record(event, neighbour.raw)?;
            raw.wait(self.raw, event)?;
            raw.destroy_event(event);
        }
        Ok(())
    }

    /// Makes its later operations wait for an event.
    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        let machine = machine()?;
        if machine.in_order {
            machine.raw.wait(self.raw, event.raw).map_err(|error| report::status(&error))?;
        }
        let point = event.point();
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).extend(point);
        Ok(())
    }

    /// Records an event at the end of its work.
    pub(crate) fn record(&self, event: &Event) -> Result<()> {
        let raw_event = event.raw;
        event.record(|record| {
            let machine = machine()?;
            if machine.in_order {
                let raw = &machine.raw;
                let noted = self.order_checked(raw).and_then(|()| raw.record(raw_event, self.raw));
                noted.map_err(|error| report::status(&error))?;
                record(Instant::now());
                return Ok(None);
            }
            Ok(Some(self.queue.add(self.predecessors(), Box::new(|| record(Instant::now())))))
        })
    }

    /// Whether all its work is complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.end().is_none()
    }

    /// Waits for its work, and returns the failure of a kernel.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let machine = machine()?;
        if let Some(end) = self.end() {
            end.wait();
        }
        machine.raw.synchronize_stream(self.raw).map_err(|error| report::status(&error))?;
        machine.flush_printed();
        self.context.check()
    }

    /// The end of its work, and of what it waits for.
    fn end(&self) -> Option<Point> {
        let waits = !self.awaited.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if waits || self.ordered == Ordered::Legacy {
            return Some(self.queue.add(self.predecessors(), Box::new(|| ())));
        }
        self.queue.end()
    }

    /// What records its operations in place of doing them.
    pub(crate) fn capture(&self) -> MutexGuard<'_, Option<Arc<Capture>>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
