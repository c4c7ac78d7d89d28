//! Reads that are guesses: `old = *address; do old = atomicCAS(address, old, ...)`. A plain read of
//! a value that others update atomically is a race. It is harmless if the reader then executes an
//! atomic operation on the same address, which validates the guess (CUDA C++ Programming Guide,
//! "Atomic Functions").

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use warpwright_events::{AccessKind, Actor, LANES, Strength, lanes};

use crate::report::conflict::{Conflict, Party};
use crate::report::finding::FindingKind;

/// Races of a plain read with an atomic operation, until the reader's own atomic operation, by the
/// reader's CTA and warp.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    held: Mutex<HashMap<(u32, u32), Vec<Conflict>>>,
    count: AtomicUsize,
    /// Instructions whose reads proved to be guesses. A guess may be used without an atomic
    /// operation, for example when a maximum is not raised.
    sites: Mutex<HashSet<u32>>,
}

/// The side of a deferred conflict that reads.
fn reader(conflict: &Conflict) -> &Party {
    if conflict.later.kind == AccessKind::Read { &conflict.later } else { &conflict.earlier }
}

fn is_guess(party: &Party, other: &Party) -> bool {
    party.kind == AccessKind::Read
        && party.strength == Strength::Weak
        && party.proxy.is_none()
        && other.kind == AccessKind::Atomic
}

impl Guesses {
    /// Defers a conflict if one side of it may be a guess, and returns it otherwise. For shared
    /// granules this happens under the granule's lock, so the guess is recorded before the reader's
    /// own atomic operation.
    pub(crate) fn hold(&self, conflict: Conflict) -> Option<Conflict> {
        let (later, earlier) = (&conflict.later, &conflict.earlier);
        let reader = match () {
            () if conflict.kind != FindingKind::Race => None,
            () if is_guess(later, earlier) => Some(later),
            () if is_guess(earlier, later) => Some(earlier),
            () => None,
        };
        let Some((cta, warp)) = reader.and_then(|reader| Some((reader.cta, reader.warp?))) else {
            return Some(conflict);
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.entry((cta, warp)).or_default().push(conflict);
        self.count.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Lanes have executed an atomic operation: their earlier reads of the same address were
    /// guesses.
    pub(crate) fn confirm(&self, cta: u32, actor: Actor, addresses: &[u64; LANES], size: u64) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(conflicts) = held.get_mut(&(cta, actor.warp)) else { return };
        let before = conflicts.len();
        conflicts.retain(|conflict| {
            let reader = reader(conflict);
            let confirmed = lanes(reader.lanes & actor.lanes)
                .any(|lane| (addresses[lane]..addresses[lane] + size).contains(&conflict.address));
            if confirmed {
                self.sites.lock().unwrap_or_else(PoisonError::into_inner).insert(reader.pc);
            }
            !confirmed
        });
        self.count.fetch_sub(before - conflicts.len(), Ordering::Relaxed);
    }

    /// The deferred conflicts whose reads were not guesses.
    pub(crate) fn take(&self) -> Vec<Conflict> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let conflicts = held.drain().flat_map(|(_, conflicts)| conflicts);
        conflicts.filter(|conflict| !sites.contains(&reader(conflict).pc)).collect()
    }
}
