//! Events.

use super::guard;
use crate::context::current;
use crate::edge::{Out, functions};
use crate::enqueue;
use crate::event::{EVENTS, Event};
use crate::handles::Handle;
use crate::status::{Result, Status};
use crate::stream::Stream;

fn record(event: Handle<Event>, stream: Handle<Stream>) -> Result<()> {
    let (stream, event) = (Stream::of(stream)?, EVENTS.get(event)?);
    enqueue::record(&stream, &event)
}

fn elapsed(milliseconds: Out<f32>, start: Handle<Event>, end: Handle<Event>) -> Result<()> {
    current()?;
    let (start, end) = (EVENTS.get(start)?, EVENTS.get(end)?);
    milliseconds.check()?;
    let elapsed = end.since(&start)?;
    milliseconds.set((elapsed.as_secs_f64() * 1e3) as f32)
}

functions! { guard; TABLE:
    2000 cuEventCreate: (event: Out<usize>, flags: u32) {
        current()?;
        event.check()?;
        event.set(Event::create(flags)?.number)
    }
    4000 cuEventDestroy_v2: (event: Handle<Event>) {
        current()?;
        let event = EVENTS.remove(event)?;
        crate::capture::forget(&event);
        crate::machine::machine()?.raw.destroy_event(event.raw);
        Ok(())
    }
    2000 cuEventRecord | cuEventRecord_ptsz: (event: Handle<Event>, stream: Handle<Stream>) {
        record(event, stream)
    }
    11010 cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz: (
        event: Handle<Event>, stream: Handle<Stream>, flags: u32,
    ) {
        if flags > 1 { return Err(Status::INVALID_VALUE) }
        record(event, stream)
    }
    2000 cuEventSynchronize: (event: Handle<Event>) {
        current()?;
        EVENTS.get(event)?.synchronize()?;
        current().map(|_| ())
    }
    2000 cuEventQuery: (event: Handle<Event>) {
        current()?;
        let event = EVENTS.get(event)?;
        if event.is_reached() { event.synchronize() } else { Err(Status::NOT_READY) }
    }
    2000 cuEventElapsedTime: (milliseconds: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        elapsed(milliseconds, start, end)
    }
    12080 cuEventElapsedTime_v2: (milliseconds: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        elapsed(milliseconds, start, end)
    }
}
