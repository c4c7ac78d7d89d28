//! Addition, subtraction, multiplication, division and negation for every number type.
//!
//! Results wrap (integers) or round to nearest even (floats). A product of floats that is added to
//! something is contracted with the sum, unless the author forbids it
//! ([`contraction`](crate::contraction)).

use warpwright_ir::{Operand, RegisterClass};

use crate::contraction::contracts;
use crate::element::{Element, Kind, Number};
use crate::operation::{compute, compute_into, fresh, on_behalf_of_author, refuse};
use crate::value::{Reg, Value};

/// The four operations that every number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`
    Divide,
}

/// The type word of `T`'s arithmetic: 8-bit integers compute in 16 bits.
pub(crate) fn arithmetic_word<T: Element>() -> &'static str {
    match T::PTX {
        "u8" => "u16",
        "s8" => "s16",
        word => word,
    }
}

/// Records `destination = a op b`. Where contraction is allowed, a sum, difference or product of
/// floats names no rounding.
#[track_caller]
pub(crate) fn arithmetic_into<T: Number>(op: Arithmetic, destination: Reg<T>, a: Operand, b: Operand) {
    if op == Arithmetic::Divide {
        demand_divisor(&b);
    }
    let word = arithmetic_word::<T>();
    let is_float = T::KIND == Kind::Float || T::KIND == Kind::Packed;
    match T::PTX {
        "f16" | "bf16" if op == Arithmetic::Divide => divide_in_f32_into(destination, a, b),
        "f16x2" | "bf16x2" if op == Arithmetic::Divide => divide_lanes_into(destination, a, b),
        "bf16" | "bf16x2" if !contracts() => bfloat_into(op, destination, a, b),
        _ => {
            let name = match op {
                Arithmetic::Add => "add",
                Arithmetic::Subtract => "sub",
                Arithmetic::Multiply if is_float => "mul",
                Arithmetic::Multiply => "mul.lo",
                Arithmetic::Divide => "div",
            };
            let is_rounded = is_float && (op == Arithmetic::Divide || !contracts());
            let rounding = if is_rounded { ".rn" } else { "" };
            compute_into(destination, format!("{name}{rounding}.{word}"), [a, b]);
            renormalize(destination);
        }
    }
}

/// Refuses a division by an integer that is known to be zero, as rustc does on the host.
#[track_caller]
fn demand_divisor(divisor: &Operand) {
    if *divisor == Operand::Integer(0) {
        refuse(
            "this divides by zero: the quotient of integers has all bits set, and the remainder is the dividend",
        );
    }
}

/// Records `a op b`.
#[track_caller]
pub(crate) fn arithmetic<T: Number>(op: Arithmetic, a: Operand, b: Operand) -> Reg<T> {
    let destination = fresh();
    arithmetic_into(op, destination, a, b);
    destination
}

/// Restores the form of an 8-bit integer in its 16-bit register: zero- or sign-extended. Nothing
/// for other types.
#[track_caller]
pub(crate) fn renormalize<T: Element>(register: Reg<T>) {
    match T::PTX {
        "u8" => compute_into(register, "and.b16", [register.operand(), Operand::Integer(0xff)]),
        "s8" => compute_into(register, "cvt.s16.s8", [register.operand()]),
        _ => {}
    }
}

/// sm_80 has no bf16 addition or multiplication. Its fused multiply-add computes both, exactly
/// rounded: `a * 1 + b`, `b * -1 + a`, `a * b + -0`. Later architectures run `add.bf16` at the same
/// rate.
#[track_caller]
fn bfloat_into<T: Number>(op: Arithmetic, destination: Reg<T>, a: Operand, b: Operand) {
    on_behalf_of_author(|| {
        const ONE: i128 = 0x3f80;
        const MINUS_ONE: i128 = 0xbf80;
        const MINUS_ZERO: i128 = 0x8000;
        let lanes = |bits: i128| {
            let bits = if T::CLASS == RegisterClass::B32 { bits << 16 | bits } else { bits };
            let word = crate::value::bits_word(T::CLASS);
            compute::<T, 1>(format!("mov.{word}"), [Operand::Integer(bits)]).operand()
        };
        let opcode = format!("fma.rn.{}", T::PTX);
        match op {
            Arithmetic::Add => compute_into(destination, opcode, [a, lanes(ONE), b]),
            Arithmetic::Subtract => compute_into(destination, opcode, [b, lanes(MINUS_ONE), a]),
            Arithmetic::Multiply => compute_into(destination, opcode, [a, b, lanes(MINUS_ZERO)]),
            Arithmetic::Divide if T::PTX == "bf16" => divide_in_f32_into(destination, a, b),
            Arithmetic::Divide => divide_lanes_into(destination, a, b),
        }
    })
}

/// A 16-bit quotient through `f32`. Its 24 bits are enough that rounding twice is exact (24 >= 2 *
/// 11 + 2).
#[track_caller]
fn divide_in_f32_into<T: Number>(destination: Reg<T>, a: Operand, b: Operand) {
    let (a, b) = (widen_half(T::PTX, a), widen_half(T::PTX, b));
    let quotient = compute::<f32, 2>("div.rn.f32", [a.operand(), b.operand()]);
    compute_into(destination, format!("cvt.rn.{}.f32", T::PTX), [quotient.operand()]);
}

/// A 16-bit float, exactly, as `f32`.
#[track_caller]
pub(crate) fn widen_half(word: &str, half: Operand) -> Reg<f32> {
    if word == "f16" {
        return compute("cvt.f32.f16", [half]);
    }
    // A bf16 is the upper half of an f32. (`cvt.f32.bf16` would need sm_90.)
    let zero = Value::<u16>::reg(0);
    compute("mov.b32", [Operand::Vector(vec![zero.operand(), half])])
}

/// Divides the two lanes of a packed pair.
#[track_caller]
fn divide_lanes_into<T: Number>(destination: Reg<T>, a: Operand, b: Operand) {
    on_behalf_of_author(|| {
        let lane_word = T::PTX.trim_end_matches("x2");
        let unpack = |pair: Operand| {
            let (low, high) = (fresh::<u16>(), fresh::<u16>());
            let lanes = Operand::Vector(vec![low.operand(), high.operand()]);
            crate::operation::record("mov.b32", 1, vec![lanes, pair]);
            [low, high]
        };
        let (a, b) = (unpack(a), unpack(b));
        let lanes: Vec<Operand> = (0..2)
            .map(|lane| {
                let a = widen_half(lane_word, a[lane].operand());
                let b = widen_half(lane_word, b[lane].operand());
                let quotient = compute::<f32, 2>("div.rn.f32", [a.operand(), b.operand()]);
                compute::<u16, 1>(format!("cvt.rn.{lane_word}.f32"), [quotient.operand()]).operand()
            })
            .collect();
        compute_into(destination, "mov.b32", [Operand::Vector(lanes)]);
    })
}

/// Records `destination = a % b` on integers, with the sign of `a`.
#[track_caller]
pub(crate) fn remainder_into<T: Number>(destination: Reg<T>, a: Operand, b: Operand) {
    demand_divisor(&b);
    compute_into(destination, format!("rem.{}", arithmetic_word::<T>()), [a, b]);
    renormalize(destination);
}

/// Records `-a`.
#[track_caller]
pub(crate) fn negate<T: Number>(a: Operand) -> Reg<T> {
    let result = compute(format!("neg.{}", arithmetic_word::<T>()), [a]);
    renormalize(result);
    result
}
