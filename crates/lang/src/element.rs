//! The types a device value can have.

pub use half::{bf16, f16};
use warpwright_ir::{Operand, RegisterClass};

use crate::parameter::KernelParameter;
use crate::reg::Reg;

/// How instructions interpret a type's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A predicate.
    Boolean,
    /// An unsigned integer.
    Unsigned,
    /// A signed integer.
    Signed,
    /// A floating-point number.
    Float,
    /// Two or more narrow numbers in one register.
    Packed,
}

/// A Rust type that a register, or an element of device memory, can hold.
#[diagnostic::on_unimplemented(
    message = "the device has no values of type `{Self}`",
    label = "not a type of device values",
    note = "the types of device values are `bool`, `u8` to `u64`, `i8` to `i64`, `f16`, `bf16`, `f32`, `f64`, `tf32`, `e4m3`, `e5m2`, \
            and their packed forms such as `f16x2`; sizes and indices are `u32` or `u64`"
)]
pub trait Element: Copy + 'static + KernelParameter<Host = Self, Value = Reg<Self>> {
    /// The name messages use: `bf16`.
    const NAME: &'static str;
    /// The PTX type word: `bf16`; for types without arithmetic of their own, the untyped word of
    /// their width.
    const PTX: &'static str;
    /// Bytes in memory; a predicate takes one.
    const BYTES: u32;
    /// The class of register it lives in.
    const CLASS: RegisterClass;
    /// How instructions read it.
    const KIND: Kind;
    /// The bits of a value, zero-extended.
    fn bits(self) -> u64;
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

/// A number that device arithmetic adds, subtracts and multiplies: integers, floats, and packed
/// pairs of floats.
pub trait Number: Element {}

/// A type with `&`, `|`, `^` and `!`: integers and predicates.
pub trait Bits: Element {}

/// A number with `%`: integers, and floats but for packed pairs.
pub trait Remainder: Number {
    /// What a division leaves, with the sign of `dividend`. Of floats it is exact; NaN if `divisor`
    /// is zero or `dividend` infinite.
    #[doc(hidden)]
    fn remainder(dividend: Reg<Self>, divisor: impl Value<Self>) -> Reg<Self>;
}

/// A type of device values with conversions: numbers, predicates, tf32 and 8-bit floats.
#[diagnostic::on_unimplemented(
    message = "device values do not convert to and from `{Self}`",
    label = "not a type of device values",
    note = "memory is indexed by device values of type `u32`, `i32`, `u64` or `i64` as they are",
    note = "an array or `Vec` of registers is indexed by a number that is known when the kernel is built: loop over build-time numbers, or \
            keep the elements in a `local_array`"
)]
pub trait Convertible: Element {}

/// An integer of 8 to 64 bits.
pub trait Integer: Number + Ordered + Bits + Convertible + Remainder {
    /// The unsigned integer of the same width.
    type Unsigned: Integer;
}

/// An integer of 32 or 64 bits, which bit instructions work on.
pub trait WideInteger: Integer {}

/// A floating-point number, or a pair of them, that device arithmetic computes with.
pub trait Float: Number + SignedNumber {}

/// A number, without the packed pairs: all that generic code needs of it. Device values of the type
/// have arithmetic, comparisons, minima and maxima, and conversions by `as`.
///
/// ```
/// use warpwright_lang::element::DeviceNumber;
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::value::constant;
/// use warpwright_lang::{Reg, device};
///
/// #[device]
/// fn sum_of_positive<T: DeviceNumber>(x: &Global<T>, length: Reg<u32>) -> Reg<T> {
///     let mut sum = constant(T::ZERO);
///     for i in 0..length {
///         if x[i] > constant(T::ZERO) {
///             sum += x[i];
///         }
///     }
///     sum
/// }
/// ```
pub trait DeviceNumber: Number + Ordered + Convertible + Remainder {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// The number that `value as Self` is: rounded to nearest even by floats, truncated and clamped
    /// by integers.
    fn from_f64(value: f64) -> Self;
}

/// A floating-point number, without the packed pairs: all that generic code needs of it.
pub trait DeviceFloat: DeviceNumber + Float {}

/// An integer: all that generic code needs of it.
pub trait DeviceInteger: DeviceNumber + Integer {
    /// The smallest value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;
}

