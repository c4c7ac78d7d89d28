//! `as`.

use crate::element::Element;
use crate::value::Reg;

/// A value that is cast.
pub struct Cast<V>(pub V);

/// A device value that `as` converts to `U`, as Rust's `as` does.
#[diagnostic::on_unimplemented(
    message = "a device value cannot be cast to `{U}`: it is a `{Self}`",
    label = "`as` converts device values to the types of device values",
    note = "a device value has no build-time value: indices and sizes that Rust code needs must be known \
     at build time"
)]
pub trait DeviceCast<U> {
    /// The converted value.
    type Output;
    /// Converts it.
    fn device_cast(self) -> Self::Output;
}

impl<T: Element> Cast<Reg<T>> {
    /// Records `self as U`.
    #[track_caller]
    pub fn to<U>(self) -> <Reg<T> as DeviceCast<U>>::Output
    where
        Reg<T>: DeviceCast<U>,
    {
        self.0.device_cast()
    }
}

/// A build-time value that is cast.
pub trait BuildTimeCast {
    /// The value's type.
    type Value;
    /// Does `self as U`.
    fn to<U>(self) -> U
    where
        Self::Value: BuildTimeNumber<U>;
}

impl<V> BuildTimeCast for Cast<V> {
    type Value = V;
    fn to<U>(self) -> U
    where
        V: BuildTimeNumber<U>,
    {
        self.0.cast()
    }
}

/// A type that Rust's `as` converts to `U`.
#[diagnostic::on_unimplemented(
    message = "cannot cast `{Self}` to `{U}`",
    label = "in kernels, `as` converts between numbers",
    note = "use `From`, or a method, for other conversions",
    note = "in generic code, bound the type of a device value by `DeviceNumber`"
)]
pub trait BuildTimeNumber<U> {
    /// Does `self as U`.
    fn cast(self) -> U;
}

macro_rules! numbers {
    ($($from:ty)*) => { $(casts! { $from => u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 })* };
}

macro_rules! casts {
    ($from:ty => $($to:ty)*) => {
        $(impl BuildTimeNumber<$to> for $from {
            fn cast(self) -> $to {
                self as $to
            }
        })*
    };
}

numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }
casts! { bool => bool u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }
casts! { char => char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }
casts! { u8 => char }
