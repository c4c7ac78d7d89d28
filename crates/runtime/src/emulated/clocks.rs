//! The times of events and streams: of the host, or predicted if the device is timed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::backend::Handle;

/// When an event was recorded.
#[derive(Clone, Copy, Debug)]
struct Moment {
    host: Instant,
    /// The predicted time of the stream's work until then.
    predicted: Duration,
}

/// The times of events and streams.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// When each event was last recorded.
    events: HashMap<usize, Option<Moment>>,
    /// The predicted time of each stream's work.
    streams: HashMap<usize, Duration>,
}

impl Clocks {
    pub(super) fn create(&mut self, event: Handle) {
        self.events.insert(event.0, None);
    }

    pub(super) fn destroy(&mut self, event: Handle) {
        self.events.remove(&event.0);
    }

    pub(super) fn record(&mut self, event: Handle, stream: Handle) {
        let moment = Moment { host: Instant::now(), predicted: self.predicted(stream) };
        self.events.insert(event.0, Some(moment));
    }

    /// The stream does nothing before the event.
    pub(super) fn wait(&mut self, stream: Handle, event: Handle) {
        if let Some(Some(moment)) = self.events.get(&event.0) {
            let later = self.predicted(stream).max(moment.predicted);
            self.streams.insert(stream.0, later);
        }
    }

    /// Work of the stream takes time.
    pub(super) fn advance(&mut self, stream: Handle, microseconds: f64) {
        *self.streams.entry(stream.0).or_default() += Duration::from_secs_f64(microseconds / 1e6);
    }

    /// The time between two events; `None` if one is not recorded.
    pub(super) fn elapsed(&self, start: Handle, end: Handle, is_predicted: bool) -> Option<Duration> {
        let moment = |event: Handle| self.events.get(&event.0).copied().flatten();
        let (start, end) = (moment(start)?, moment(end)?);
        Some(match is_predicted {
            true => end.predicted.saturating_sub(start.predicted),
            false => end.host.saturating_duration_since(start.host),
        })
    }

    fn predicted(&self, stream: Handle) -> Duration {
        self.streams.get(&stream.0).copied().unwrap_or_default()
    }
}
