//! Values made of registers.

use warpwright_ir::Register;

use super::branch::Yields;
use crate::element::Element;
use crate::operation::here;
use crate::recorder;
use crate::value::Reg;

/// A value whose parts are device values: [`Reg`], and arrays, tuples, `Vec`s, `Option`s and
/// structs of them.
///
/// A variable of such a type can be assigned under a device-time condition and carried by a
/// device-time loop. `#[derive(DeviceValue)]` implements it for a struct; fields that are not
/// device values belong to build time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of device values",
    label = "this is a build-time value",
    note = "device values are `Reg<T>`, arrays, tuples and `Vec`s of them, and structs with `#[derive(DeviceValue)]`"
)]
pub trait DeviceValue: Yields<Self> {
    /// Whether indexing leads to device memory, not to a part of this value.
    const INDEXES_MEMORY: bool = false;

    /// Calls `visit` on every register that the value holds, in a fixed order.
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register));

    /// Whether the build-time parts are the same, so that the registers correspond.
    fn same_shape(&self, other: &Self) -> bool;

    /// Moves build-time parts that a variable cannot keep, such as a pointer's offset, into
    /// registers.
    fn settle(&mut self) {}
}

/// Something that reads as a device value: a value, or the element of memory that it names.
pub trait ReadableAs {
    /// What reading yields.
    type Value;
    /// Reads it now.
    fn read_now(self) -> Self::Value;
}

impl<V: DeviceValue> ReadableAs for V {
    type Value = V;
    #[track_caller]
    fn read_now(mut self) -> V {
        let location = here();
        recorder::with(|recorder| {
            self.visit_registers(&mut |register| *register = recorder.snapshot(*register, location));
        });
        self
    }
}

/// The registers of a value.
pub(super) fn registers<V: DeviceValue + ?Sized>(value: &mut V) -> Vec<Register> {
    let mut registers = Vec::new();
    value.visit_registers(&mut |register| registers.push(*register));
    registers
}

impl<T: Element> DeviceValue for Reg<T> {
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        let mut register = self.register();
        visit(&mut register);
        *self = Reg::from_register(register);
    }

    fn same_shape(&self, _: &Self) -> bool {
        true
    }
}

impl<V: DeviceValue> DeviceValue for [V] {
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        self.iter_mut().for_each(|value| value.visit_registers(visit));
    }

    fn same_shape(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(mine, theirs)| mine.same_shape(theirs))
    }

    #[track_caller]
    fn settle(&mut self) {
        for value in self {
            value.settle();
        }
    }
}

macro_rules! like_a_slice {
    ($([$($parameters:tt)*] $ty:ty;)*) => {
        $(impl<$($parameters)*> DeviceValue for $ty {
            fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
                self[..].visit_registers(visit);
            }

            fn same_shape(&self, other: &Self) -> bool {
                self[..].same_shape(&other[..])
            }

            #[track_caller]
            fn settle(&mut self) {
                self[..].settle();
            }
        })*
    };
}

like_a_slice! {
    [V: DeviceValue, const N: usize] [V; N];
    [V: DeviceValue] Vec<V>;
}

impl<V: DeviceValue + ?Sized> DeviceValue for Box<V> {
    const INDEXES_MEMORY: bool = V::INDEXES_MEMORY;

    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        (**self).visit_registers(visit);
    }

    fn same_shape(&self, other: &Self) -> bool {
        (**self).same_shape(other)
    }

    #[track_caller]
    fn settle(&mut self) {
        (**self).settle();
    }
}

impl<V: DeviceValue> DeviceValue for Option<V> {
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        if let Some(value) = self {
            value.visit_registers(visit);
        }
    }

    fn same_shape(&self, other: &Self) -> bool {
        match (self, other) {
            (Some(mine), Some(theirs)) => mine.same_shape(theirs),
            (None, None) => true,
            _ => false,
        }
    }

    #[track_caller]
    fn settle(&mut self) {
        if let Some(value) = self {
            value.settle();
        }
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {
        $(impl<$($name: DeviceValue),*> DeviceValue for ($($name,)*) {
            fn visit_registers(&mut self, _visit: &mut dyn FnMut(&mut Register)) {
                $(self.$index.visit_registers(_visit);)*
            }

            fn same_shape(&self, _other: &Self) -> bool {
                true $(&& self.$index.same_shape(&_other.$index))*
            }

            #[track_caller]
            fn settle(&mut self) {
                $(self.$index.settle();)*
            }
        })*
    };
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

/// A field of a struct with `#[derive(DeviceValue)]`; its type decides how it takes part.
pub struct Field<'field, V: ?Sized>(pub &'field mut V);

impl<V: DeviceValue + ?Sized> Field<'_, V> {
    /// Visits the field's registers.
    pub fn visit_registers(self, visit: &mut dyn FnMut(&mut Register)) {
        self.0.visit_registers(visit);
    }

    /// Settles the field.
    #[track_caller]
    pub fn settle(self) {
        self.0.settle();
    }
}

/// A field that belongs to build time.
pub trait BuildTimeField: Sized {
    /// It has no registers.
    fn visit_registers(self, _: &mut dyn FnMut(&mut Register)) {}
    /// There is nothing to settle.
    fn settle(self) {}
}

impl<V: ?Sized> BuildTimeField for Field<'_, V> {}

/// A field in two structs with `#[derive(DeviceValue)]`.
pub struct FieldShape<'field, V: ?Sized>(pub &'field V, pub &'field V);

impl<V: DeviceValue + ?Sized> FieldShape<'_, V> {
    /// Whether all that is known of it at build time is the same.
    pub fn same_shape(self) -> bool {
        self.0.same_shape(self.1)
    }
}

/// A field that belongs to build time and can be compared.
pub trait ComparableField: Sized {
    /// Whether it is the same in both.
    fn same_shape(self) -> bool;
}

impl<V: PartialEq + ?Sized> ComparableField for FieldShape<'_, V> {
    fn same_shape(self) -> bool {
        self.0 == self.1
    }
}

/// A field that belongs to build time and cannot be compared.
pub trait OpaqueField {
    /// Nothing says that it is the same in both.
    fn same_shape(self) -> bool;
}

impl<V: ?Sized> OpaqueField for &FieldShape<'_, V> {
    fn same_shape(self) -> bool {
        std::mem::size_of_val(self.0) == 0
    }
}