/// A number that can be negative.
pub trait SignedNumber: Number {}

/// A type whose values have an order: integers and floats.
pub trait Ordered: Element {}

/// A float operand of matrix instructions: the bits of an `f32`, of which the hardware reads the
/// sign, the exponent and 10 bits of the fraction.
///
/// PTX ISA, "Alternate Floating-Point Data Formats".
#[allow(non_camel_case_types, reason = "the field writes it so, as Rust writes f32")]
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct tf32(pub f32);

/// 8-bit float with 4 bits of exponent and 3 of fraction; no infinities.
#[allow(non_camel_case_types, reason = "the field writes it so, as Rust writes f32")]
pub type e4m3 = float8::F8E4M3;

/// 8-bit float with 5 bits of exponent and 2 of fraction.
#[allow(non_camel_case_types, reason = "the field writes it so, as Rust writes f32")]
pub type e5m2 = float8::F8E5M2;

macro_rules! elements {
    ($($ty:ty, $name:literal, $ptx:literal, $bytes:literal, $class:ident, $kind:ident, |$v:ident| $bits:expr;)*) => {
        $(impl Element for $ty {
            const NAME: &'static str = $name;
            const PTX: &'static str = $ptx;
            const BYTES: u32 = $bytes;
            const CLASS: RegisterClass = RegisterClass::$class;
            const KIND: Kind = Kind::$kind;
            fn bits(self) -> u64 {
                let $v = self;
                $bits
            }
        })*
    };
}

elements! {
    bool, "bool", "pred", 1, Predicate, Boolean, |v| u64::from(v);
    u8, "u8", "u8", 1, B16, Unsigned, |v| u64::from(v);
    u16, "u16", "u16", 2, B16, Unsigned, |v| u64::from(v);
    u32, "u32", "u32", 4, B32, Unsigned, |v| u64::from(v);
    u64, "u64", "u64", 8, B64, Unsigned, |v| v;
    i8, "i8", "s8", 1, B16, Signed, |v| u64::from(v as u8);
    i16, "i16", "s16", 2, B16, Signed, |v| u64::from(v as u16);
    i32, "i32", "s32", 4, B32, Signed, |v| u64::from(v as u32);
    i64, "i64", "s64", 8, B64, Signed, |v| v as u64;
    f16, "f16", "f16", 2, B16, Float, |v| u64::from(v.to_bits());
    bf16, "bf16", "bf16", 2, B16, Float, |v| u64::from(v.to_bits());
    f32, "f32", "f32", 4, B32, Float, |v| u64::from(v.to_bits());
    f64, "f64", "f64", 8, B64, Float, |v| v.to_bits();
    tf32, "tf32", "tf32", 4, B32, Float, |v| u64::from(v.0.to_bits());
    e4m3, "e4m3", "b8", 1, B16, Float, |v| u64::from(v.to_bits());
    e5m2, "e5m2", "b8", 1, B16, Float, |v| u64::from(v.to_bits());
}

/// Several narrow numbers in one register, lane 0 in the lowest bits.
pub trait Packed: Element {
    /// The type of one lane.
    type Lane: Element;
    /// How many lanes.
    const LANES: u32;
}

