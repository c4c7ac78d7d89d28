//! The types a device value can have.

use warpwright_ir::RegisterClass;

/// How a type's bits are read by instructions.
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
pub trait Element: Copy + 'static {
    /// The name messages use: `bf16`.
    const NAME: &'static str;
    /// The PTX type word: `bf16`; for types without arithmetic of their own, the untyped word of their width.
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
    half::f16, "f16", "f16", 2, B16, Float, |v| u64::from(v.to_bits());
    half::bf16, "bf16", "bf16", 2, B16, Float, |v| u64::from(v.to_bits());
    f32, "f32", "f32", 4, B32, Float, |v| u64::from(v.to_bits());
    f64, "f64", "f64", 8, B64, Float, |v| v.to_bits();
}
