//! Copies that move their data at some time between their issue and the wait for them.
//!
//! Under [`Schedule::Eager`] a copy executes when it is issued. Under `Latest` it executes when its
//! thread waits for its group, or when nothing else in the CTA can proceed. Under `Random` a seeded
//! generator selects copies in flight at each copy instruction of the thread.

use warpwright_events::{LANES, lanes};

use crate::launch::schedule::{Random, Schedule};
use crate::memory::{Memory, RegionCache, SharedMemory};

/// One lane's copy from global to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCopy {
    pub(crate) lane: u8,
    /// Bytes to write, and the number of them from the source; the rest are zeros.
    pub(crate) bytes: u8,
    pub(crate) source_bytes: u8,
    pub(crate) group: u32,
    pub(crate) source: u64,
    pub(crate) target: u32,
}

impl PendingCopy {
    /// Moves the data. Both ranges were checked when the copy was issued.
    fn complete(self, memory: &Memory, shared: &mut SharedMemory) {
        let (bytes, source_bytes) = (self.bytes as usize, self.source_bytes as usize);
        let mut data = [0; 16];
        if source_bytes > 0 {
            let end = self.source + source_bytes as u64;
            let source = memory.locate(&mut RegionCache::default(), self.source, end, false);
            let Some(source) = source else { return };
            // SAFETY: `locate` found `source_bytes` bytes, at most 16.
            unsafe { source.copy_to_nonoverlapping(data.as_mut_ptr(), source_bytes) };
        }
        let target = u64::from(self.target);
        if let Some(target) = shared.locate(target, target + bytes as u64) {
            // SAFETY: `locate` found `bytes` bytes, at most 16.
            unsafe { target.copy_from_nonoverlapping(data.as_ptr(), bytes) };
        }
    }
}

/// A thread's arrival at an mbarrier, delayed until its copies so far are complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingArrival {
    pub(crate) lane: u8,
    pub(crate) barrier: u32,
}

/// The copies in flight of one warp.
#[derive(Debug)]
pub(crate) struct CopyQueue {
    copies: Vec<PendingCopy>,
    arrivals: Vec<PendingArrival>,
    /// Groups committed, by lane: the number of the group that is open.
    committed: [u32; LANES],
    random: Random,
}

impl CopyQueue {
    pub(crate) fn new(schedule: Schedule, cta: u64, warp: u32) -> Self {
        let random = Random::default();
        let mut queue = Self { copies: Vec::new(), arrivals: Vec::new(), committed: [0; LANES], random };
        queue.reset(schedule, cta, warp);
        queue
    }

    /// Resets the state, for a warp of another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64, warp: u32) {
        self.random = Random::new(schedule, cta, u64::from(warp) << 48);
        self.copies.clear();
        self.arrivals.clear();
        self.committed = [0; LANES];
    }

    /// The group that a copy of a lane joins.
    pub(crate) fn open_group(&self, lane: usize) -> u32 {
        self.committed[lane]
    }

    pub(crate) fn push(&mut self, copy: PendingCopy) {
        self.copies.push(copy);
    }

    /// Closes the open groups of the lanes of a mask, and opens new ones.
    pub(crate) fn commit(&mut self, mask: u32) {
        for lane in lanes(mask) {
            self.committed[lane] += 1;
        }
    }

    pub(crate) fn push_arrival(&mut self, arrival: PendingArrival) {
        self.arrivals.push(arrival);
    }

    /// Completes the copies of the lanes of a mask except those of the `latest` groups committed
    /// last. If `latest` is `None`, completes all, including those of the open group.
    pub(crate) fn wait(
        &mut self,
        mask: u32,
        latest: Option<u32>,
        memory: &Memory,
        shared: &mut SharedMemory,
    ) {
        let committed = self.committed;
        self.complete(memory, shared, |copy| {
            let lane = usize::from(copy.lane);
            let due = latest
                .is_none_or(|latest| u64::from(copy.group) + u64::from(latest) < u64::from(committed[lane]));
            mask >> lane & 1 != 0 && due
        });
    }

    /// Completes some of the copies in flight, if the schedule is random.
    pub(crate) fn drift(&mut self, schedule: Schedule, memory: &Memory, shared: &mut SharedMemory) {
        if !matches!(schedule, Schedule::Random(_)) {
            return;
        }
        let chosen: Vec<bool> = (0..self.copies.len()).map(|_| self.random.toss()).collect();
        let mut chosen = chosen.into_iter();
        self.complete(memory, shared, |_| chosen.next().unwrap_or(false));
    }

    /// Completes all copies in flight. Returns whether there were any.
    pub(crate) fn drain(&mut self, memory: &Memory, shared: &mut SharedMemory) -> bool {
        let any = !self.copies.is_empty() || !self.arrivals.is_empty();
        self.complete(memory, shared, |_| true);
        any
    }

    fn complete(
        &mut self,
        memory: &Memory,
        shared: &mut SharedMemory,
        mut due: impl FnMut(&PendingCopy) -> bool,
    ) {
        self.copies.retain(|copy| {
            let due = due(copy);
            if due {
                copy.complete(memory, shared);
            }
            !due
        });
    }

    /// Removes and returns the arrivals of lanes without copies in flight.
    pub(crate) fn take_arrivals(&mut self) -> Vec<PendingArrival> {
        let busy = self.copies.iter().fold(0u32, |mask, copy| mask | 1 << copy.lane);
        let (waiting, ready) =
            std::mem::take(&mut self.arrivals).into_iter().partition(|arrival| busy >> arrival.lane & 1 != 0);
        self.arrivals = waiting;
        ready
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.arrivals.is_empty()
    }
}
