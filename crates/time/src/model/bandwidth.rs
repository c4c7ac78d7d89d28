//! A resource that serves a number of bytes a cycle, in the order of arrival.

use std::collections::VecDeque;

/// Cycles whose capacity is shared: requests arrive a little out of order, and short bursts do not
/// matter.
const WINDOW: u64 = 32;

/// A resource with a bandwidth. A request takes the first capacity that is left from its arrival on.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    /// Units of a window.
    per_window: f64,
    /// The window that `used` begins with; all before it are full or long past.
    first: u64,
    /// The used part of windows.
    used: VecDeque<f64>,
}

/// Windows that are kept: requests that arrive more than this late are served at the earliest of these.
const KEPT: usize = 1 << 14;

impl Bandwidth {
    /// A resource that serves `rate` units a cycle.
    pub(super) fn new(rate: f64) -> Self {
        Self { per_window: rate * WINDOW as f64, first: 0, used: VecDeque::new() }
    }

    /// Serves a request that arrives at a cycle. Returns the cycle at which its last unit is served.
    pub(super) fn serve(&mut self, arrival: u64, units: f64) -> u64 {
        let mut window = (arrival / WINDOW).max(self.first);
        let mut left = units;
        loop {
            let index = (window - self.first) as usize;
            if index >= self.used.len() {
                self.used.resize(index + 1, 0.0);
            }
            let used = &mut self.used[index];
            let room = self.per_window - *used;
            if room >= left {
                *used += left;
                let end = window * WINDOW + (*used / self.per_window * WINDOW as f64) as u64;
                self.forget();
                return end.max(arrival);
            }
            left -= room;
            *used = self.per_window;
            window += 1;
        }
    }

    fn forget(&mut self) {
        while self.used.front().is_some_and(|used| *used >= self.per_window) || self.used.len() > KEPT {
            self.used.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_takes_its_bytes_divided_by_the_rate() {
        let mut memory = Bandwidth::new(10.0);
        let end = (0..1000).map(|_| memory.serve(0, 128.0)).last().expect("requests");
        assert!((12_700..=12_832).contains(&end), "{end}");
    }

    #[test]
    fn an_idle_resource_serves_at_once_even_if_later_requests_came_first() {
        let mut memory = Bandwidth::new(64.0);
        assert!(memory.serve(10_000, 64.0) < 10_033);
        assert!(memory.serve(500, 64.0) < 533);
    }
}
