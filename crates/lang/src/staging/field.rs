//! Fields of a struct with `#[derive(DeviceValue)]`.

use warpwright_ir::Register;

use crate::device_value::DeviceValue;

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
