//! The data types of matrix elements and scalars.

use std::fmt;

/// A data type, named as PTX names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// One bit.
    B1,
    /// Unsigned 4-bit integer.
    U4,
    /// Signed 4-bit integer.
    S4,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    S8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    S16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    S32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    S64,
    /// 4-bit float: 2 exponent bits, 1 fraction bit.
    E2m1,
    /// 6-bit float: 2 exponent bits, 3 fraction bits.
    E2m3,
    /// 6-bit float: 3 exponent bits, 2 fraction bits.
    E3m2,
    /// 8-bit float: 4 exponent bits, 3 fraction bits, no infinities.
    E4m3,
    /// 8-bit float: 5 exponent bits, 2 fraction bits.
    E5m2,
    /// 8-bit scale: 8 exponent bits, no sign and no fraction.
    Ue8m0,
    /// IEEE binary16.
    F16,
    /// bfloat16: 8 exponent bits, 7 fraction bits.
    Bf16,
    /// TensorFloat-32: 8 exponent bits, 10 fraction bits, stored in 32 bits.
    Tf32,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

use DataType::*;

/// Each type with its PTX name and its width in bits, in the order of the variants.
const TABLE: [(DataType, &str, u32); 22] = [
    (B1, "b1", 1),
    (U4, "u4", 4),
    (S4, "s4", 4),
    (U8, "u8", 8),
    (S8, "s8", 8),
    (U16, "u16", 16),
    (S16, "s16", 16),
    (U32, "u32", 32),
    (S32, "s32", 32),
    (U64, "u64", 64),
    (S64, "s64", 64),
    (E2m1, "e2m1", 4),
    (E2m3, "e2m3", 6),
    (E3m2, "e3m2", 6),
    (E4m3, "e4m3", 8),
    (E5m2, "e5m2", 8),
    (Ue8m0, "ue8m0", 8),
    (F16, "f16", 16),
    (Bf16, "bf16", 16),
    (Tf32, "tf32", 32),
    (F32, "f32", 32),
    (F64, "f64", 64),
];

impl DataType {
    /// All data types, the integers first.
    pub fn all() -> impl Iterator<Item = DataType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The width in bits, as stored in registers and in byte-addressed memory: 32 for `tf32`.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        TABLE[self as usize].2
    }

    /// The PTX name, without its dot: `bf16`.
    pub const fn ptx(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The type with that PTX name, given without its dot.
    pub fn from_ptx(name: &str) -> Option<DataType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        self as usize >= E2m1 as usize
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ptx())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_follows_the_order_of_the_variants() {
        for (index, (data_type, name, _)) in TABLE.into_iter().enumerate() {
            assert_eq!(data_type as usize, index);
            assert_eq!(DataType::from_ptx(name), Some(data_type));
            assert_eq!(
                data_type.is_float(),
                name.starts_with(['f', 'e', 't']) || matches!(name, "bf16" | "ue8m0")
            );
        }
    }
}
