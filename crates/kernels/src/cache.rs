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
trait Key: Any + Send + Sync {
    fn equals(&self, other: &dyn Any) -> bool;
    fn as_any(&self) -> &dyn Any;
}

impl<K: Eq + Send + Sync + 'static> Key for K {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

type Value = Arc<dyn Any + Send + Sync>;

/// A key, and its value once it is made. The thread that makes it holds the lock.
struct Entry {
    key: Box<dyn Key>,
    value: Mutex<Option<Value>>,
}

/// What `For` is cached by, and the hash of the key.
type Slot = (TypeId, u64);

/// The entries of each slot.
type Table = FxHashMap<Slot, Vec<Arc<Entry>>>;

/// Values by key and by `For`, a type that names the purpose.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Table>);

impl Cache {
    /// The value of `key`, which `make` makes at the first call. Other threads that want it meanwhile wait.
    ///
    /// `make` may use the cache for other keys.
    ///
    /// # Errors
    /// `make`'s, which the next call repeats.
    pub(crate) fn get_or_insert<For, K, V, E>(
        &self,
        key: K,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        For: 'static,
        K: Eq + Hash + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let slot = (TypeId::of::<(For, K, V)>(), hasher.finish());
        let entry = self.find(slot, &key).unwrap_or_else(|| self.insert(slot, Box::new(key)));
        let mut value = entry.value.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match &*value {
            Some(made) => made.clone(),
            None => {
                let key = entry.key.as_ref().as_any().downcast_ref();
                let made: Value = Arc::new(make(key.expect("a slot's type id names the type of its keys"))?);
                value.insert(made).clone()
            }
        };
        Ok(made.downcast().expect("a slot's type id names the type of its values"))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, slot: Slot, key: &dyn Any) -> Option<Arc<Entry>> {
        self.lock().get(&slot)?.iter().find(|entry| entry.key.equals(key)).cloned()
    }

    /// Adds an entry, unless another thread has added one meanwhile; returns the one that stays.
    fn insert(&self, slot: Slot, key: Box<dyn Key>) -> Arc<Entry> {
        let mut table = self.lock();
        let entries = table.entry(slot).or_default();
        if let Some(earlier) = entries.iter().find(|entry| entry.key.equals(key.as_ref().as_any())) {
            return earlier.clone();
        }
        let entry = Arc::new(Entry { key, value: Mutex::default() });
        entries.push(entry.clone());
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

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

    #[test]
    fn threads_that_want_a_value_wait_for_the_one_that_makes_it() {
        let (cache, made) = (Cache::default(), AtomicU32::new(0));
        let both_are_here = Barrier::new(2);
        let get = || {
            both_are_here.wait();
            let make = |_: &u32| Ok::<_, ()>(made.fetch_add(1, Ordering::Relaxed));
            cache.get_or_insert::<u8, _, _, _>(1u32, make).map(|value| *value)
        };
        let of_other = std::thread::scope(|scope| {
            let other = scope.spawn(get);
            (get(), other.join().expect("it ends"))
        });
        assert_eq!((of_other, made.into_inner()), ((Ok(0), Ok(0)), 1));
    }
}
