//! `a[i]` and `a[i] = v` where `a` is a pointer.

use std::ops;

use crate::element::Element;
use crate::index::{Index, Indexed, IndexedMut};
use crate::memory::MemoryElement;
use crate::pointer::Pointer;
use crate::space::Space;
use crate::staging::{DeviceMemory, StaysInMemory};
use crate::value::{Reg, Value};

impl<T: MemoryElement, S: Space, I: Index> Indexed<I> for Pointer<T, S> {
    type Value = Reg<T>;

    #[track_caller]
    fn load_at(&self, index: I) -> Reg<T> {
        self.at(index).load()
    }
}

impl<T: MemoryElement, S: Space, I: Index, V: Value<T>> IndexedMut<I, V> for Pointer<T, S> {
    #[track_caller]
    fn store_at(&self, index: I, value: V) {
        self.at(index).store(value);
    }
}

impl<T: Element, S: Space> DeviceMemory for Pointer<T, S> {}
#[diagnostic::do_not_recommend]
impl<T: Element, S: Space> StaysInMemory for Pointer<T, S> {}
#[diagnostic::do_not_recommend]
impl<T: Element, S: Space> StaysInMemory for &Pointer<T, S> {}
#[diagnostic::do_not_recommend]
impl<T: Element, S: Space> StaysInMemory for &mut Pointer<T, S> {}

/// Reading an element of device memory loads it.
impl<T: MemoryElement, S: Space, I: Index> ops::Index<I> for Pointer<T, S> {
    type Output = Reg<T>;

    #[track_caller]
    fn index(&self, index: I) -> &Reg<T> {
        self.load_at(index).interned()
    }
}
