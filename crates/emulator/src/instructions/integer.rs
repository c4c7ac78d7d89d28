//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer
//! Arithmetic").

use warpwright_ptx::syntax::Type;

use crate::decode::{Decoded, Decoder, File, Row};
use crate::lanes::{Operands, one, three, two};
use crate::numeric::integer::{self, Carry, Integer};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if let Some(signed) = i.choose(&[("u16x2", false), ("s16x2", true)]) {
        return pairs(d, i, signed);
    }
    let ty = i.ty()?;
    let (saturates, relu) = (i.has("sat"), i.has("relu"));
    match i.base() {
        "addc" | "subc" | "madc" => carried(d, i, ty),
        _ if i.has("cc") => carried(d, i, ty),
        "add" if saturates => d.scalar(i, two(i32::saturating_add)),
        "sub" if saturates => d.scalar(i, two(i32::saturating_sub)),
        "add" => by_type!(i, ty, [u16, u32, u64], d.vector(i, two(T::wrapping_add))),
        "sub" => by_type!(i, ty, [u16, u32, u64], d.vector(i, two(T::wrapping_sub))),
        "mul" => product(d, i, ty),
        "mad" => product_and_sum(d, i, ty),
        "mul24" | "mad24" => product_of_24_bits(d, i, ty),
        "div" => by_type!(i, ty, [i16, i32, i64, u16, u32, u64], d.scalar(i, two(T::quotient))),
        "rem" => by_type!(i, ty, [i16, i32, i64, u16, u32, u64], d.scalar(i, two(T::remainder))),
        "abs" => by_type!(i, ty, [i16, i32, i64], d.vector(i, one(T::wrapping_abs))),
        "neg" => by_type!(i, ty, [i16, i32, i64], d.vector(i, one(T::wrapping_neg))),
        "min" if relu => d.vector(i, two(|a: i32, b: i32| a.min(b).max(0))),
        "max" if relu => d.vector(i, two(|a: i32, b: i32| a.max(b).max(0))),
        "min" => {
            by_type!(i, ty, [i16, i32, i64, u16, u32, u64], d.vector(i, two(|a: T, b: T| a.min(b))))
        }
        "max" => {
            by_type!(i, ty, [i16, i32, i64, u16, u32, u64], d.vector(i, two(|a: T, b: T| a.max(b))))
        }
        "sad" => by_type!(i, ty, [i16, i32, i64, u16, u32, u64], d.vector(i, three(T::sad))),
        "dp4a" | "dp2a" => dot_product(d, i),
        _ => Err(i.unsupported()),
    }
}

/// Two halves of a word.
fn pairs(d: Decoder<'_, '_, '_>, i: &Row<'_>, signed: bool) -> Decoded {
    let (relu, minimum) = (i.has("relu"), i.base() == "min");
    match i.base() {
        "add" => d.vector(
            i,
            two(|a: u32, b: u32| (a.wrapping_add(b) & 0xffff) | ((a >> 16).wrapping_add(b >> 16) << 16)),
        ),
        "min" | "max" => d.vector(
            i,
            two(move |a: u32, b: u32| {
                let half = |shift: u32| {
                    let (a, b) = ((a >> shift) as u16, (b >> shift) as u16);
                    let a_first = if signed { (a as i16) < b as i16 } else { a < b };
                    let chosen = if a_first == minimum { a } else { b };
                    u32::from(if relu && (chosen as i16) < 0 { 0 } else { chosen }) << shift
                };
                half(0) | half(16)
            }),
        ),
        _ => Err(i.unsupported()),
    }
}

fn product(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type) -> Decoded {
    if i.has("lo") {
        by_type!(i, ty, [u16, u32, u64], d.vector(i, two(T::wrapping_mul)))
    } else if i.has("hi") {
        by_type!(i, ty, [i16, i32, i64, u16, u32, u64], d.vector(i, two(T::mul_hi)))
    } else {
        by_type!(i, ty, [i16, i32, u16, u32], d.vector(i, two(T::mul_wide)))
    }
}

fn product_and_sum(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type) -> Decoded {
    if i.has("sat") {
        d.scalar(i, three(|a: i32, b: i32, c: i32| a.mul_hi(b).saturating_add(c)))
    } else if i.has("lo") {
        by_type!(
            i,
            ty,
            [u16, u32, u64],
            d.vector(i, three(|a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c)))
        )
    } else if i.has("hi") {
        by_type!(
            i,
            ty,
            [i16, i32, i64, u16, u32, u64],
            d.vector(i, three(|a: T, b: T, c: T| a.mul_hi(b).wrapping_add(c)))
        )
    } else {
        by_type!(
            i,
            ty,
            [i16, i32, u16, u32],
            d.vector(i, three(|a: T, b: T, c: <T as Integer>::Wide| a.mul_wide(b).wrapping_add(c)))
        )
    }
}

/// `add.cc`, `addc`, `sub.cc`, `subc`, and `mad.cc` and `madc`, which add a part of a product: the carry
/// flag is a predicate of the function.
fn carried(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type) -> Decoded {
    let (takes, sets, subtracts) = (i.base().ends_with('c'), i.has("cc"), i.base().starts_with("sub"));
    let mut slots = d.slots(i)?;
    if i.base().starts_with("mad") {
        let part = Operands { d: d.scratch(File::of(ty)), ..slots };
        if i.has("lo") {
            by_type!(i, ty, [u32, u64], d.lanes(part, two(T::wrapping_mul)))?;
        } else {
            by_type!(i, ty, [i32, i64, u32, u64], d.lanes(part, two(T::mul_hi)))?;
        }
        (slots.a, slots.b) = (part.d, slots.c);
    }
    // A subtraction adds the complement, and one.
    slots.c = if takes { d.carry() } else { d.bits(u64::from(subtracts), File::Predicate) };
    slots.e = if sets { d.carry() } else { d.scratch(File::Predicate) };
    if subtracts {
        by_type!(i, ty, [u32, u64], d.lanes(slots, three(T::sub_carry)))
    } else {
        by_type!(i, ty, [u32, u64], d.lanes(slots, three(T::add_carry)))
    }
}

fn product_of_24_bits(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type) -> Decoded {
    let (signed, high, saturates) = (ty == Type::S32, i.has("hi"), i.has("sat"));
    let product = move |a: u32, b: u32| integer::mul24(a, b, signed, high);
    match i.base() {
        "mul24" => d.scalar(i, two(product)),
        _ if saturates => {
            d.scalar(i, three(move |a: u32, b: u32, c: i32| (product(a, b) as i32).saturating_add(c)))
        }
        _ => d.scalar(i, three(move |a: u32, b: u32, c: u32| product(a, b).wrapping_add(c))),
    }
}

fn dot_product(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (a, b) = i.two_types()?;
    let (a_signed, b_signed, high) = (a == Type::S32, b == Type::S32, i.has("hi"));
    if i.base() == "dp4a" {
        return d.vector(i, three(move |a: u32, b: u32, c: u32| integer::dp4a(a, b, c, a_signed, b_signed)));
    }
    d.vector(i, three(move |a: u32, b: u32, c: u32| integer::dp2a(a, b, c, a_signed, b_signed, high)))
}
