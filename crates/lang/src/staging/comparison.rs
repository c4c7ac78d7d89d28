//! `==`, `!=`, `<`, `<=`, `>`, `>=`.

use crate::comparison::Equatable;
use crate::element::{DeviceFloat, Ordered};
use crate::value::Reg;

/// `==` and `!=`: of `Self` with `R`.
#[diagnostic::on_unimplemented(
    message = "cannot compare `{Self}` with `{R}`",
    label = "no `==` compares these two types",
    note = "a device value compares with a device value or a build-time value of its own type; sizes and indices are `u32`, not `usize`",
    note = "in generic code, bound the type by `DeviceFloat` to compare with `0.0`, and by `DeviceNumber` to compare with `constant(T::ZERO)`"
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
    label = "these two types have no order",
    note = "a device value compares with a device value or a build-time value of its own type; sizes and indices are `u32`, not `usize`",
    note = "in generic code, bound the type by `DeviceFloat` to compare with `0.0`, and by `DeviceNumber` to compare with `constant(T::ZERO)`"
)]
pub trait Inequality<R: ?Sized> {
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

/// `==`, `!=`, `<`, `<=`, `>` and `>=`: of `Self` with a floating-point literal, which takes the type
/// of `Self` and is a `V` itself.
#[diagnostic::on_unimplemented(
    message = "cannot compare `{Self}` with a floating-point number",
    label = "not a floating-point value",
    note = "in generic code, bound the type by `DeviceFloat`"
)]
pub trait BesideFloat<V> {
    /// `bool` at build time, `Reg<bool>` on the device.
    type Output;
    /// `self == literal`
    fn equal(&self, literal: V) -> Self::Output;
    /// `self != literal`
    fn differ(&self, literal: V) -> Self::Output;
    /// `self < literal`
    fn less(&self, literal: V) -> Self::Output;
    /// `self <= literal`
    fn at_most(&self, literal: V) -> Self::Output;
    /// `self > literal`
    fn greater(&self, literal: V) -> Self::Output;
    /// `self >= literal`
    fn at_least(&self, literal: V) -> Self::Output;
}

#[diagnostic::do_not_recommend]
impl<L: PartialEq<R> + ?Sized, R: ?Sized> Equality<R> for L {
    type Output = bool;

    fn equal(&self, other: &R) -> bool {
        self == other
    }

    fn differ(&self, other: &R) -> bool {
        self != other
    }
}

#[diagnostic::do_not_recommend]
impl<L: PartialOrd<R> + ?Sized, R: ?Sized> Inequality<R> for L {
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

macro_rules! comparisons_with_floats {
    ($($method:ident $operator:tt $device:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<L: PartialOrd<V>, V> BesideFloat<V> for L {
            type Output = bool;
            $(fn $method(&self, literal: V) -> bool {
                *self $operator literal
            })*
        }

        impl<T: DeviceFloat> BesideFloat<f64> for Reg<T> {
            type Output = Reg<bool>;
            $(#[track_caller]
            fn $method(&self, literal: f64) -> Reg<bool> {
                Reg::$device(self, T::from_f64(literal))
            })*
        }
    };
}

comparisons_with_floats! { equal == eq  differ != ne  less < lt  at_most <= le  greater > gt  at_least >= ge }

/// Comparisons of two kinds of operands; of `$first` with `$second`, each relation by the method
/// named for it.
macro_rules! device_comparisons {
    ($([$($parameters:tt)*] $left:ty, $right:ty: |$a:ident, $b:ident| $first:expr, $second:expr;
        $equal:ident $differ:ident $([$($ordered:tt)*] $less:ident $at_most:ident $greater:ident $at_least:ident)?;)*) => {
        $(
            impl<$($parameters)*> Equality<$right> for $left {
                type Output = Reg<bool>;

                #[track_caller]
                fn equal(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    $first.$equal($second)
                }

                #[track_caller]
                fn differ(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    $first.$differ($second)
                }
            }

            $(impl<$($ordered)*> Inequality<$right> for $left {
                type Output = Reg<bool>;

                #[track_caller]
                fn less(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    $first.$less($second)
                }

                #[track_caller]
                fn at_most(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    $first.$at_most($second)
                }

                #[track_caller]
                fn greater(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    $first.$greater($second)
                }

                #[track_caller]
                fn at_least(&self, other: &$right) -> Reg<bool> {
                    let ($a, $b) = (*self, *other);
                    $first.$at_least($second)
                }
            })?
        )*
    };
}

device_comparisons! {
    [T: Equatable] Reg<T>, Reg<T>: |a, b| a, b; eq ne [T: Ordered] lt le gt ge;
    [] Reg<bool>, bool: |a, b| a, b; eq ne;
    [] bool, Reg<bool>: |a, b| b, a; eq ne;
}

// One element type at a time: for all together, the compiler would need to know that no crate gives
// one of its own types an order with `Reg`.
macro_rules! with_build_time_values {
    ($($ty:ty)*) => {
        $(device_comparisons! {
            [] Reg<$ty>, $ty: |a, b| a, b; eq ne [] lt le gt ge;
            [] $ty, Reg<$ty>: |a, b| b, a; eq ne [] gt ge lt le;
        })*
    };
}

with_build_time_values! { u8 u16 u32 u64 i8 i16 i32 i64 half::f16 half::bf16 f32 f64 }
