//! The limit of a launch, and what is left of it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much a launch may execute before it is stopped with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Time on the host.
    Time(Duration),
    /// Instructions, counted once a warp.
    WarpInstructions(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{} s", time.as_secs_f64()),
            Self::WarpInstructions(count) => write!(f, "{count} warp instructions"),
        }
    }
}

/// What a launch has executed of its limit. It is checked after each turn of a warp, so a launch ends
/// a little after its limit.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: Option<Limit>,
    started: Instant,
    warp_instructions: AtomicU64,
}

impl Allowance {
    /// The whole of a limit.
    pub(crate) fn of(limit: Option<Limit>) -> Self {
        Self { limit, started: Instant::now(), warp_instructions: AtomicU64::new(0) }
    }

    /// A warp has executed `warp_instructions`. Returns the limit if it is reached.
    #[inline]
    pub(crate) fn spend(&self, warp_instructions: u64) -> Option<Limit> {
        let limit = self.limit?;
        let is_reached = match limit {
            Limit::Time(time) => self.started.elapsed() >= time,
            Limit::WarpInstructions(most) => {
                let before = self.warp_instructions.fetch_add(warp_instructions, Ordering::Relaxed);
                before.saturating_add(warp_instructions) >= most
            }
        };
        is_reached.then_some(limit)
    }
}
