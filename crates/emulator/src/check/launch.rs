//! What the checkers of all clusters of a launch share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::locations::SyncLocations;
use crate::registers::LANES;

/// The checkers of a launch.
#[derive(Debug)]
pub(crate) struct LaunchChecks {
    /// The lanes of a CTA's warps.
    pub(super) populations: Vec<u32>,
    /// Strong accesses to global memory.
    locations: Mutex<SyncLocations>,
}

impl LaunchChecks {
    /// The checkers of a launch of CTAs with so many threads.
    pub(crate) fn new(threads: u32) -> Self {
        let warps = threads.div_ceil(LANES as u32);
        let population = |warp: u32| match threads - warp * LANES as u32 {
            left if left >= LANES as u32 => u32::MAX,
            left => (1 << left) - 1,
        };
        Self { populations: (0..warps).map(population).collect(), locations: Mutex::default() }
    }

    pub(super) fn locations(&self) -> MutexGuard<'_, SyncLocations> {
        self.locations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
