//! Sort keys as unsigned numbers in the same order.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::lang::element::Kind;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

/// The order of a sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Direction {
    /// The smallest key first.
    #[default]
    Ascending,
    /// The largest key first.
    Descending,
}

/// Values of a digit, which is a byte.
pub(crate) const BINS: u32 = 256;

/// The number of an ordered key in the order of a sort.
pub fn in_direction<K: SortKey>(ordered: Reg<K::Bits>, direction: Direction) -> Reg<K::Bits> {
    match direction {
        Direction::Ascending => ordered,
        Direction::Descending => K::reversed(ordered),
    }
}

/// A key: a number of 8 to 64 bits.
///
/// Floats are in IEEE 754's total order (Rust's `total_cmp`): -NaN, -infinity, the negative
/// numbers, -0, +0, the positive ones, infinity, NaN.
pub trait SortKey: Storable {
    /// The unsigned number that a key is sorted as: `u32`, or `u64` for keys of 64 bits.
    type Bits: Storable;
    /// The largest such number.
    const MOST: Self::Bits;

    /// The key as an unsigned number: `a` comes before `b` where the number of `a` is below that of
    /// `b`.
    fn ordered(key: Reg<Self>) -> Reg<Self::Bits>;

    /// The key of such a number; higher bits are ignored.
    fn restored(ordered: Reg<Self::Bits>) -> Reg<Self>;

    /// The number of the key in the opposite order.
    fn reversed(ordered: Reg<Self::Bits>) -> Reg<Self::Bits>;

    /// The eight bits from bit `shift` on.
    fn digit(ordered: Reg<Self::Bits>, shift: Reg<u32>) -> Reg<u32>;

    /// Whether one number is below another.
    fn is_below(one: Reg<Self::Bits>, other: Reg<Self::Bits>) -> Reg<bool>;

    /// [`ordered`](Self::ordered) of the bits of a key, on the host.
    fn ordered_on_host(bits: u64) -> u64;
}

/// Keys with their unsigned type of the same width, and the type they are sorted as.
macro_rules! keys {
    ($($key:ty, $word:ty, $bits:ty;)*) => { $(
        impl SortKey for $key {
            type Bits = $bits;
            const MOST: $bits = <$bits>::MAX;

            fn ordered(key: Reg<Self>) -> Reg<$bits> {
                const ALL: $bits = <$word>::MAX as $bits;
                const SIGN: $bits = ALL ^ (ALL >> 1);
                let word = key.bit_cast::<$word>().convert::<$bits>();
                match Self::KIND {
                    Kind::Signed => word ^ SIGN,
                    Kind::Float => word ^ (word & SIGN).ne(0).select(ALL, SIGN),
                    _ => word,
                }
            }

            fn restored(ordered: Reg<$bits>) -> Reg<Self> {
                const ALL: $bits = <$word>::MAX as $bits;
                const SIGN: $bits = ALL ^ (ALL >> 1);
                let word = match Self::KIND {
                    Kind::Signed => ordered ^ SIGN,
                    Kind::Float => ordered ^ (ordered & SIGN).ne(0).select(SIGN, ALL),
                    _ => ordered,
                };
                word.convert::<$word>().bit_cast()
            }

            fn reversed(ordered: Reg<$bits>) -> Reg<$bits> {
                ordered ^ (<$word>::MAX as $bits)
            }

            fn digit(ordered: Reg<$bits>, shift: Reg<u32>) -> Reg<u32> {
                (ordered >> shift).convert::<u32>() & 0xff
            }

            fn is_below(one: Reg<$bits>, other: Reg<$bits>) -> Reg<bool> {
                one.lt(other)
            }

            fn ordered_on_host(bits: u64) -> u64 {
                let sign = 1 << (8 * Self::BYTES - 1);
                match Self::KIND {
                    Kind::Signed => bits ^ sign,
                    Kind::Float if bits & sign != 0 => bits ^ (2 * (sign - 1) + 1),
                    Kind::Float => bits ^ sign,
                    _ => bits,
                }
            }
        }
    )* };
}

keys! {
    u8, u8, u32;
    i8, u8, u32;
    u16, u16, u32;
    i16, u16, u32;
    f16, u16, u32;
    bf16, u16, u32;
    u32, u32, u32;
    i32, u32, u32;
    f32, u32, u32;
    u64, u64, u64;
    i64, u64, u64;
    f64, u64, u64;
}
