//! Integer operations beyond the operators: wide products, carries, saturation, dot products of
//! packed bytes.

mod methods;

pub use self::methods::Exponent;
use crate::arithmetic::arithmetic_word;
use crate::element::{Element, Integer, Packed, WideInteger, s8x4, s16x2, u8x4, u16x2};
use crate::operation::{compute, on_behalf_of_author};
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

/// An integer whose product has a type of twice the width.
pub trait Widening: Integer {
    /// The integer of twice the width.
    type Wide: Integer;
}

macro_rules! widening {
    ($($ty:ty => $wide:ty),*) => { $(impl Widening for $ty { type Wide = $wide; })* };
}

widening!(u16 => u32, i16 => i32, u32 => u64, i32 => i64);

impl<T: Widening> Reg<T> {
    /// The whole product, of twice the width.
    #[track_caller]
    pub fn mul_wide(self, other: impl Value<T>) -> Reg<T::Wide> {
        compute(format!("mul.wide.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// The whole product plus `addend`, of twice the width.
    #[track_caller]
    pub fn mul_add_wide(self, factor: impl Value<T>, addend: impl Value<T::Wide>) -> Reg<T::Wide> {
        compute(format!("mad.wide.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }
}

/// An integer of 16, 32 or 64 bits.
pub trait FullInteger: Integer {}

impl FullInteger for u16 {}
impl FullInteger for i16 {}
impl<T: WideInteger> FullInteger for T {}

impl<T: FullInteger> Reg<T> {
    /// The upper half of the product.
    #[track_caller]
    pub fn mul_hi(self, other: impl Value<T>) -> Self {
        compute(format!("mul.hi.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// `self * factor + addend`, wrapping.
    #[track_caller]
    pub fn mul_add_wrapping(self, factor: impl Value<T>, addend: impl Value<T>) -> Self {
        compute(format!("mad.lo.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }

    /// The upper half of `self * factor`, plus `addend`.
    #[track_caller]
    pub fn mul_add_hi(self, factor: impl Value<T>, addend: impl Value<T>) -> Self {
        compute(format!("mad.hi.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }

    /// `|self - other| + addend`.
    #[track_caller]
    pub fn sad(self, other: impl Value<T>, addend: impl Value<T::Unsigned>) -> Reg<T::Unsigned> {
        compute(
            format!("sad.{}", arithmetic_word::<T>()),
            [Reg::operand(self), other.operand(), addend.operand()],
        )
    }
}

/// A 32-bit integer.
pub trait Integer32: WideInteger {}

impl Integer32 for u32 {}
impl Integer32 for i32 {}

impl<T: Integer32> Reg<T> {
    /// The low 32 bits of the product of the low 24 bits of each.
    #[track_caller]
    pub fn mul24(self, other: impl Value<T>) -> Self {
        compute(format!("mul24.lo.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// The low 32 bits of the product of the low 24 bits of each, plus `addend`.
    #[track_caller]
    pub fn mul_add24(self, factor: impl Value<T>, addend: impl Value<T>) -> Self {
        compute(format!("mad24.lo.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }
}

/// The sum of two numbers of `N` 32-bit digits, lowest first, and the carry out of it (0 or 1).
#[track_caller]
pub fn add_with_carry<const N: usize>(a: [Reg<u32>; N], b: [Reg<u32>; N]) -> ([Reg<u32>; N], Reg<u32>) {
    on_behalf_of_author(|| {
        let mut digits = (0..N).map(|digit| {
            let opcode = if digit == 0 { "add.cc.u32" } else { "addc.cc.u32" };
            compute(opcode, [a[digit].operand(), b[digit].operand()])
        });
        let sum = [(); N].map(|()| digits.next().expect("N digits"));
        let zero = 0u32;
        (sum, compute("addc.u32", [zero.operand(), zero.operand()]))
    })
}

/// The difference of two numbers of `N` 32-bit digits, lowest first, wrapping.
#[track_caller]
pub fn sub_with_borrow<const N: usize>(a: [Reg<u32>; N], b: [Reg<u32>; N]) -> [Reg<u32>; N] {
    on_behalf_of_author(|| {
        let mut digits = (0..N).map(|digit| {
            let opcode = match (digit, digit + 1 == N) {
                (0, _) => "sub.cc.u32",
                (_, false) => "subc.cc.u32",
                (_, true) => "subc.u32",
            };
            compute(opcode, [a[digit].operand(), b[digit].operand()])
        });
        [(); N].map(|()| digits.next().expect("N digits"))
    })
}

/// Four packed bytes, signed or not, to multiply by four others.
pub trait PackedBytes: Element {
    /// The type word of each byte.
    const WORD: &'static str;
}

impl PackedBytes for u8x4 {
    const WORD: &'static str = "u32";
}

impl PackedBytes for s8x4 {
    const WORD: &'static str = "s32";
}

impl<T: PackedBytes> Reg<T> {
    /// The sum of the four products of bytes, plus `addend`: `dp4a`. The sum is signed if either
    /// side is.
    #[track_caller]
    pub fn dot4<U: PackedBytes, A: Integer32>(self, other: Reg<U>, addend: impl Value<A>) -> Reg<A> {
        let opcode = format!("dp4a.{}.{}", T::WORD, U::WORD);
        compute(opcode, [Reg::operand(self), Reg::operand(other), addend.operand()])
    }

    /// The sum of two products, plus `addend`: 16-bit halves of `halves` by the low bytes of this
    /// (`dp2a.lo`).
    #[track_caller]
    pub fn dot2_low<A: Integer32>(self, halves: Reg<u32>, addend: impl Value<A>) -> Reg<A> {
        let opcode = format!("dp2a.lo.{0}.{0}", T::WORD);
        compute(opcode, [halves.operand(), Reg::operand(self), addend.operand()])
    }

    /// [`dot2_low`](Self::dot2_low) with the high bytes of this (`dp2a.hi`).
    #[track_caller]
    pub fn dot2_high<A: Integer32>(self, halves: Reg<u32>, addend: impl Value<A>) -> Reg<A> {
        let opcode = format!("dp2a.hi.{0}.{0}", T::WORD);
        compute(opcode, [halves.operand(), Reg::operand(self), addend.operand()])
    }
}

/// A pair of 16-bit integers, on which an operation works lane by lane.
pub trait IntegerPair: Packed {}

impl IntegerPair for u16x2 {}
impl IntegerPair for s16x2 {}

impl<T: IntegerPair> Reg<T> {
    /// The lanes' sums, wrapping; sm_90.
    #[track_caller]
    pub fn add_lanes(self, other: impl Value<T>) -> Self {
        self.lanes("add", other)
    }

    /// The smaller of each two lanes; sm_90.
    #[track_caller]
    pub fn min_lanes(self, other: impl Value<T>) -> Self {
        self.lanes("min", other)
    }

    /// The larger of each two lanes; sm_90.
    #[track_caller]
    pub fn max_lanes(self, other: impl Value<T>) -> Self {
        self.lanes("max", other)
    }

    #[track_caller]
    fn lanes(self, operation: &str, other: impl Value<T>) -> Self {
        require(Feature::IntegerPairs);
        compute(format!("{operation}.{}", T::PTX), [Reg::operand(self), other.operand()])
    }
}

/// A signed integer with minima and maxima that are not below zero.
pub trait Rectified: Element {}

impl Rectified for i32 {}
impl Rectified for s16x2 {}

impl<T: Rectified> Reg<T> {
    /// The smaller of the two, or zero if that is negative: `min.relu`; sm_90.
    #[track_caller]
    pub fn min_relu(self, other: impl Value<T>) -> Self {
        require(Feature::IntegerPairs);
        compute(format!("min.relu.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// The larger of the two, or zero if that is negative: `max.relu`; sm_90.
    #[track_caller]
    pub fn max_relu(self, other: impl Value<T>) -> Self {
        require(Feature::IntegerPairs);
        compute(format!("max.relu.{}", T::PTX), [Reg::operand(self), other.operand()])
    }
}
