//! `tensor[(row, column)]` and `tensor[(row, column)] = value` in attributed code.

use std::ops;

use warpwright_layout::IntTuple;

use super::Tensor;
use crate::element::Element;
use crate::index::{Indexed, IndexedMut};
use crate::space::Space;
use crate::staging::{DeviceMemory, StaysInMemory};
use crate::value::{Reg, Value};

impl<T: Element, S: Space, I: Into<IntTuple>> Indexed<I> for Tensor<T, S> {
    type Value = Reg<T>;

    #[track_caller]
    fn load_at(&self, coordinate: I) -> Reg<T> {
        self.get(coordinate)
    }
}

impl<T: Element, S: Space, I: Into<IntTuple>, V: Value<T>> IndexedMut<I, V> for Tensor<T, S> {
    #[track_caller]
    fn store_at(&self, coordinate: I, value: V) {
        self.set(coordinate, value);
    }
}

impl<T, S: Space> DeviceMemory for Tensor<T, S> {}
#[diagnostic::do_not_recommend]
impl<T, S: Space> StaysInMemory for Tensor<T, S> {}
#[diagnostic::do_not_recommend]
impl<T, S: Space> StaysInMemory for &Tensor<T, S> {}

/// Reading an element loads it.
impl<T: Element, S: Space, I: Into<IntTuple>> ops::Index<I> for Tensor<T, S> {
    type Output = Reg<T>;

    #[track_caller]
    fn index(&self, coordinate: I) -> &Reg<T> {
        self.get(coordinate).interned()
    }
}
