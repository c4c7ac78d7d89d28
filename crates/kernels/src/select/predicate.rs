//! What is selected.

use std::hash::Hash;

use warpwright::prelude::*;

/// Selects elements. A predicate is build-time configuration, like a
/// [`Monoid`](crate::monoid::Monoid).
pub trait Predicate<T: Element>: Copy + Eq + Hash + Send + Sync + 'static {
    /// Whether `element` is selected.
    fn wants(&self, element: Reg<T>) -> Reg<bool>;
}
