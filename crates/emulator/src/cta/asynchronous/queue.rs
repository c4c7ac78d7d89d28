//! The bulk and tensor copies of a CTA that are in flight.

use std::sync::Arc;

use warpwright_events::{LANES, lanes};

use super::transfer::Transfer;
use crate::launch::schedule::{Random, Schedule};
use crate::tensor_map::{Encoded, Tensor};

/// Number of decoded tensor maps that a CTA caches.
const KEPT_MAPS: usize = 8;

/// The bulk and tensor copies in flight of a CTA's threads.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    pub(super) pending: Vec<Transfer>,
    /// Bulk groups committed, by warp and lane: the number of the group that is open.
    committed: Vec<[u32; LANES]>,
    /// Mbarriers of the CTA whose phase a thread has last found open.
    pub(super) awaited: Vec<u64>,
    /// Recently decoded tensor maps.
    maps: Vec<(Encoded, Arc<Tensor>)>,
    pub(super) random: Random,
}

impl Transfers {
    pub(crate) fn new(schedule: Schedule, cta: u64) -> Self {
        let mut transfers = Self::default();
        transfers.reset(schedule, cta);
        transfers
    }

    /// Resets the state, for another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64) {
        self.random = Random::new(schedule, cta, 0x5851_f42d_4c95_7f2d);
        self.pending.clear();
        self.committed.clear();
        self.awaited.clear();
    }

    /// Whether a random event that happens once of `count` times happens.
    pub(crate) fn one_of(&mut self, count: u32) -> bool {
        self.random.below(count) == 0
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The bulk group that a thread's copies join.
    pub(crate) fn open_group(&mut self, warp: u32, lane: usize) -> u32 {
        self.groups(warp)[lane]
    }

    /// Closes the open bulk groups of the lanes of a mask, and opens new ones.
    pub(crate) fn commit(&mut self, warp: u32, mask: u32) {
        let groups = self.groups(warp);
        lanes(mask).for_each(|lane| groups[lane] += 1);
    }

    pub(super) fn groups(&mut self, warp: u32) -> &mut [u32; LANES] {
        let warp = warp as usize;
        if self.committed.len() <= warp {
            self.committed.resize(warp + 1, [0; LANES]);
        }
        &mut self.committed[warp]
    }

    /// A thread has found the phase of an mbarrier open, or closed.
    pub(crate) fn note_test(&mut self, offset: u64, is_open: bool) {
        let known = self.awaited.iter().position(|&awaited| awaited == offset);
        match known {
            None if is_open => self.awaited.push(offset),
            Some(index) if !is_open => drop(self.awaited.swap_remove(index)),
            _ => {}
        }
    }

    /// A decoded tensor map, or the reason that it is invalid.
    pub(crate) fn tensor(&mut self, encoded: &Encoded) -> Result<Arc<Tensor>, String> {
        if let Some((_, tensor)) = self.maps.iter().find(|(known, _)| known == encoded) {
            return Ok(tensor.clone());
        }
        let description = encoded.decode()?;
        description.check().map_err(|error| error.to_string())?;
        let tensor = Arc::new(Tensor::new(&description));
        if self.maps.len() == KEPT_MAPS {
            self.maps.remove(0);
        }
        self.maps.push((*encoded, tensor.clone()));
        Ok(tensor)
    }
}
