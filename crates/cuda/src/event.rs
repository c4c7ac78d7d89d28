//! Events: points of streams, with times.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpwright_runtime::RawEvent;

use crate::handles::Handles;
use crate::machine::machine;
use crate::queue::Point;
use crate::report;
use crate::status::{Result, Status};

/// Events by their handles.
pub(crate) static EVENTS: Handles<Event> = Handles::new();

/// `CU_EVENT_DISABLE_TIMING`
const WITHOUT_TIME: u32 = 2;

/// An event.
pub(crate) struct Event {
    pub(crate) number: usize,
    pub(crate) raw: RawEvent,
    flags: u32,
    recorded: Mutex<Option<Recorded>>,
}

/// What is done with the time at which an event is reached.
pub(crate) type Record = Box<dyn FnOnce(Instant) + Send>;

/// The last recording.
#[derive(Clone)]
struct Recorded {
    /// Where it is; `None` if that is reached.
    point: Option<Point>,
    time: Arc<Mutex<Option<Instant>>>,
}

impl Event {
    pub(crate) fn create(flags: u32) -> Result<Arc<Self>> {
        if flags & !7 != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let raw = machine()?.raw.create_event().map_err(|error| report::status(&error))?;
        let make = |number| Self { number, raw, flags, recorded: Mutex::default() };
        Ok(EVENTS.add(make).1)
    }

    fn recorded(&self) -> MutexGuard<'_, Option<Recorded>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is recorded where `add` adds what is done with the time at which the work before it is complete.
    pub(crate) fn record(&self, add: impl FnOnce(Record) -> Result<Option<Point>>) -> Result<()> {
        let time: Arc<Mutex<Option<Instant>>> = Arc::default();
        let slot = time.clone();
        let record = move |now| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        let point = add(Box::new(record))?;
        *self.recorded() = Some(Recorded { point, time });
        Ok(())
    }

    /// Where it was recorded last, unless that is reached.
    pub(crate) fn point(&self) -> Option<Point> {
        self.recorded().as_ref().and_then(|recorded| recorded.point.clone())
    }

    /// Whether the work before it is complete.
    pub(crate) fn is_reached(&self) -> bool {
        self.point().is_none_or(|point| point.is_reached())
    }

    /// Waits for the work before it.
    pub(crate) fn synchronize(&self) -> Result<()> {
        if let Some(point) = self.point() {
            point.wait();
        }
        let machine = machine()?;
        machine.raw.synchronize_event(self.raw).map_err(|error| report::status(&error))?;
        machine.flush_printed();
        Ok(())
    }

    /// The time from another event to this one, both of which are reached.
    pub(crate) fn since(&self, start: &Self) -> Result<Duration> {
        if (self.flags | start.flags) & WITHOUT_TIME != 0 {
            return Err(Status::INVALID_HANDLE);
        }
        let time = |event: &Self| {
            let recorded = event.recorded().clone().ok_or(Status::INVALID_HANDLE)?;
            let time = *recorded.time.lock().unwrap_or_else(PoisonError::into_inner);
            time.ok_or(Status::NOT_READY)
        };
        Ok(time(self)?.saturating_duration_since(time(start)?))
    }
}
