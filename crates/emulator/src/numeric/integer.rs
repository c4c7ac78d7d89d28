//! Integer arithmetic: PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer
//! Arithmetic".
//!
//! Operations that Rust's wrapping operations provide (add, sub, the low half of a product, min,
//! max, logic) are not repeated here.

/// Integers of one width and sign.
pub trait Integer: Copy {
    /// Integers of the width without a sign.
    type Unsigned;
    /// Integers of twice the width.
    type Wide;
    /// `mul.wide`: the whole product.
    fn mul_wide(self, other: Self) -> Self::Wide;
    /// `mul.hi`: the upper half of the product.
    fn mul_hi(self, other: Self) -> Self;
    /// `div`. By zero: all ones, as from the hardware's sequence.
    fn quotient(self, divisor: Self) -> Self;
    /// `rem`. By zero: all ones.
    fn remainder(self, divisor: Self) -> Self;
    /// `sad`: `sum` and the distance to `other`, taken without overflow.
    fn sad(self, other: Self, sum: Self::Unsigned) -> Self::Unsigned;
}

macro_rules! integers {
    ($($ty:ty, $unsigned:ty, $wide:ty;)*) => {$(
        impl Integer for $ty {
            type Unsigned = $unsigned;
            type Wide = $wide;

            #[inline(always)]
            fn mul_wide(self, other: Self) -> $wide {
                <$wide>::from(self) * <$wide>::from(other)
            }

            #[inline(always)]
            fn mul_hi(self, other: Self) -> Self {
                (self.mul_wide(other) >> Self::BITS) as Self
            }

            #[inline(always)]
            fn quotient(self, divisor: Self) -> Self {
                if divisor == 0 { !0 } else { self.wrapping_div(divisor) }
            }

            #[inline(always)]
            fn remainder(self, divisor: Self) -> Self {
                if divisor == 0 { !0 } else { self.wrapping_rem(divisor) }
            }

            #[inline(always)]
            fn sad(self, other: Self, sum: $unsigned) -> $unsigned {
                sum.wrapping_add(self.abs_diff(other))
            }
        }
    )*};
}

integers! {
    u16, u16, u32;
    i16, u16, i32;
    u32, u32, u64;
    i32, u32, i64;
    u64, u64, u128;
    i64, u64, i128;
}

/// `mul24.lo` and `mul24.hi`: the low or the high 32 bits of the 48-bit product of the low 24 bits
/// of each operand.
#[inline(always)]
pub fn mul24(a: u32, b: u32, signed: bool, high: bool) -> u32 {
    let low24 = |x: u32| if signed { i64::from((x << 8) as i32 >> 8) } else { i64::from(x & 0xff_ffff) };
    let product = low24(a) * low24(b);
    if high { (product >> 16) as u32 } else { product as u32 }
}

/// Integers that are added and subtracted through the carry flag.
pub trait Carry: Copy {
    /// `add.cc` and `addc`: the sum with a carry in, and the carry out.
    fn add_carry(self, other: Self, carry: bool) -> (Self, bool);
    /// `sub.cc` and `subc`: the difference, and the carry out of `a + !b + carry`, which is one if no
    /// borrow occurred.
    ///
    /// The manual calls the CC.CF of a subtraction a borrow. The hardware keeps the carry of its
    /// addition, which `addc` after `sub.cc` exposes (`ptxas` passes on the flag of `IADD3 P0 = a, -b`
    /// unchanged; the compiler's own 128-bit division relies on it).
    fn sub_carry(self, other: Self, carry: bool) -> (Self, bool);
}

macro_rules! carries {
    ($($ty:ty, $wide:ty;)*) => {$(
        impl Carry for $ty {
            #[inline(always)]
            fn add_carry(self, other: Self, carry: bool) -> (Self, bool) {
                let sum = <$wide>::from(self) + <$wide>::from(other) + <$wide>::from(carry);
                (sum as Self, sum >> Self::BITS != 0)
            }

            #[inline(always)]
            fn sub_carry(self, other: Self, carry: bool) -> (Self, bool) {
                self.add_carry(!other, carry)
            }
        }
    )*};
}

carries! {
    u32, u64;
    u64, u128;
}

#[inline(always)]
fn extend(value: u32, width: u32, signed: bool) -> i64 {
    let shift = 64 - width;
    let left = u64::from(value) << shift;
    if signed { left as i64 >> shift } else { (left >> shift) as i64 }
}

/// `dp4a`: `c` plus the dot product of four bytes.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    (0..4).fold(c, |sum, byte| {
        let product = extend(a >> (8 * byte), 8, a_signed) * extend(b >> (8 * byte), 8, b_signed);
        sum.wrapping_add(product as u32)
    })
}

/// `dp2a.lo` and `dp2a.hi`: `c` plus the dot product of the two halves of `a` and the two low or
/// high bytes of `b`.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool, high: bool) -> u32 {
    let b = if high { b >> 16 } else { b };
    (0..2).fold(c, |sum, part| {
        let product = extend(a >> (16 * part), 16, a_signed) * extend(b >> (8 * part), 8, b_signed);
        sum.wrapping_add(product as u32)
    })
}
