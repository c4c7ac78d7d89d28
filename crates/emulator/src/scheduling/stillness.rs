//! Detection of threads that wait in vain.
//!
//! A polling thread depends only on its registers, its local memory and what others may change.
//! While nothing changes, and clocks stand still ([`time`](crate::launch::time)), a warp that
//! returns to an earlier state repeats forever. A cluster is therefore still once every one of its
//! warps has returned to an earlier state while no thread of the grid stored or arrived anywhere,
//! and no asynchronous work was left. The grid is deadlocked once all resident clusters are still,
//! and none can start.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Visits without a change before states are compared: most waits end earlier.
const PATIENCE: u32 = 16;
/// Visits from one comparison to the next: states are large, and other clusters need the thread.
const COMPARE_EVERY: u32 = 4;

/// The record of a cluster in which nothing changes.
#[derive(Debug, Default)]
pub(crate) struct Stillness {
    /// The launch's number of changes at the start of the current quiet period.
    epoch: u64,
    /// Visits since then.
    visits: u32,
    /// The states of the warps when they were last kept, and the visit at which they are kept next.
    kept: Vec<u64>,
    keep_at: u32,
    /// The warps that have returned to a recorded state.
    repeats: Vec<bool>,
}

impl Stillness {
    /// A visit begins, at the given number of changes of the launch.
    pub(crate) fn begin_visit(&mut self, epoch: u64) {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::default() };
        }
    }

    /// Whether it has been quiet for so long that states are compared.
    pub(crate) fn compares(&self) -> bool {
        self.visits + 1 >= PATIENCE
    }

    /// The launch's changes of which the cluster knows.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A visit without a change has ended. Returns whether the cluster is still.
    pub(crate) fn end_quiet_visit(&mut self, fingerprints: impl Iterator<Item = u64>) -> bool {
        self.visits += 1;
        if !self.repeats.is_empty() && self.repeats.iter().all(|&repeats| repeats) {
            return true;
        }
        if self.visits < PATIENCE || !self.visits.is_multiple_of(COMPARE_EVERY) {
            return false;
        }
        let now: Vec<u64> = fingerprints.collect();
        self.repeats.resize(now.len(), false);
        for ((repeats, kept), now) in self.repeats.iter_mut().zip(&self.kept).zip(&now) {
            *repeats |= kept == now;
        }
        // The intervals between records grow (Brent), so states are found again whatever the length
        // of their cycle.
        if self.visits >= self.keep_at {
            self.keep_at = 2 * self.visits;
            self.kept = now;
        }
        self.repeats.iter().all(|&repeats| repeats)
    }
}

/// The clusters of a grid that are still, at the latest change of the launch.
#[derive(Debug, Default)]
pub(crate) struct StillClusters(Mutex<(u64, BTreeSet<u64>)>);

impl StillClusters {
    /// Adds a cluster. Returns how many are still since the same change.
    pub(crate) fn add(&self, cluster: u64, epoch: u64) -> u64 {
        let mut still = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if still.0 < epoch {
            *still = (epoch, BTreeSet::new());
        }
        if still.0 == epoch {
            still.1.insert(cluster);
            still.1.len() as u64
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of quiet visits that prove warps with cycles of these lengths still.
    fn visits(lengths: &[u64]) -> Option<u32> {
        let mut stillness = Stillness::default();
        stillness.begin_visit(1);
        (0..10_000)
            .find(|&visit| stillness.end_quiet_visit(lengths.iter().map(|length| u64::from(visit) % length)))
    }

    #[test]
    fn cycles_of_any_length_are_found_and_no_others() {
        assert!(visits(&[1]).is_some_and(|visits| visits <= PATIENCE + COMPARE_EVERY));
        assert!(visits(&[1, 7, 30, 4]).is_some());
        assert_eq!(visits(&[1, u64::MAX]), None);
    }

    #[test]
    fn a_change_starts_anew() {
        let mut stillness = Stillness::default();
        for epoch in 1..100 {
            stillness.begin_visit(epoch);
            assert!(!stillness.end_quiet_visit(std::iter::once(0)));
        }
        let clusters = StillClusters::default();
        assert_eq!((clusters.add(3, 5), clusters.add(4, 5), clusters.add(3, 5)), (1, 2, 2));
        assert_eq!((clusters.add(4, 6), clusters.add(3, 5)), (1, 0));
    }
}
