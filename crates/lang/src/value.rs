//! Device values.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::marker::PhantomData;

use rustc_hash::FxHashMap;
use warpwright_ir::{Operand, Register, RegisterClass};

use crate::element::{Element, Kind};
use crate::operation;

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

impl<T: Element> Reg<T> {
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
    pub fn interned(self) -> &'static Self {
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

/// A value of type `T`, on the device or known at build time: what operations take as arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of type `{T}`",
    label = "expected a device value `Reg<{T}>` or a build-time `{T}`",
    note = "device arithmetic does not convert by itself: use `.convert::<{T}>()` on a device value; a number of the program is converted by \
            `as`, and to `f16` or `bf16` by `f16::from_f32(2.0)`",
    note = "a field, parameter or variable that is used with device values has their type: sizes and indices are `u32`, not `usize`",
    note = "in generic code a number is `T::ONE` or `T::from_f64(2.0)` of `DeviceNumber`"
)]
pub trait Value<T: Element>: Copy {
    /// The value as an instruction's operand: an immediate where PTX has one.
    #[track_caller]
    fn operand(self) -> Operand;

    /// The value in a register.
    #[track_caller]
    fn reg(self) -> Reg<T>;
}

impl<T: Element> Value<T> for Reg<T> {
    fn operand(self) -> Operand {
        Operand::Register(self.register)
    }

    fn reg(self) -> Reg<T> {
        self
    }
}

impl<T: Element> Value<T> for T {
    #[track_caller]
    fn operand(self) -> Operand {
        match immediate(self) {
            Some(literal) => literal,
            None => Value::<T>::reg(self).operand(),
        }
    }

    #[track_caller]
    fn reg(self) -> Reg<T> {
        let source = immediate(self).unwrap_or_else(|| untyped_immediate(self));
        operation::compute(format!("mov.{}", move_word::<T>()), [source])
    }
}

/// The type word that `mov` uses for `T`'s registers.
pub(crate) fn move_word<T: Element>() -> &'static str {
    match (T::CLASS, T::PTX) {
        (_, "f32" | "f64" | "u32" | "s32" | "u64" | "s64" | "u16" | "s16") => T::PTX,
        (class, _) => bits_word(class),
    }
}

/// The untyped word of a register class: `b32`.
pub(crate) fn bits_word(class: RegisterClass) -> &'static str {
    match class {
        RegisterClass::Predicate => "pred",
        RegisterClass::B16 => "b16",
        RegisterClass::B32 => "b32",
        RegisterClass::B64 => "b64",
        RegisterClass::B128 => "b128",
    }
}

/// The value as a literal of its own type; PTX has none for 16-bit floats, packed numbers and
/// predicates.
fn immediate<T: Element>(value: T) -> Option<Operand> {
    let bits = value.bits();
    match (T::KIND, T::CLASS) {
        (Kind::Unsigned, _) => Some(Operand::Integer(i128::from(bits))),
        (Kind::Signed, _) => {
            let unused = 64 - 8 * T::BYTES;
            Some(Operand::Integer(i128::from((bits << unused) as i64 >> unused)))
        }
        (Kind::Float, RegisterClass::B32) => Some(Operand::F32(bits as u32)),
        (Kind::Float, RegisterClass::B64) => Some(Operand::F64(bits)),
        _ => None,
    }
}

/// The value as the integer with its bits, for `mov`.
fn untyped_immediate<T: Element>(value: T) -> Operand {
    match (T::KIND, value.bits()) {
        // PTX: a true predicate is any non-zero literal; compilers write -1.
        (Kind::Boolean, 1) => Operand::Integer(-1),
        (_, bits) => Operand::Integer(i128::from(bits)),
    }
}

/// A device value with the build-time value `value`, in a register of its own.
#[track_caller]
pub fn constant<T: Element>(value: T) -> Reg<T> {
    Value::<T>::reg(value)
}