macro_rules! packed {
    ($($(#[$doc:meta])* $ty:ident, $storage:ty, $ptx:literal, $class:ident, $lane:ty, $lanes:literal;)*) => {
        $(
            $(#[$doc])*
            #[allow(non_camel_case_types, reason = "PTX writes it so, and Rust writes its numbers so")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
            #[repr(transparent)]
            pub struct $ty(pub $storage);

            impl Element for $ty {
                const NAME: &'static str = stringify!($ty);
                const PTX: &'static str = $ptx;
                const BYTES: u32 = size_of::<$storage>() as u32;
                const CLASS: RegisterClass = RegisterClass::$class;
                const KIND: Kind = Kind::Packed;
                fn bits(self) -> u64 {
                    u64::from(self.0)
                }
            }

            impl Packed for $ty {
                type Lane = $lane;
                const LANES: u32 = $lanes;
            }
        )*
    };
}

packed! {
    /// Two `f16`, as bits.
    f16x2, u32, "f16x2", B32, f16, 2;
    /// Two `bf16`, as bits.
    bf16x2, u32, "bf16x2", B32, bf16, 2;
    /// Two [`e4m3`], as bits.
    e4m3x2, u16, "b16", B16, e4m3, 2;
    /// Two [`e5m2`], as bits.
    e5m2x2, u16, "b16", B16, e5m2, 2;
    /// Four [`e4m3`], as bits.
    e4m3x4, u32, "b32", B32, e4m3, 4;
    /// Four [`e5m2`], as bits.
    e5m2x4, u32, "b32", B32, e5m2, 4;
    /// Four `u8`, as bits.
    u8x4, u32, "b32", B32, u8, 4;
    /// Four `i8`, as bits.
    s8x4, u32, "b32", B32, i8, 4;
    /// Two `u16`, as bits.
    u16x2, u32, "u16x2", B32, u16, 2;
    /// Two `i16`, as bits.
    s16x2, u32, "s16x2", B32, i16, 2;
}

/// Numbers narrower than a byte, eight or thirty-two per register: only operands of matrix
/// instructions.
macro_rules! sub_byte {
    ($($(#[$doc:meta])* $ty:ident;)*) => {
        $(
            $(#[$doc])*
            #[allow(non_camel_case_types, reason = "PTX writes it so, and Rust writes its numbers so")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
            #[repr(transparent)]
            pub struct $ty(pub u32);

            impl Element for $ty {
                const NAME: &'static str = stringify!($ty);
                const PTX: &'static str = "b32";
                const BYTES: u32 = 4;
                const CLASS: RegisterClass = RegisterClass::B32;
                const KIND: Kind = Kind::Packed;
                fn bits(self) -> u64 {
                    u64::from(self.0)
                }
            }
        )*
    };
}

sub_byte! {
    /// Eight unsigned 4-bit integers, as bits.
    u4x8;
    /// Eight signed 4-bit integers, as bits.
    s4x8;
    /// Thirty-two bits.
    b1x32;
}

macro_rules! are {
    ($trait:ident: $($ty:ty),*) => { $(impl $trait for $ty {})* };
}

are!(Bits: bool, u8, u16, u32, u64, i8, i16, i32, i64);
are!(Convertible: bool, u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64, tf32, e4m3, e5m2);
are!(Number: u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64, f16x2, bf16x2);
are!(Float: f16, bf16, f32, f64, f16x2, bf16x2);
are!(SignedNumber: i8, i16, i32, i64, f16, bf16, f32, f64, f16x2, bf16x2);
are!(Ordered: u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64);
are!(WideInteger: u32, u64, i32, i64);

macro_rules! device_numbers {
    ($kind:ident $limits:tt: $($ty:ty, $zero:expr, $one:expr, |$value:ident| $from:expr;)*) => {
        $(
            impl DeviceNumber for $ty {
                const ZERO: Self = $zero;
                const ONE: Self = $one;

                fn from_f64($value: f64) -> Self {
                    $from
                }
            }

            impl $kind for $ty $limits
        )*
    };
}

device_numbers! { DeviceFloat {}:
    f16, f16::ZERO, f16::ONE, |value| f16::from_f64(value);
    bf16, bf16::ZERO, bf16::ONE, |value| bf16::from_f64(value);
    f32, 0.0, 1.0, |value| value as f32;
    f64, 0.0, 1.0, |value| value;
}

device_numbers! { DeviceInteger { const MIN: Self = Self::MIN; const MAX: Self = Self::MAX; }:
    u8, 0, 1, |value| value as u8;
    u16, 0, 1, |value| value as u16;
    u32, 0, 1, |value| value as u32;
    u64, 0, 1, |value| value as u64;
    i8, 0, 1, |value| value as i8;
    i16, 0, 1, |value| value as i16;
    i32, 0, 1, |value| value as i32;
    i64, 0, 1, |value| value as i64;
}

macro_rules! integers {
    ($($ty:ty => $unsigned:ty),*) => { $(impl Integer for $ty { type Unsigned = $unsigned; })* };
}

integers!(u8 => u8, u16 => u16, u32 => u32, u64 => u64, i8 => u8, i16 => u16, i32 => u32, i64 => u64);

/// The element types by their names, for macros that are given one.
pub mod types {
    pub use core::primitive::{f32, f64, i8, i16, i32, i64, u8, u16, u32, u64};

    pub use super::{bf16, e4m3, e5m2, f16, tf32};
}
