//! Rust's operators on device values.
//!
//! Each works between two device values of one type, and between a device value and a build-time
//! value on either side. The compound forms (`+=`) assign, as attributed code does.

use std::ops;

use half::{bf16, f16};
use warpwright_ir::{Operand, RegisterClass};

use crate::arithmetic::{Arithmetic, arithmetic, arithmetic_word, negate, remainder_into, renormalize};
use crate::device_value::assign;
use crate::element::{Bits, Element, Integer, Number, Remainder, SignedNumber, bf16x2, f16x2};
use crate::operation::{compute, compute_into, fresh};
use crate::value::{Reg, Value, bits_word};

macro_rules! number_operators {
    ($($trait:ident $method:ident, $assign_trait:ident $assign_method:ident, $operation:ident;)*) => {
        $(
            impl<T: Number, V: Value<T>> ops::$trait<V> for Reg<T> {
                type Output = Reg<T>;
                #[track_caller]
                fn $method(self, right: V) -> Reg<T> {
                    arithmetic(Arithmetic::$operation, self.operand(), right.operand())
                }
            }

            impl<T: Number, V: Value<T>> ops::$assign_trait<V> for Reg<T> {
                #[track_caller]
                fn $assign_method(&mut self, right: V) {
                    let value = ops::$trait::$method(*self, right);
                    assign(self, value);
                }
            }
        )*
    };
}

number_operators! {
    Add add, AddAssign add_assign, Add;
    Sub sub, SubAssign sub_assign, Subtract;
    Mul mul, MulAssign mul_assign, Multiply;
    Div div, DivAssign div_assign, Divide;
}

macro_rules! integer_remainders {
    ($($ty:ty),*) => {
        $(impl Remainder for $ty {
            #[track_caller]
            fn remainder(dividend: Reg<Self>, divisor: impl Value<Self>) -> Reg<Self> {
                let destination = fresh();
                remainder_into(destination, dividend.operand(), divisor.operand());
                destination
            }
        })*
    };
}

integer_remainders!(u8, u16, u32, u64, i8, i16, i32, i64);

impl<T: Remainder, V: Value<T>> ops::Rem<V> for Reg<T> {
    type Output = Reg<T>;
    #[track_caller]
    fn rem(self, right: V) -> Reg<T> {
        T::remainder(self, right)
    }
}

impl<T: Remainder, V: Value<T>> ops::RemAssign<V> for Reg<T> {
    #[track_caller]
    fn rem_assign(&mut self, right: V) {
        let value = ops::Rem::rem(*self, right);
        assign(self, value);
    }
}

impl<T: SignedNumber> ops::Neg for Reg<T> {
    type Output = Reg<T>;
    #[track_caller]
    fn neg(self) -> Reg<T> {
        negate(self.operand())
    }
}

macro_rules! bit_operators {
    ($($trait:ident $method:ident, $assign_trait:ident $assign_method:ident, $opcode:literal;)*) => {
        $(
            impl<T: Bits, V: Value<T>> ops::$trait<V> for Reg<T> {
                type Output = Reg<T>;
                #[track_caller]
                fn $method(self, right: V) -> Reg<T> {
                    compute(format!(concat!($opcode, ".{}"), bits_word(T::CLASS)), [self.operand(), right.operand()])
                }
            }

            impl<T: Bits, V: Value<T>> ops::$assign_trait<V> for Reg<T> {
                #[track_caller]
                fn $assign_method(&mut self, right: V) {
                    let value = ops::$trait::$method(*self, right);
                    assign(self, value);
                }
            }
        )*
    };
}

bit_operators! {
    BitAnd bitand, BitAndAssign bitand_assign, "and";
    BitOr bitor, BitOrAssign bitor_assign, "or";
    BitXor bitxor, BitXorAssign bitxor_assign, "xor";
}

impl<T: Bits> ops::Not for Reg<T> {
    type Output = Reg<T>;
    #[track_caller]
    fn not(self) -> Reg<T> {
        let result = compute(format!("not.{}", bits_word(T::CLASS)), [self.operand()]);
        renormalize(result);
        result
    }
}

#[track_caller]
fn shift_left_into<T: Integer>(destination: Reg<T>, value: Operand, amount: Operand) {
    compute_into(destination, format!("shl.{}", bits_word(T::CLASS)), [value, amount]);
    renormalize(destination);
}

#[track_caller]
fn shift_right_into<T: Integer>(destination: Reg<T>, value: Operand, amount: Operand) {
    compute_into(destination, format!("shr.{}", arithmetic_word::<T>()), [value, amount]);
}

macro_rules! shift_operators {
    ($($trait:ident $method:ident, $assign_trait:ident $assign_method:ident, $record:ident;)*) => {
        $(
            /// The amount is a `u32`; as in PTX, amounts past the width shift every bit out.
            impl<T: Integer, V: Value<u32>> ops::$trait<V> for Reg<T> {
                type Output = Reg<T>;
                #[track_caller]
                fn $method(self, amount: V) -> Reg<T> {
                    let destination = fresh();
                    $record(destination, self.operand(), amount.operand());
                    destination
                }
            }

            impl<T: Integer, V: Value<u32>> ops::$assign_trait<V> for Reg<T> {
                #[track_caller]
                fn $assign_method(&mut self, amount: V) {
                    let value = ops::$trait::$method(*self, amount);
                    assign(self, value);
                }
            }
        )*
    };
}

shift_operators! {
    Shl shl, ShlAssign shl_assign, shift_left_into;
    Shr shr, ShrAssign shr_assign, shift_right_into;
}

/// Operators whose left side is known at build time.
macro_rules! build_time_left {
    ($($ty:ty: $($trait:ident $method:ident),*;)*) => {
        $($(
            impl ops::$trait<Reg<$ty>> for $ty {
                type Output = Reg<$ty>;
                #[track_caller]
                fn $method(self, right: Reg<$ty>) -> Reg<$ty> {
                    ops::$trait::$method(Value::<$ty>::reg(self), right)
                }
            }
        )*)*
    };
}

build_time_left! {
    bool: BitAnd bitand, BitOr bitor, BitXor bitxor;
    u8: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    u16: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    u32: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor, Shl shl, Shr shr;
    u64: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    i8: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    i16: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    i32: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    i64: Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor;
    f16: Add add, Sub sub, Mul mul, Div div, Rem rem;
    bf16: Add add, Sub sub, Mul mul, Div div, Rem rem;
    f32: Add add, Sub sub, Mul mul, Div div, Rem rem;
    f64: Add add, Sub sub, Mul mul, Div div, Rem rem;
    f16x2: Add add, Sub sub, Mul mul, Div div;
    bf16x2: Add add, Sub sub, Mul mul, Div div;
}

macro_rules! build_time_shifts {
    ($($ty:ty),*) => {
        $(
            impl ops::Shl<Reg<u32>> for $ty {
                type Output = Reg<$ty>;
                #[track_caller]
                fn shl(self, amount: Reg<u32>) -> Reg<$ty> {
                    Value::<$ty>::reg(self) << amount
                }
            }

            impl ops::Shr<Reg<u32>> for $ty {
                type Output = Reg<$ty>;
                #[track_caller]
                fn shr(self, amount: Reg<u32>) -> Reg<$ty> {
                    Value::<$ty>::reg(self) >> amount
                }
            }
        )*
    };
}

build_time_shifts!(u8, u16, u64, i8, i16, i32, i64);

/// Whether a class holds a predicate, which `mov` and `selp` treat apart.
pub(crate) fn is_predicate<T: Element>() -> bool {
    T::CLASS == RegisterClass::Predicate
}
