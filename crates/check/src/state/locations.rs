//! What strong stores and atomics have released, by location.

use std::collections::HashMap;

use warpwright_events::{MemorySpace, Scope};

use crate::state::knowledge::Knowledge;

/// What one CTA's threads have released at a location.
#[derive(Clone, Debug)]
pub(crate) struct Releases {
    pub(crate) cta: u32,
    pub(crate) scope: Scope,
    pub(crate) knowledge: Knowledge,
}

/// The locations that strong accesses have written.
#[derive(Debug, Default)]
pub(crate) struct SyncLocations(HashMap<(MemorySpace, u64), Vec<Releases>>);

impl SyncLocations {
    /// A location is written by a store, which replaces what was released there (`replaces`), or by
    /// an atomic, which adds to it.
    pub(crate) fn publish(
        &mut self,
        space: MemorySpace,
        address: u64,
        replaces: bool,
        releases: Vec<Releases>,
    ) {
        if replaces {
            if releases.is_empty() {
                self.0.remove(&(space, address));
            } else {
                self.0.insert((space, address), releases);
            }
            return;
        }
        let held = self.0.entry((space, address)).or_default();
        for release in releases {
            match held.iter_mut().find(|held| held.cta == release.cta && held.scope == release.scope) {
                Some(held) => held.knowledge.join(&release.knowledge),
                None => held.push(release),
            }
        }
    }

    /// What was released at a location.
    pub(crate) fn read(&self, space: MemorySpace, address: u64) -> Vec<Releases> {
        self.0.get(&(space, address)).cloned().unwrap_or_default()
    }
}
