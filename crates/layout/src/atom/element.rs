//! The element types of tensor-core instructions.

use std::fmt;

/// An element type, named as PTX names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// TensorFloat-32, held in 32 bits.
    Tf32,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    E4m3,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    E5m2,
    /// Signed byte.
    S8,
    /// Unsigned byte.
    U8,
    /// Signed 4-bit integer.
    S4,
    /// Unsigned 4-bit integer.
    U4,
    /// One bit.
    B1,
    /// Signed 32-bit integer.
    S32,
}

impl Element {
    /// All element types.
    pub const ALL: [Element; 13] = {
        use Element::*;
        [F16, Bf16, Tf32, F32, F64, E4m3, E5m2, S8, U8, S4, U4, B1, S32]
    };

    /// The width in bits.
    pub fn bits(self) -> i64 {
        use Element::*;
        match self {
            F64 => 64,
            Tf32 | F32 | S32 => 32,
            F16 | Bf16 => 16,
            E4m3 | E5m2 | S8 | U8 => 8,
            S4 | U4 => 4,
            B1 => 1,
        }
    }

    /// PTX's name: `f16`, `e4m3`, `b1`.
    pub fn ptx(self) -> &'static str {
        use Element::*;
        match self {
            F16 => "f16",
            Bf16 => "bf16",
            Tf32 => "tf32",
            F32 => "f32",
            F64 => "f64",
            E4m3 => "e4m3",
            E5m2 => "e5m2",
            S8 => "s8",
            U8 => "u8",
            S4 => "s4",
            U4 => "u4",
            B1 => "b1",
            S32 => "s32",
        }
    }

    /// CuTe's name within an atom's: PTX's in capitals, but `U1` for one bit.
    pub fn cute(self) -> String {
        if self == Element::B1 { "U1".into() } else { self.ptx().to_uppercase() }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ptx())
    }
}
