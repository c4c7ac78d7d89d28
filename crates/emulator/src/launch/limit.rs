//! What stops a launch before its end: a limit, and an interrupt.

use std::fmt;
use std::sync::Arc;
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

/// Stops the launches of a device from another thread.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicU64>);

impl Interrupt {
    /// Stops the launches that run now, each with a fault a little later. Later ones run.
    pub fn stop(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Why a launch is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Limit(Limit),
    Interrupt,
}

/// What a launch has executed of its limit, and whether it was interrupted. It is checked after each turn
/// of a warp, so a launch ends a little after its limit.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: Option<Limit>,
    started: Instant,
    warp_instructions: AtomicU64,
    interrupt: Interrupt,
    /// The interrupts before the launch.
    interrupts: u64,
}

impl Allowance {
    /// The whole of a limit.
    pub(crate) fn of(limit: Option<Limit>, interrupt: &Interrupt) -> Self {
        let interrupts = interrupt.0.load(Ordering::Relaxed);
        let (started, warp_instructions) = (Instant::now(), AtomicU64::new(0));
        Self { limit, started, warp_instructions, interrupt: interrupt.clone(), interrupts }
    }

    /// A warp has executed `warp_instructions`. Returns why the launch ends, if it does.
    #[inline]
    pub(crate) fn spend(&self, warp_instructions: u64) -> Option<Stop> {
        if self.interrupt.0.load(Ordering::Relaxed) != self.interrupts {
            return Some(Stop::Interrupt);
        }
        let limit = self.limit?;
        let is_reached = match limit {
            Limit::Time(time) => self.started.elapsed() >= time,
            Limit::WarpInstructions(most) => {
                let before = self.warp_instructions.fetch_add(warp_instructions, Ordering::Relaxed);
                before.saturating_add(warp_instructions) >= most
            }
        };
        is_reached.then_some(Stop::Limit(limit))
    }
}
