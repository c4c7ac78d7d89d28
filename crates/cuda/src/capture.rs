//! Capture: operations of streams become nodes of a graph.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::event::Event;
use crate::graph::Graph;
use crate::handles::number;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::work::Work;

/// A capture of one or more streams.
pub(crate) struct Capture {
    pub(crate) number: usize,
    pub(crate) graph: Arc<Graph>,
    /// The stream that began it.
    pub(crate) origin: usize,
    /// The nodes that the next operation of each stream waits for, by the stream's handle.
    ends: Mutex<Vec<(usize, Vec<usize>)>>,
}

/// Where an event was recorded in a capture.
#[derive(Clone)]
pub(crate) struct Mark {
    capture: Arc<Capture>,
    after: Vec<usize>,
}

impl Capture {
    /// Begins to capture a stream into a graph, behind these nodes of it.
    pub(crate) fn begin(stream: &Stream, graph: Arc<Graph>, after: Vec<usize>) -> Result<()> {
        let mut capture = stream.capture();
        if capture.is_some() {
            return Err(Status::ILLEGAL_STATE);
        }
        let ends = Mutex::new(vec![(stream.number, after)]);
        *capture = Some(Arc::new(Self { number: number(), graph, origin: stream.number, ends }));
        Ok(())
    }

    /// Ends it. The graph has what the streams recorded.
    pub(crate) fn end(stream: &Stream) -> Result<Arc<Graph>> {
        let capture = stream.capture().take().ok_or(Status::ILLEGAL_STATE)?;
        if capture.origin != stream.number {
            *stream.capture() = Some(capture);
            return Err(Status::STREAM_CAPTURE_UNMATCHED);
        }
        for other in stream.context.streams() {
            let mut of_other = other.capture();
            if of_other.as_ref().is_some_and(|other| Arc::ptr_eq(other, &capture)) {
                *of_other = None;
            }
        }
        Ok(capture.graph.clone())
    }

    fn with_end<T>(&self, stream: usize, change: impl FnOnce(&mut Vec<usize>) -> T) -> T {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let index = ends.iter().position(|(of, _)| *of == stream).unwrap_or_else(|| {
            ends.push((stream, Vec::new()));
            ends.len() - 1
        });
        change(&mut ends[index].1)
    }

    /// The nodes that the next operation of a stream waits for.
    pub(crate) fn dependencies(&self, stream: &Stream) -> Vec<usize> {
        self.with_end(stream.number, |after| after.clone())
    }

    /// Sets, or adds to, the nodes that the next operation of a stream waits for.
    pub(crate) fn set_dependencies(&self, stream: &Stream, after: Vec<usize>, replaces: bool) {
        self.with_end(stream.number, |end| {
            if replaces {
                end.clear();
            }
            end.extend(after);
        });
    }

    /// Adds the operation of a stream.
    pub(crate) fn add(&self, stream: &Stream, work: Work) -> Result<()> {
        self.with_end(stream.number, |after| {
            let node = self.graph.add(work, after.clone())?;
            *after = vec![node];
            Ok(())
        })
    }

    /// Records an event on a captured stream.
    pub(crate) fn record(self: &Arc<Self>, stream: &Stream, event: &Event) {
        let mark = Mark { capture: self.clone(), after: self.dependencies(stream) };
        marks().insert(event.number, mark);
    }
}

fn marks() -> MutexGuard<'static, HashMap<usize, Mark>> {
    static MARKS: OnceLock<Mutex<HashMap<usize, Mark>>> = OnceLock::new();
    MARKS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where an event was recorded last, if that was in a capture.
pub(crate) fn mark(event: &Event) -> Option<Mark> {
    marks().get(&event.number).cloned()
}

/// An event is recorded elsewhere, or destroyed.
pub(crate) fn forget(event: &Event) {
    marks().remove(&event.number);
}

/// Makes a stream wait for an event that was recorded in a capture: the stream is captured too.
pub(crate) fn join(stream: &Stream, mark: &Mark) -> Result<()> {
    let mut capture = stream.capture();
    match &*capture {
        Some(own) if !Arc::ptr_eq(own, &mark.capture) => return Err(Status::STREAM_CAPTURE_ISOLATION),
        Some(_) => {}
        None => *capture = Some(mark.capture.clone()),
    }
    drop(capture);
    mark.capture.set_dependencies(stream, mark.after.clone(), false);
    Ok(())
}
