//! Operations on the bits of integers. PTX ISA, "Logic and Shift Instructions".

use warpwright_ir::Operand;

use crate::element::{Element, WideInteger, bf16, bf16x2, e4m3, e5m2, f16, f16x2, tf32};
use crate::integer::Integer32;
use crate::operation::compute;
use crate::value::{Reg, Value, bits_word};

impl<T: WideInteger> Reg<T> {
    /// The number of set bits.
    #[track_caller]
    pub fn popc(self) -> Reg<u32> {
        compute(format!("popc.{}", bits_word(T::CLASS)), [Reg::operand(self)])
    }

    /// The number of zero bits above the highest set bit.
    #[track_caller]
    pub fn clz(self) -> Reg<u32> {
        compute(format!("clz.{}", bits_word(T::CLASS)), [Reg::operand(self)])
    }

    /// The bits in reverse order.
    #[track_caller]
    pub fn brev(self) -> Self {
        compute(format!("brev.{}", bits_word(T::CLASS)), [Reg::operand(self)])
    }

    /// The position of the highest set bit (of a signed number, of the highest that differs from
    /// the sign); `0xffff_ffff` if there is none.
    #[track_caller]
    pub fn bfind(self) -> Reg<u32> {
        compute(format!("bfind.{}", T::PTX), [Reg::operand(self)])
    }

    /// The `length` bits from `position` on, zero- or sign-extended as the type is.
    #[track_caller]
    pub fn bfe(self, position: impl Value<u32>, length: impl Value<u32>) -> Self {
        compute(format!("bfe.{}", T::PTX), [Reg::operand(self), position.operand(), length.operand()])
    }

    /// This with the `length` bits from `position` on replaced by the low bits of `field`.
    #[track_caller]
    pub fn bfi(self, field: impl Value<T>, position: impl Value<u32>, length: impl Value<u32>) -> Self {
        let operands = [field.operand(), Reg::operand(self), position.operand(), length.operand()];
        compute(format!("bfi.{}", bits_word(T::CLASS)), operands)
    }
}

impl<T: Integer32> Reg<T> {
    /// Any function of three bits, bit by bit: bit `4 * a + 2 * b + c` of `table` is its value.
    ///
    /// `0x96` is exclusive or of the three, `0xe8` their majority.
    #[track_caller]
    pub fn lop3(self, b: impl Value<T>, c: impl Value<T>, table: u8) -> Self {
        let table = Operand::Integer(table.into());
        compute("lop3.b32", [Reg::operand(self), b.operand(), c.operand(), table])
    }

    /// Four bytes chosen from this one's (0 to 3) and `high`'s (4 to 7): nibble `i` of `selector`
    /// picks byte `i`.
    #[track_caller]
    pub fn prmt(self, high: impl Value<T>, selector: impl Value<u32>) -> Self {
        compute("prmt.b32", [Reg::operand(self), high.operand(), selector.operand()])
    }

    /// The upper half of `high:self` shifted left by `amount` modulo 32.
    #[track_caller]
    pub fn funnel_left(self, high: impl Value<T>, amount: impl Value<u32>) -> Self {
        compute("shf.l.wrap.b32", [Reg::operand(self), high.operand(), amount.operand()])
    }

    /// The lower half of `high:self` shifted right by `amount` modulo 32.
    #[track_caller]
    pub fn funnel_right(self, high: impl Value<T>, amount: impl Value<u32>) -> Self {
        compute("shf.r.wrap.b32", [Reg::operand(self), high.operand(), amount.operand()])
    }

    /// The low `length` bits (at most 32), zero- or sign-extended as the type is.
    #[track_caller]
    pub fn szext(self, length: impl Value<u32>) -> Self {
        compute(format!("szext.clamp.{}", T::PTX), [Reg::operand(self), length.operand()])
    }
}

impl Reg<u32> {
    /// The position of the `count`-th set bit from `base` on, counted upwards (downwards if
    /// negative); `0xffff_ffff` if there is none: `fns`.
    #[track_caller]
    pub fn find_nth_set(self, base: impl Value<u32>, count: impl Value<i32>) -> Reg<u32> {
        compute("fns.b32", [self.operand(), base.operand(), count.operand()])
    }
}

/// A float, or a pair of them, whose bits an unsigned integer holds.
pub trait FloatBits: Element {
    /// The integer.
    type Bits: Element;
}

macro_rules! float_bits {
    ($($ty:ty => $bits:ty),*) => { $(impl FloatBits for $ty { type Bits = $bits; })* };
}

float_bits!(
    f16 => u16, bf16 => u16, f32 => u32, f64 => u64, tf32 => u32, e4m3 => u8, e5m2 => u8, f16x2 => u32, bf16x2 => u32
);

impl<T: FloatBits> Reg<T> {
    /// The bits as an unsigned integer.
    #[track_caller]
    pub fn to_bits(self) -> Reg<T::Bits> {
        self.bit_cast()
    }

    /// The float with these bits.
    #[track_caller]
    pub fn from_bits(bits: impl Value<T::Bits>) -> Self {
        bits.reg().bit_cast()
    }
}

/// `length` ones from bit `position` on: `bmsk`.
#[track_caller]
pub fn bit_mask(position: impl Value<u32>, length: impl Value<u32>) -> Reg<u32> {
    compute("bmsk.clamp.b32", [position.operand(), length.operand()])
}
