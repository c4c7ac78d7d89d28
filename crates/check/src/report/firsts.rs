//! Findings by key: the first of each, and their count.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first finding of each key, and the number of findings.
#[derive(Debug)]
pub(crate) struct Firsts<K, T>(Mutex<BTreeMap<K, (T, u64)>>);

impl<K, T> Default for Firsts<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord, T> Firsts<K, T> {
    /// Adds a finding. Host threads find them in any order; the one with the lowest rank counts as
    /// the first.
    pub(crate) fn note<R: Ord>(&self, key: K, found: T, rank: impl Fn(&T) -> R) {
        match self.lock().entry(key) {
            Entry::Vacant(entry) => drop(entry.insert((found, 1))),
            Entry::Occupied(mut entry) => {
                let (first, count) = entry.get_mut();
                *count += 1;
                if rank(&found) < rank(first) {
                    *first = found;
                }
            }
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<K, (T, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_key_is_kept_and_all_are_counted() {
        let firsts = Firsts::default();
        for (key, found) in [('a', 5), ('b', 7), ('a', 3), ('a', 4)] {
            firsts.note(key, found, |&found| found);
        }
        assert_eq!(*firsts.lock(), BTreeMap::from([('a', (3, 3)), ('b', (7, 1))]));
    }
}
