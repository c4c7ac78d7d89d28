//! The clusters of a grid that have not started.

use std::sync::atomic::{AtomicU64, Ordering};

/// The clusters of a grid that have not started, which start in their order.
#[derive(Debug)]
pub(crate) struct PendingClusters {
    next: AtomicU64,
    count: u64,
}

impl PendingClusters {
    /// All clusters of a grid.
    pub(crate) fn new(count: u64) -> Self {
        Self { next: AtomicU64::new(0), count }
    }

    /// Takes the next one, to start it or to cancel it.
    pub(crate) fn take(&self) -> Option<u64> {
        let next = |next: u64| (next < self.count).then_some(next + 1);
        self.next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok()
    }

    /// Whether none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.next.load(Ordering::SeqCst) >= self.count
    }
}
