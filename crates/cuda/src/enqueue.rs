//! Adding work to streams, or recording it in captures.

use crate::capture::{self, Capture};
use crate::event::Event;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::transfer::{self, Expected, Fill, Shape, Side};
use crate::work::Work;

impl Stream {
    /// Adds work, or records it if the stream is captured.
    pub(crate) fn enqueue(&self, work: Work) -> Result<()> {
        let capture = self.capture().clone();
        match (capture, work) {
            (Some(capture), work) => capture.add(self, work),
            (None, Work::Record(event)) => self.record(&event),
            (None, Work::Wait(event)) => self.wait(&event),
            (None, work) => self.add(Box::new(move |raw, stream| work.run(raw, stream))),
        }
    }
}

/// Records an event at the end of a stream's work, or of what a capture has of it.
pub(crate) fn record(stream: &Stream, event: &Event) -> Result<()> {
    let capture = stream.capture().clone();
    match capture {
        Some(capture) => {
            Capture::record(&capture, stream, event);
            Ok(())
        }
        None => {
            capture::forget(event);
            stream.record(event)
        }
    }
}

/// Makes a stream wait for an event. One of a capture makes the stream captured, too.
pub(crate) fn wait(stream: &Stream, event: &Event) -> Result<()> {
    match capture::mark(event) {
        Some(mark) => capture::join(stream, &mark),
        None if stream.capture().is_some() => Err(Status::STREAM_CAPTURE_ISOLATION),
        None => stream.wait(event),
    }
}

/// Adds a copy to a stream. `waits`: the call returns when it is complete.
pub(crate) fn copy(
    stream: &Stream,
    to: (Side, Expected),
    from: (Side, Expected),
    shape: Shape,
    waits: bool,
) -> Result<()> {
    let Some(mut copy) = transfer::prepare(to, from, shape)? else { return Ok(()) };
    let is_captured = stream.capture().is_some();
    let (to_pageable, from_pageable) = copy.is_pageable();
    // What the host may change as soon as the call returns is kept; what it may read then is complete.
    let waits = (waits || to_pageable) && !is_captured;
    if from_pageable && !waits && !is_captured {
        copy.keep()?;
    }
    stream.enqueue(Work::Copy(copy))?;
    if waits { stream.synchronize() } else { Ok(()) }
}

/// Adds a fill to a stream. `waits`: the call returns when it is complete.
pub(crate) fn fill(
    stream: &Stream,
    side: Side,
    extents: (u64, u64),
    element: &[u8],
    waits: bool,
) -> Result<()> {
    let Some(fill) = Fill::new(side, extents, element)? else { return Ok(()) };
    stream.enqueue(Work::Fill(fill))?;
    if waits && stream.capture().is_none() { stream.synchronize() } else { Ok(()) }
}
