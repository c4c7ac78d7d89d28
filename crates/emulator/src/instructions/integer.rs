//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer
//! Arithmetic").

use warpwright_ptx::syntax::{Instruction, Type};

use crate::decode::{DecodeError, Decoder, Words, unsupported};
use crate::lanes::{Operands, one, three, two};
use crate::numeric::integer;

/// Which part of a product is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Low,
    High,
    Wide,
}

fn part(w: &mut Words<'_>) -> Part {
    w.choose(&[("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)]).unwrap_or(Part::Low)
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        base @ ("add" | "sub" | "addc" | "subc") => {
            if base.ends_with('c') || i.opcode.has("cc") {
                return carried(d, i, w);
            }
            sum(d, i, w)
        }
        "mul" => product(d, i, w),
        "mad" | "madc" => multiply_add(d, i, w),
        "mul24" | "mad24" => product_of_24_bits(d, i, w),
        "div" | "rem" => quotient(d, i, w),
        "abs" | "neg" => sign(d, i, w),
        "min" | "max" => extremum(d, i, w),
        "sad" => sum_of_differences(d, i, w),
        "dp4a" | "dp2a" => dot_product(d, i, w),
        _ => Err(unsupported(i, w.ty()?)),
    }
}

fn sum(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if w.take("u16x2") || w.take("s16x2") {
        return sum_of_pairs(d, i);
    }
    let saturate = w.take("sat");
    let ty = w.ty()?;
    let add = i.opcode.base() == "add";
    let types = [ty, ty];
    match (ty, add, saturate) {
        (Type::U32 | Type::S32, true, false) => {
            d.vector(i, ty, &types, two(|a: u32, b: u32| a.wrapping_add(b)))
        }
        (Type::U32 | Type::S32, false, false) => {
            d.vector(i, ty, &types, two(|a: u32, b: u32| a.wrapping_sub(b)))
        }
        (Type::U64 | Type::S64, true, false) => {
            d.vector(i, ty, &types, two(|a: u64, b: u64| a.wrapping_add(b)))
        }
        (Type::U64 | Type::S64, false, false) => {
            d.vector(i, ty, &types, two(|a: u64, b: u64| a.wrapping_sub(b)))
        }
        (Type::U16 | Type::S16, true, false) => {
            d.vector(i, ty, &types, two(|a: u16, b: u16| a.wrapping_add(b)))
        }
        (Type::U16 | Type::S16, false, false) => {
            d.vector(i, ty, &types, two(|a: u16, b: u16| a.wrapping_sub(b)))
        }
        (Type::S32, true, true) => d.scalar(i, ty, &types, two(|a: i32, b: i32| a.saturating_add(b))),
        (Type::S32, false, true) => d.scalar(i, ty, &types, two(|a: i32, b: i32| a.saturating_sub(b))),
        _ => Err(unsupported(i, ty)),
    }
}

/// `add.u16x2` and `add.s16x2`.
fn sum_of_pairs(d: Decoder<'_, '_, '_>, i: &Instruction) -> Result<(), DecodeError> {
    if i.opcode.base() != "add" {
        return Err(unsupported(i, Type::B32));
    }
    d.vector(
        i,
        Type::B32,
        &[Type::B32; 2],
        two(|a: u32, b: u32| (a.wrapping_add(b) & 0xffff) | ((a >> 16).wrapping_add(b >> 16) << 16)),
    )
}

/// `add.cc`, `addc`, `sub.cc`, `subc`: the carry flag is a predicate of the function.
fn carried(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let sets = w.take("cc");
    let ty = w.ty()?;
    let base = i.opcode.base();
    let (add, takes) = (base.starts_with("add"), base.ends_with('c'));
    let mut slots = d.slots(i, ty, &[ty, ty])?;
    // A subtraction adds the complement, and one.
    slots.c = if takes { d.carry() } else { d.bits(u64::from(!add), crate::decode::File::Predicate) };
    slots.e = if sets { d.carry() } else { d.scratch(crate::decode::File::Predicate) };
    match (ty, add) {
        (Type::U32 | Type::S32, true) => d.lanes(slots, three(integer::add_carry_u32)),
        (Type::U32 | Type::S32, false) => d.lanes(slots, three(integer::sub_carry_u32)),
        (Type::U64 | Type::S64, true) => d.lanes(slots, three(integer::add_carry_u64)),
        (Type::U64 | Type::S64, false) => d.lanes(slots, three(integer::sub_carry_u64)),
        _ => return Err(unsupported(i, ty)),
    }
    Ok(())
}

fn product(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let part = part(w);
    let ty = w.ty()?;
    let types = [ty, ty];
    match (ty, part) {
        (Type::U32 | Type::S32, Part::Low) => {
            d.vector(i, ty, &types, two(|a: u32, b: u32| a.wrapping_mul(b)))
        }
        (Type::U64 | Type::S64, Part::Low) => {
            d.vector(i, ty, &types, two(|a: u64, b: u64| a.wrapping_mul(b)))
        }
        (Type::U16 | Type::S16, Part::Low) => {
            d.vector(i, ty, &types, two(|a: u16, b: u16| a.wrapping_mul(b)))
        }
        (Type::U32, Part::High) => d.vector(i, ty, &types, two(integer::mul_hi_u32)),
        (Type::S32, Part::High) => d.vector(i, ty, &types, two(integer::mul_hi_s32)),
        (Type::U64, Part::High) => d.scalar(i, ty, &types, two(integer::mul_hi_u64)),
        (Type::S64, Part::High) => d.scalar(i, ty, &types, two(integer::mul_hi_s64)),
        (Type::U16, Part::High) => {
            d.vector(i, ty, &types, two(|a: u16, b: u16| ((u32::from(a) * u32::from(b)) >> 16) as u16))
        }
        (Type::S16, Part::High) => {
            d.vector(i, ty, &types, two(|a: i16, b: i16| ((i32::from(a) * i32::from(b)) >> 16) as i16))
        }
        (Type::U32, Part::Wide) => {
            d.vector(i, Type::U64, &types, two(|a: u32, b: u32| u64::from(a) * u64::from(b)))
        }
        (Type::S32, Part::Wide) => {
            d.vector(i, Type::S64, &types, two(|a: i32, b: i32| i64::from(a) * i64::from(b)))
        }
        (Type::U16, Part::Wide) => {
            d.vector(i, Type::U32, &types, two(|a: u16, b: u16| u32::from(a) * u32::from(b)))
        }
        (Type::S16, Part::Wide) => {
            d.vector(i, Type::S32, &types, two(|a: i16, b: i16| i32::from(a) * i32::from(b)))
        }
        _ => Err(unsupported(i, ty)),
    }
}

fn multiply_add(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if i.opcode.base() == "madc" || i.opcode.has("cc") {
        return multiply_add_carried(d, i, w);
    }
    let part = part(w);
    let saturate = w.take("sat");
    let ty = w.ty()?;
    let types = [ty, ty, ty];
    if saturate {
        return match (ty, part) {
            (Type::S32, Part::High) => d.scalar(
                i,
                ty,
                &types,
                three(|a: i32, b: i32, c: i32| integer::mul_hi_s32(a, b).saturating_add(c)),
            ),
            _ => Err(unsupported(i, ty)),
        };
    }
    match (ty, part) {
        (Type::U32 | Type::S32, Part::Low) => {
            d.vector(i, ty, &types, three(|a: u32, b: u32, c: u32| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Type::U64 | Type::S64, Part::Low) => {
            d.vector(i, ty, &types, three(|a: u64, b: u64, c: u64| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Type::U16 | Type::S16, Part::Low) => {
            d.vector(i, ty, &types, three(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Type::U32, Part::High) => {
            d.vector(i, ty, &types, three(|a: u32, b: u32, c: u32| integer::mul_hi_u32(a, b).wrapping_add(c)))
        }
        (Type::S32, Part::High) => {
            d.vector(i, ty, &types, three(|a: i32, b: i32, c: i32| integer::mul_hi_s32(a, b).wrapping_add(c)))
        }
        (Type::U64, Part::High) => {
            d.scalar(i, ty, &types, three(|a: u64, b: u64, c: u64| integer::mul_hi_u64(a, b).wrapping_add(c)))
        }
        (Type::S64, Part::High) => {
            d.scalar(i, ty, &types, three(|a: i64, b: i64, c: i64| integer::mul_hi_s64(a, b).wrapping_add(c)))
        }
        (Type::U16, Part::High) => d.scalar(
            i,
            ty,
            &types,
            three(|a: u16, b: u16, c: u16| (((u32::from(a) * u32::from(b)) >> 16) as u16).wrapping_add(c)),
        ),
        (Type::S16, Part::High) => d.scalar(
            i,
            ty,
            &types,
            three(|a: i16, b: i16, c: i16| (((i32::from(a) * i32::from(b)) >> 16) as i16).wrapping_add(c)),
        ),
        (Type::U32, Part::Wide) => d.vector(
            i,
            Type::U64,
            &[ty, ty, Type::U64],
            three(|a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).wrapping_add(c)),
        ),
        (Type::S32, Part::Wide) => d.vector(
            i,
            Type::S64,
            &[ty, ty, Type::S64],
            three(|a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).wrapping_add(c)),
        ),
        (Type::U16, Part::Wide) => d.vector(
            i,
            Type::U32,
            &[ty, ty, Type::U32],
            three(|a: u16, b: u16, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c)),
        ),
        (Type::S16, Part::Wide) => d.vector(
            i,
            Type::S32,
            &[ty, ty, Type::S32],
            three(|a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c)),
        ),
        _ => Err(unsupported(i, ty)),
    }
}

/// `mad.cc` and `madc`: the product's part, then a sum with carry.
fn multiply_add_carried(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
) -> Result<(), DecodeError> {
    let part = part(w);
    let sets = w.take("cc");
    let ty = w.ty()?;
    let takes = i.opcode.base() == "madc";
    let slots = d.slots(i, ty, &[ty, ty, ty])?;
    let product = d.scratch(crate::decode::File::of(ty));
    let multiply = Operands { d: product, ..slots };
    match (ty, part) {
        (Type::U32 | Type::S32, Part::Low) => d.lanes(multiply, two(|a: u32, b: u32| a.wrapping_mul(b))),
        (Type::U64 | Type::S64, Part::Low) => d.lanes(multiply, two(|a: u64, b: u64| a.wrapping_mul(b))),
        (Type::U32, Part::High) => d.lanes(multiply, two(integer::mul_hi_u32)),
        (Type::S32, Part::High) => d.lanes(multiply, two(integer::mul_hi_s32)),
        (Type::U64, Part::High) => d.plain_lanes(multiply, two(integer::mul_hi_u64)),
        (Type::S64, Part::High) => d.plain_lanes(multiply, two(integer::mul_hi_s64)),
        _ => return Err(unsupported(i, ty)),
    }
    let carry_in = if takes { d.carry() } else { d.bits(0, crate::decode::File::Predicate) };
    let carry_out = if sets { d.carry() } else { d.scratch(crate::decode::File::Predicate) };
    let add = Operands { d: slots.d, e: carry_out, a: product, b: slots.c, c: carry_in, x: 0 };
    if ty.bytes() == 8 {
        d.lanes(add, three(integer::add_carry_u64));
    } else {
        d.lanes(add, three(integer::add_carry_u32));
    }
    Ok(())
}

fn product_of_24_bits(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let high = part(w) == Part::High;
    let saturate = w.take("sat");
    let ty = w.ty()?;
    let signed = match ty {
        Type::S32 => true,
        Type::U32 => false,
        _ => return Err(unsupported(i, ty)),
    };
    if i.opcode.base() == "mul24" {
        return d.scalar(i, ty, &[ty; 2], two(move |a: u32, b: u32| integer::mul24(a, b, signed, high)));
    }
    if saturate {
        return d.scalar(
            i,
            ty,
            &[ty; 3],
            three(move |a: u32, b: u32, c: i32| {
                (integer::mul24(a, b, signed, high) as i32).saturating_add(c)
            }),
        );
    }
    d.scalar(
        i,
        ty,
        &[ty; 3],
        three(move |a: u32, b: u32, c: u32| integer::mul24(a, b, signed, high).wrapping_add(c)),
    )
}

fn quotient(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty, ty];
    match (i.opcode.base(), ty) {
        ("div", Type::U32) => d.scalar(i, ty, &types, two(integer::div_u32)),
        ("div", Type::S32) => d.scalar(i, ty, &types, two(integer::div_s32)),
        ("div", Type::U64) => d.scalar(i, ty, &types, two(integer::div_u64)),
        ("div", Type::S64) => d.scalar(i, ty, &types, two(integer::div_s64)),
        ("div", Type::U16) => {
            d.scalar(i, ty, &types, two(|a: u16, b: u16| integer::div_u32(a.into(), b.into()) as u16))
        }
        ("div", Type::S16) => {
            d.scalar(i, ty, &types, two(|a: i16, b: i16| integer::div_s32(a.into(), b.into()) as i16))
        }
        ("rem", Type::U32) => d.scalar(i, ty, &types, two(integer::rem_u32)),
        ("rem", Type::S32) => d.scalar(i, ty, &types, two(integer::rem_s32)),
        ("rem", Type::U64) => d.scalar(i, ty, &types, two(integer::rem_u64)),
        ("rem", Type::S64) => d.scalar(i, ty, &types, two(integer::rem_s64)),
        ("rem", Type::U16) => {
            d.scalar(i, ty, &types, two(|a: u16, b: u16| integer::rem_u32(a.into(), b.into()) as u16))
        }
        ("rem", Type::S16) => {
            d.scalar(i, ty, &types, two(|a: i16, b: i16| integer::rem_s32(a.into(), b.into()) as i16))
        }
        _ => Err(unsupported(i, ty)),
    }
}

fn sign(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty];
    match (i.opcode.base(), ty) {
        ("abs", Type::S16) => d.vector(i, ty, &types, one(|a: i16| a.wrapping_abs())),
        ("abs", Type::S32) => d.vector(i, ty, &types, one(|a: i32| a.wrapping_abs())),
        ("abs", Type::S64) => d.vector(i, ty, &types, one(|a: i64| a.wrapping_abs())),
        ("neg", Type::S16) => d.vector(i, ty, &types, one(|a: i16| a.wrapping_neg())),
        ("neg", Type::S32) => d.vector(i, ty, &types, one(|a: i32| a.wrapping_neg())),
        ("neg", Type::S64) => d.vector(i, ty, &types, one(|a: i64| a.wrapping_neg())),
        _ => Err(unsupported(i, ty)),
    }
}

fn extremum(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let relu = w.take("relu");
    let minimum = i.opcode.base() == "min";
    if let Some(signed) = w.choose(&[("u16x2", false), ("s16x2", true)]) {
        return d.vector(
            i,
            Type::B32,
            &[Type::B32; 2],
            two(move |a: u32, b: u32| {
                let half = |shift: u32| {
                    let (a, b) = ((a >> shift) as u16, (b >> shift) as u16);
                    let a_first = if signed { (a as i16) < b as i16 } else { a < b };
                    let chosen = if a_first == minimum { a } else { b };
                    u32::from(if relu && (chosen as i16) < 0 { 0 } else { chosen }) << shift
                };
                half(0) | half(16)
            }),
        );
    }
    let ty = w.ty()?;
    let types = [ty, ty];
    match (ty, minimum, relu) {
        (Type::U32, true, false) => d.vector(i, ty, &types, two(|a: u32, b: u32| a.min(b))),
        (Type::U32, false, false) => d.vector(i, ty, &types, two(|a: u32, b: u32| a.max(b))),
        (Type::S32, true, false) => d.vector(i, ty, &types, two(|a: i32, b: i32| a.min(b))),
        (Type::S32, false, false) => d.vector(i, ty, &types, two(|a: i32, b: i32| a.max(b))),
        (Type::S32, true, true) => d.vector(i, ty, &types, two(|a: i32, b: i32| a.min(b).max(0))),
        (Type::S32, false, true) => d.vector(i, ty, &types, two(|a: i32, b: i32| a.max(b).max(0))),
        (Type::U64, true, false) => d.vector(i, ty, &types, two(|a: u64, b: u64| a.min(b))),
        (Type::U64, false, false) => d.vector(i, ty, &types, two(|a: u64, b: u64| a.max(b))),
        (Type::S64, true, false) => d.vector(i, ty, &types, two(|a: i64, b: i64| a.min(b))),
        (Type::S64, false, false) => d.vector(i, ty, &types, two(|a: i64, b: i64| a.max(b))),
        (Type::U16, true, false) => d.vector(i, ty, &types, two(|a: u16, b: u16| a.min(b))),
        (Type::U16, false, false) => d.vector(i, ty, &types, two(|a: u16, b: u16| a.max(b))),
        (Type::S16, true, false) => d.vector(i, ty, &types, two(|a: i16, b: i16| a.min(b))),
        (Type::S16, false, false) => d.vector(i, ty, &types, two(|a: i16, b: i16| a.max(b))),
        _ => Err(unsupported(i, ty)),
    }
}

fn sum_of_differences(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty, ty, ty];
    match ty {
        Type::U32 => d.vector(i, ty, &types, three(integer::sad_u32)),
        Type::S32 => d.vector(i, ty, &types, three(integer::sad_s32)),
        Type::U64 => d.vector(i, ty, &types, three(integer::sad_u64)),
        Type::S64 => d.vector(i, ty, &types, three(integer::sad_s64)),
        Type::U16 => d.scalar(i, ty, &types, three(|a: u16, b: u16, c: u16| c.wrapping_add(a.abs_diff(b)))),
        Type::S16 => d.scalar(i, ty, &types, three(|a: i16, b: i16, c: u16| c.wrapping_add(a.abs_diff(b)))),
        _ => Err(unsupported(i, ty)),
    }
}

fn dot_product(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let high = w.choose(&[("lo", false), ("hi", true)]).unwrap_or(false);
    let (a_type, b_type) = (w.ty()?, w.ty()?);
    let (a_signed, b_signed) = (a_type == Type::S32, b_type == Type::S32);
    let types = [Type::B32; 3];
    if i.opcode.base() == "dp4a" {
        d.vector(
            i,
            Type::B32,
            &types,
            three(move |a: u32, b: u32, c: u32| integer::dp4a(a, b, c, a_signed, b_signed)),
        )
    } else {
        d.vector(
            i,
            Type::B32,
            &types,
            three(move |a: u32, b: u32, c: u32| integer::dp2a(a, b, c, a_signed, b_signed, high)),
        )
    }
}
