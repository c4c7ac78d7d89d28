//! Clocks: real time, except for threads that wait.
//!
//! Waits often read a clock: to sleep for growing intervals, as libcu++'s barriers do, or to time
//! out. Such a wait sees a new value each time, so it would never return to an earlier state
//! ([`stillness`](crate::scheduling::stillness)). Clocks therefore stand still while nothing
//! changes in a cluster. If all clusters are still, the clocks of the launch leap ahead, further
//! each time, so that waits with a timeout end. If none ends, no later time would help.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The successive leaps of the clocks, in nanoseconds: 1 ms to 12 days. None is a power of two, so
/// that short clocks move as well.
const LEAPS: [u64; 4] = [1_000_003, 1_000_000_007, 1_000_000_000_039, 1_000_000_000_000_037];

/// A moment of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The time since its start.
    Elapsed(Duration),
    /// The cycle of the device's clock, at its highest frequency.
    Cycle(u64),
}

/// The clocks of a launch.
#[derive(Debug)]
pub(crate) struct LaunchClock {
    started: Instant,
    /// The start of the launch, since 1970.
    date: Duration,
    /// The sum of the leaps, in nanoseconds.
    ahead: AtomicU64,
    /// Whether any thread reads it.
    is_read: AtomicBool,
    /// The number of consecutive leaps without a change, and the launch's number of changes after
    /// the last one.
    leaps: Mutex<(usize, u64)>,
}

impl LaunchClock {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            date: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            ahead: AtomicU64::new(0),
            is_read: AtomicBool::new(false),
            leaps: Mutex::new((0, 0)),
        }
    }

    /// The time since the start of the launch, including leaps.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed() + Duration::from_nanos(self.ahead.load(Ordering::Relaxed))
    }

    /// The date at a moment of the launch.
    pub(crate) fn date(&self, elapsed: Duration) -> Duration {
        self.date + elapsed
    }

    /// A thread reads a clock.
    pub(crate) fn note_read(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }

    /// Nothing has happened since `epoch`, by the launch's number of changes. Returns whether the
    /// clocks leap; not if no thread reads them or leaps have had no effect.
    pub(crate) fn leap(&self, changes: &AtomicU64, epoch: u64) -> bool {
        if !self.is_read.load(Ordering::Relaxed) {
            return false;
        }
        let mut leaps = self.leaps.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if changes.load(Ordering::SeqCst) != epoch {
            // Another worker was faster.
            return true;
        }
        let (useless, after) = *leaps;
        let index = if after == epoch { useless } else { 0 };
        let Some(far) = LEAPS.get(index) else { return false };
        self.ahead.fetch_add(*far, Ordering::Relaxed);
        *leaps = (index + 1, changes.fetch_add(1, Ordering::SeqCst) + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_leap_until_it_is_of_no_use() {
        let (clock, changes) = (LaunchClock::start(), AtomicU64::new(7));
        let leap = || clock.leap(&changes, changes.load(Ordering::SeqCst));
        assert!(!leap(), "nobody looks");
        clock.note_read();
        let leaps = (0..9).filter(|_| leap()).count();
        assert_eq!((leaps, changes.load(Ordering::SeqCst)), (LEAPS.len(), 7 + LEAPS.len() as u64));
        assert!(clock.elapsed() > Duration::from_secs(1_000_000));
        changes.fetch_add(1, Ordering::SeqCst);
        assert!(leap(), "something has happened since");
    }
}
