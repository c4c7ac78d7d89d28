//! What strong stores and atomics have released, by the location they wrote.

use std::collections::HashMap;

use super::event::{Scope, Site};
use super::warp::Knowledge;

/// What one CTA's threads have released at a location.
#[derive(Clone, Debug)]
pub(super) struct Releases {
    pub(super) cta: u32,
    pub(super) scope: Scope,
    pub(super) knowledge: Knowledge,
}

/// The locations that strong accesses have written.
#[derive(Debug, Default)]
pub(super) struct SyncLocations(HashMap<(Site, u64), Vec<Releases>>);

impl SyncLocations {
    /// A location is written by a store, that `replaces` what was released there, or by an atomic, that adds to it.
    pub(super) fn publish(&mut self, site: Site, address: u64, replaces: bool, releases: Vec<Releases>) {
        if replaces {
            if releases.is_empty() {
                self.0.remove(&(site, address));
            } else {
                self.0.insert((site, address), releases);
            }
            return;
        }
        let held = self.0.entry((site, address)).or_default();
        for release in releases {
            match held.iter_mut().find(|held| held.cta == release.cta && held.scope == release.scope) {
                Some(held) => held.knowledge.join(&release.knowledge),
                None => held.push(release),
            }
        }
    }

    /// What was released at a location.
    pub(super) fn read(&self, site: Site, address: u64) -> Vec<Releases> {
        self.0.get(&(site, address)).cloned().unwrap_or_default()
    }
}
