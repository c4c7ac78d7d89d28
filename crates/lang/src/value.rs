//! Device values.

use std::marker::PhantomData;

use warpwright_ir::{Operand, Register};

use crate::element::Element;

/// A value of type `T` on the device: a handle to a virtual register of the kernel being staged.
///
/// Every operation on device values yields a handle to a fresh register. A register is written again only through a
/// variable that the author declared with `let mut` (or a field or element assigned to) in a `#[kernel]` or
/// `#[device]` body; reading such a variable takes its value at that moment, as in Rust.
pub struct Reg<T> {
    register: Register,
    element: PhantomData<T>,
}

impl<T> Clone for Reg<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Reg<T> {}

impl<T: Element> Reg<T> {
    /// A handle to `register`, which must be of `T`'s class.
    pub fn from_register(register: Register) -> Self {
        Self { register, element: PhantomData }
    }

    /// The register behind the handle.
    pub fn register(self) -> Register {
        self.register
    }

    /// The handle as an instruction's operand.
    pub fn operand(self) -> Operand {
        Operand::Register(self.register)
    }
}
