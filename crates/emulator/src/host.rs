//! The devices of one host, which may access each other's memory.
//!
//! Each device has its own global memory. Memory that is [shared](crate::SharedRegion) is a region
//! of several devices, at the same address in each. An access of a kernel to it is an access of the
//! host's, so kernels of two devices that run at the same time see each other's stores as CTAs of
//! one grid do.
//!
//! A kernel may wait for one of another device. The number of changes is therefore the host's, and
//! a launch is deadlocked only if nothing proceeds in any launch of the host while every device runs
//! one ([`stillness`](crate::scheduling::stillness)).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::memory::PEER_BASE;

/// How long a launch waits for a device that runs nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the devices of a host share.
#[derive(Debug)]
pub(crate) struct Host {
    /// The number of visits to clusters that changed something visible to other threads, and of
    /// writes by the host.
    pub(crate) changes: AtomicU64,
    launches: Mutex<Launches>,
    /// The address of the next shared allocation.
    next_shared: AtomicU64,
}

/// The launches that run.
#[derive(Debug)]
struct Launches {
    /// Of each device.
    running: Vec<u64>,
    started: u64,
    /// The launches in which nothing has proceeded since the number of changes was `epoch`, and
    /// since when each has been known to be one.
    still: BTreeMap<u64, Instant>,
    epoch: u64,
    /// Whether all launches stood still at that change. They end one after the other.
    is_deadlocked: bool,
}

/// What a launch in which nothing proceeds waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// Another launch may proceed, or another device may start one.
    Temporary,
    /// Nothing proceeds on any device.
    Everywhere,
    /// Nothing proceeds, and another device has run nothing for a long time.
    WithoutPeer,
}

impl Host {
    /// A host with that many devices.
    pub(crate) fn new(devices: usize) -> Self {
        let running = vec![0; devices];
        let launches =
            Launches { running, started: 0, still: BTreeMap::new(), epoch: 0, is_deadlocked: false };
        Self {
            changes: AtomicU64::new(0),
            launches: Mutex::new(launches),
            next_shared: AtomicU64::new(PEER_BASE),
        }
    }

    /// Something changed that a thread of any device may wait for.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The address of a shared allocation that takes `bytes` with the gap after it.
    pub(crate) fn reserve_shared(&self, bytes: u64) -> u64 {
        self.next_shared.fetch_add(bytes, Ordering::Relaxed)
    }

    /// A launch starts on a device. It ends when the value is dropped.
    pub(crate) fn start(&self, device: usize) -> RunningLaunch<'_> {
        let mut launches = self.launches();
        launches.running[device] += 1;
        launches.started += 1;
        launches.is_deadlocked = false;
        RunningLaunch { host: self, device, number: launches.started }
    }

    fn launches(&self) -> MutexGuard<'_, Launches> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A launch that runs.
#[derive(Debug)]
pub(crate) struct RunningLaunch<'a> {
    pub(crate) host: &'a Host,
    device: usize,
    number: u64,
}

impl RunningLaunch<'_> {
    /// Nothing in the launch proceeds since the number of changes was `epoch`.
    pub(crate) fn stand_still(&self, epoch: u64) -> Standstill {
        let mut launches = self.host.launches();
        if launches.epoch < epoch {
            launches.epoch = epoch;
            launches.still.clear();
            launches.is_deadlocked = false;
        }
        if launches.epoch > epoch {
            return Standstill::Temporary;
        }
        let since = *launches.still.entry(self.number).or_insert_with(Instant::now);
        if launches.is_deadlocked {
            return Standstill::Everywhere;
        }
        if launches.still.len() as u64 != launches.running.iter().sum::<u64>() {
            Standstill::Temporary
        } else if launches.running.iter().all(|running| *running > 0) {
            launches.is_deadlocked = true;
            Standstill::Everywhere
        } else if since.elapsed() > PATIENCE {
            Standstill::WithoutPeer
        } else {
            Standstill::Temporary
        }
    }
}

impl Drop for RunningLaunch<'_> {
    fn drop(&mut self) {
        let mut launches = self.host.launches();
        launches.running[self.device] -= 1;
        launches.still.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_proceeds_once_all_devices_stand_still_at_the_same_change() {
        let host = Host::new(2);
        let first = host.start(0);
        assert_eq!(first.stand_still(3), Standstill::Temporary, "the other device runs nothing");
        let second = host.start(1);
        assert_eq!(second.stand_still(4), Standstill::Temporary);
        assert_eq!(first.stand_still(3), Standstill::Temporary, "the second one has changed something");
        assert_eq!(first.stand_still(4), Standstill::Everywhere);
        drop(first);
        assert_eq!(second.stand_still(4), Standstill::Everywhere, "nothing has happened since");
        assert_eq!(second.stand_still(5), Standstill::Temporary, "the other device may run another one");
    }
}
