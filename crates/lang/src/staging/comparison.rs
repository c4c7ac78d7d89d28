//! `==`, `!=`, `<`, `<=`, `>`, `>=`.

use warpwright_ir::{Operand, RegisterClass};

use super::author;
use crate::element::{Element, Kind};
use crate::recorder;
use crate::value::Reg;

/// `==` and `!=`: of `Self` with `R`.
#[diagnostic::on_unimplemented(
    message = "cannot compare `{Self}` with `{R}`",
    label = "these have no `==` between them",
    note = "a device value compares with a device value or a build-time value of its own type"
)]
pub trait Equality<R: ?Sized> {
    /// `bool` at build time, `Reg<bool>` on the device.
    type Output;
    /// `self == other`
    fn equal(&self, other: &R) -> Self::Output;
    /// `self != other`
    fn differ(&self, other: &R) -> Self::Output;
}

/// `<`, `<=`, `>` and `>=`: of `Self` with `R`.
#[diagnostic::on_unimplemented(
    message = "cannot compare `{Self}` with `{R}`",
    label = "these have no order between them",
    note = "a device value compares with a device value or a build-time value of its own type"
)]
pub trait Order<R: ?Sized> {
    /// `bool` at build time, `Reg<bool>` on the device.
    type Output;
    /// `self < other`
    fn less(&self, other: &R) -> Self::Output;
    /// `self <= other`
    fn at_most(&self, other: &R) -> Self::Output;
    /// `self > other`
    fn greater(&self, other: &R) -> Self::Output;
    /// `self >= other`
    fn at_least(&self, other: &R) -> Self::Output;
}

impl<L: PartialEq<R> + ?Sized, R: ?Sized> Equality<R> for L {
    type Output = bool;

    fn equal(&self, other: &R) -> bool {
        self == other
    }

    fn differ(&self, other: &R) -> bool {
        self != other
    }
}

impl<L: PartialOrd<R> + ?Sized, R: ?Sized> Order<R> for L {
    type Output = bool;

    fn less(&self, other: &R) -> bool {
        self < other
    }

    fn at_most(&self, other: &R) -> bool {
        self <= other
    }

    fn greater(&self, other: &R) -> bool {
        self > other
    }

    fn at_least(&self, other: &R) -> bool {
        self >= other
    }
}

macro_rules! device_comparisons {
    ($([$($parameters:tt)*] $element:ty: $left:ty, $right:ty, |$a:ident, $b:ident| $operands:expr;)*) => {
        $(
            impl<$($parameters)*> Equality<$right> for $left {
                type Output = Reg<bool>;

                #[track_caller]
                fn equal(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    compare::<$element>("eq", $operands)
                }

                #[track_caller]
                fn differ(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    compare::<$element>("ne", $operands)
                }
            }

            impl<$($parameters)*> Order<$right> for $left {
                type Output = Reg<bool>;

                #[track_caller]
                fn less(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    compare::<$element>("lt", $operands)
                }

                #[track_caller]
                fn at_most(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    compare::<$element>("le", $operands)
                }

                #[track_caller]
                fn greater(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    compare::<$element>("gt", $operands)
                }

                #[track_caller]
                fn at_least(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    compare::<$element>("ge", $operands)
                }
            }
        )*
    };
}

device_comparisons! {
    [T: Element] T: Reg<T>, Reg<T>, |a, b| [a.operand(), b.operand()];
}

macro_rules! with_build_time_values {
    ($($ty:ty)*) => {
        $(device_comparisons! {
            [] $ty: Reg<$ty>, $ty, |a, b| [a.operand(), literal(b)];
            [] $ty: $ty, Reg<$ty>, |a, b| [literal(a), b.operand()];
        })*
    };
}

with_build_time_values! { bool u8 u16 u32 u64 i8 i16 i32 i64 half::f16 half::bf16 f32 f64 }

fn literal<T: Element>(value: T) -> Operand {
    let bits = value.bits();
    match (T::KIND, T::CLASS) {
        (Kind::Float, RegisterClass::B32) => Operand::F32(bits as u32),
        (Kind::Float, RegisterClass::B64) => Operand::F64(bits),
        (Kind::Signed, _) => {
            let unused = 64 - 8 * T::BYTES;
            Operand::Integer(i128::from((bits << unused) as i64 >> unused))
        }
        _ => Operand::Integer(i128::from(bits)),
    }
}

#[track_caller]
fn compare<T: Element>(relation: &'static str, operands: [Operand; 2]) -> Reg<bool> {
    let location = author();
    recorder::with(|recorder| {
        let destination = recorder.fresh(RegisterClass::Predicate);
        // An unordered pair (NaN) differs, as in Rust.
        let relation = if T::KIND == Kind::Float && relation == "ne" { "neu" } else { relation };
        let word = match (T::BYTES, T::KIND) {
            (1, Kind::Signed) => "s16",
            (1, _) => "u16",
            _ => T::PTX,
        };
        let [left, right] = operands;
        let operands = vec![Operand::Register(destination), left, right];
        recorder.emit(format!("setp.{relation}.{word}"), 1, operands, location);
        Reg::from_register(destination)
    })
}
