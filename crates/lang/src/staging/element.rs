//! `a[i] = v`: Rust's own for Rust's collections, a store for device memory.

use std::ops::{Index, IndexMut};

use super::place::{Assigned, CompoundAssigned, ReadableAs};
use crate::index::{Indexed, IndexedMut};

/// Device memory, whose elements are stored to by assignment.
///
/// A type whose `a[i]` is device memory implements [`Indexed`] and [`IndexedMut`], this trait, and
/// [`std::ops::Index`] by `self.load_at(index).interned()`.
pub trait DeviceMemory {}

/// A name without `mut` whose elements a device-time loop assigns: allowed for device memory, which
/// holds its elements itself.
#[diagnostic::on_unimplemented(
    message = "elements of a `{Self}` are assigned in this loop, and it is declared without `mut`",
    label = "declare this with `let mut`",
    note = "a reference is declared with its type: `let a: &mut [_] = ..`"
)]
pub trait StaysInMemory {}

/// Checks that assigning elements through this name needs nothing from the loop around it.
pub fn elements_stay_in_memory<M: StaysInMemory>(_memory: &M) {}

/// Device memory of which an element is assigned.
pub trait ElementsOfMemory {
    /// The elements.
    fn assigned_elements<I: Copy>(&self) -> AssignedElements<'_, Self, I>;
}

impl<M: DeviceMemory> ElementsOfMemory for M {
    fn assigned_elements<I: Copy>(&self) -> AssignedElements<'_, M, I> {
        AssignedElements { memory: self, element: None }
    }
}

/// A collection, or a reference to device memory, of which an element is assigned.
pub trait ElementsOfCollection {
    /// The elements.
    fn assigned_elements(&mut self) -> CollectionElements<'_, Self>;
}

impl<C: ?Sized> ElementsOfCollection for C {
    fn assigned_elements(&mut self) -> CollectionElements<'_, C> {
        CollectionElements(self)
    }
}

/// What is borrowed to assign an element.
pub struct CollectionElements<'place, C: ?Sized>(&'place mut C);

impl<'place, M: DeviceMemory> CollectionElements<'place, M> {
    /// The elements of device memory.
    pub fn places<I: Copy>(self) -> AssignedElements<'place, M, I> {
        AssignedElements { memory: self.0, element: None }
    }
}

/// What is borrowed to assign an element of a collection.
pub trait PlainElements<'place> {
    /// The collection.
    type Collection: ?Sized;
    /// The collection itself.
    fn places(self) -> &'place mut Self::Collection;
}

impl<'place, C: ?Sized> PlainElements<'place> for CollectionElements<'place, C> {
    type Collection = C;
    fn places(self) -> &'place mut C {
        self.0
    }
}

/// Elements of device memory; indexing says which is assigned.
pub struct AssignedElements<'memory, M: ?Sized, I> {
    memory: &'memory M,
    element: Option<AssignedElement<'memory, M, I>>,
}

impl<M: ?Sized, I> AssignedElements<'_, M, I> {
    /// The elements themselves.
    pub fn places(self) -> Self {
        self
    }
}

impl<'memory, M: Indexed<I> + ?Sized, I: Copy> Index<I> for AssignedElements<'memory, M, I> {
    type Output = AssignedElement<'memory, M, I>;
    fn index(&self, _: I) -> &Self::Output {
        unreachable!("an element that is assigned is not looked at")
    }
}

impl<M: Indexed<I> + ?Sized, I: Copy> IndexMut<I> for AssignedElements<'_, M, I> {
    fn index_mut(&mut self, index: I) -> &mut Self::Output {
        self.element.insert(AssignedElement { memory: self.memory, index })
    }
}

/// An element of device memory that is assigned.
pub struct AssignedElement<'memory, M: ?Sized, I> {
    memory: &'memory M,
    index: I,
}

impl<M: ?Sized, I: Copy> Assigned<'_, AssignedElement<'_, M, I>> {
    /// Stores `value`.
    #[track_caller]
    pub fn assign<V>(self, value: V)
    where
        M: IndexedMut<I, V>,
    {
        self.0.memory.store_at(self.0.index, value);
    }
}

impl<M: Indexed<I> + ?Sized, I: Copy> ReadableAs for AssignedElement<'_, M, I> {
    type Value = M::Value;
    #[track_caller]
    fn read_now(self) -> M::Value {
        self.memory.load_at(self.index)
    }
}

impl<M: ?Sized, I: Copy> CompoundAssigned for AssignedElement<'_, M, I>
where
    M: Indexed<I> + IndexedMut<I, <M as Indexed<I>>::Value>,
{
    #[track_caller]
    fn current(&self) -> Self::Value {
        self.memory.load_at(self.index)
    }

    #[track_caller]
    fn update(&mut self, value: Self::Value) {
        self.memory.store_at(self.index, value);
    }
}
