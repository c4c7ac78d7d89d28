//! Device values.

use warpwright_ir::{Operand, RegisterClass};

pub use crate::element::Value;
use crate::element::{Element, Kind};
use crate::operation;
pub use crate::reg::Reg;

impl<T: Element> Value<T> for Reg<T> {
    fn operand(self) -> Operand {
        Operand::Register(self.register())
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
