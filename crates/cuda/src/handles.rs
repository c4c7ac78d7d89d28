//! Handles: numbers that programs receive for objects. A number is of one object for the life of the process, so that
//! a stale handle, or one of another kind, is found to be wrong.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::status::{Result, Status};

/// The next number. Those below are left to what programs pass by mistake, and to the named streams.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000);

/// A number that no other object has.
pub(crate) fn number() -> usize {
    NEXT.fetch_add(16, Ordering::Relaxed)
}

/// A handle, as C passes it.
#[repr(transparent)]
pub(crate) struct Handle<T>(pub(crate) usize, PhantomData<fn() -> T>);

impl<T> Handle<T> {
    pub(crate) fn new(number: usize) -> Self {
        Self(number, PhantomData)
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

/// The objects of a kind, by their numbers.
pub(crate) struct Handles<T>(Mutex<Option<HashMap<usize, Arc<T>>>>);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn locked(&self) -> MutexGuard<'_, Option<HashMap<usize, Arc<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object that is made with its number.
    pub(crate) fn add(&self, make: impl FnOnce(usize) -> T) -> (Handle<T>, Arc<T>) {
        let number = number();
        let object = Arc::new(make(number));
        self.locked().get_or_insert_default().insert(number, object.clone());
        (Handle::new(number), object)
    }

    pub(crate) fn get(&self, handle: Handle<T>) -> Result<Arc<T>> {
        self.locked().as_ref().and_then(|all| all.get(&handle.0).cloned()).ok_or(Status::INVALID_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle<T>) -> Result<Arc<T>> {
        self.locked().as_mut().and_then(|all| all.remove(&handle.0)).ok_or(Status::INVALID_HANDLE)
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.locked().as_ref().map_or_else(Vec::new, |all| all.values().cloned().collect())
    }
}
