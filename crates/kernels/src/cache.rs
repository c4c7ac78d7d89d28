//! A cache of values of any type: what [`Operations`](crate::operations::Operations) keeps between
//! calls.
//!
//! The table is one for all types, behind trait objects, so that it is compiled once and not once
//! for each kernel.

use std::any::{Any, TypeId};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHasher};

/// A key of any type.
trait Key: Any + Send {
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<K: Eq + Send + 'static> Key for K {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

type Value = Arc<dyn Any + Send + Sync>;

/// What `For` is cached by, and the hash of the key.
type Slot = (TypeId, u64);

/// The values of each slot with their keys.
type Table = FxHashMap<Slot, Vec<(Box<dyn Key>, Value)>>;

/// Values by key and by `For`, a type that names the purpose.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Table>);

impl Cache {
    /// The value of `key`, which `make` makes at the first call.
    ///
    /// `make` may use the cache: nothing is locked while it runs.
    ///
    /// # Errors
    /// `make`'s.
    pub(crate) fn get_or_insert<For, K, V, E>(
        &self,
        key: K,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        For: 'static,
        K: Eq + Hash + Send + 'static,
        V: Send + Sync + 'static,
    {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let slot = (TypeId::of::<(For, K, V)>(), hasher.finish());
        let value = match self.find(slot, &key) {
            Some(value) => value,
            None => {
                let value = Arc::new(make(&key)?);
                self.insert(slot, Box::new(key), value)
            }
        };
        Ok(value.downcast().expect("a slot's type id names the type of its values"))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, slot: Slot, key: &dyn Any) -> Option<Value> {
        let table = self.lock();
        let (_, value) = table.get(&slot)?.iter().find(|(known, _)| known.equals(key))?;
        Some(value.clone())
    }

    /// Adds a value, unless another thread has added one meanwhile; returns the one that stays.
    fn insert(&self, slot: Slot, key: Box<dyn Key>, value: Value) -> Value {
        let mut table = self.lock();
        let entries = table.entry(slot).or_default();
        if let Some((_, earlier)) = entries.iter().find(|(known, _)| known.equals(key.as_ref())) {
            return earlier.clone();
        }
        entries.push((key, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_once_for_each_key_type_and_purpose() {
        let cache = Cache::default();
        let get =
            |key: u32, made: u64| *cache.get_or_insert::<u8, _, u64, ()>(key, |_| Ok(made)).expect("made");
        assert_eq!((get(1, 10), get(2, 20), get(1, 30)), (10, 20, 10));
        let other = cache.get_or_insert::<u16, _, u64, ()>(1u32, |_| Ok(40));
        assert_eq!(other.as_deref(), Ok(&40), "another purpose has values of its own");
        assert_eq!(cache.get_or_insert::<u8, u32, u64, &str>(3, |_| Err("no")).err(), Some("no"));
        assert_eq!(get(3, 50), 50, "an error is not kept");
    }
}
