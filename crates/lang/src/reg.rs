//! The handle of a device value.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::marker::PhantomData;

use rustc_hash::FxHashMap;
use warpwright_ir::{Operand, Register};

/// A value of type `T` on the device: a handle to a virtual register of the kernel being staged.
///
/// Every operation on device values yields a handle to a fresh register. A register is written
/// again only through a variable that the author declared with `let mut` (or a field or element
/// assigned to) in a `#[kernel]` or `#[device]` body; reading such a variable takes its value at
/// that moment, as in Rust.
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

impl<T> Reg<T> {
    /// A handle to `register`, which must be of `T`'s class.
    pub fn from_register(register: Register) -> Self {
        Self { register, element: PhantomData }
    }

    /// The register behind the handle.
    pub fn register(self) -> Register {
        self.register
    }

    /// The handle behind a reference that lasts, as `a[i]` must yield one: the same reference for
    /// the same handle, so that no more are kept than the largest kernel has registers.
    pub fn interned(self) -> &'static Self
    where
        T: 'static,
    {
        thread_local! {
            static HANDLES: RefCell<FxHashMap<(TypeId, Register), &'static dyn Any>> = RefCell::default();
        }
        HANDLES.with_borrow_mut(|handles| {
            let handle = handles
                .entry((TypeId::of::<T>(), self.register))
                .or_insert_with(|| Box::leak(Box::new(self)));
            handle.downcast_ref().expect("the key holds the type")
        })
    }

    /// The handle as an instruction's operand.
    pub fn operand(self) -> Operand {
        Operand::Register(self.register)
    }
}
