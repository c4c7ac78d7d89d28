//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions").

use warpwright_ptx::syntax::{Instruction, Operand, Type};

use crate::decode::{DecodeError, Decoder, File, Words, unsupported};
use crate::lanes::{Operands, one, three, two};
use crate::numeric::compare::Comparison;
use crate::numeric::format::Format;
use crate::numeric::{half, single};
use crate::registers::{Lane, Slot};

const COMPARISONS: [(&str, Comparison); 18] = [
    ("eq", Comparison::Equal),
    ("ne", Comparison::NotEqual),
    ("lt", Comparison::Less),
    ("le", Comparison::LessEqual),
    ("gt", Comparison::Greater),
    ("ge", Comparison::GreaterEqual),
    ("lo", Comparison::Less),
    ("ls", Comparison::LessEqual),
    ("hi", Comparison::Greater),
    ("hs", Comparison::GreaterEqual),
    ("equ", Comparison::EqualUnordered),
    ("neu", Comparison::NotEqualUnordered),
    ("ltu", Comparison::LessUnordered),
    ("leu", Comparison::LessEqualUnordered),
    ("gtu", Comparison::GreaterUnordered),
    ("geu", Comparison::GreaterEqualUnordered),
    ("num", Comparison::Ordered),
    ("nan", Comparison::Unordered),
];

/// How the result of a comparison is combined with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    And,
    Or,
    Xor,
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "setp" => set_predicate(d, i, w),
        "set" => set(d, i, w),
        "selp" => select(d, i, w),
        _ => select_by_sign(d, i, w),
    }
}

fn comparison(w: &mut Words<'_>) -> Result<Comparison, DecodeError> {
    w.choose(&COMPARISONS).ok_or_else(|| DecodeError::new("The instruction names no comparison."))
}

fn combine(w: &mut Words<'_>) -> Option<Combine> {
    w.choose(&[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)])
}

/// Appends a comparison of two registers. The hot ones are loops of their own.
fn compare<T: Lane + PartialOrd>(d: Decoder<'_, '_, '_>, slots: Operands, comparison: Comparison) {
    match comparison {
        Comparison::Equal => d.lanes(slots, two(|a: T, b: T| a == b)),
        Comparison::Less => d.lanes(slots, two(|a: T, b: T| a < b)),
        Comparison::LessEqual => d.lanes(slots, two(|a: T, b: T| a <= b)),
        Comparison::Greater => d.lanes(slots, two(|a: T, b: T| a > b)),
        Comparison::GreaterEqual => d.lanes(slots, two(|a: T, b: T| a >= b)),
        Comparison::NotEqualUnordered => d.lanes(slots, two(|a: T, b: T| a != b)),
        other => d.plain_lanes(slots, two(move |a: T, b: T| other.test(a, b))),
    }
}

/// Appends the comparison of one element into a predicate, given the sources' slots.
fn compare_as(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    comparison: Comparison,
    flush: bool,
    slots: Operands,
) -> Result<(), DecodeError> {
    // Integers are ordered, so `ne` is simply `!=` for them.
    let whole = if comparison == Comparison::NotEqual { Comparison::NotEqualUnordered } else { comparison };
    match ty {
        Type::B16 | Type::U16 => compare::<u16>(d, slots, whole),
        Type::S16 => compare::<i16>(d, slots, whole),
        Type::B32 | Type::U32 => compare::<u32>(d, slots, whole),
        Type::S32 => compare::<i32>(d, slots, whole),
        Type::B64 | Type::U64 => compare::<u64>(d, slots, whole),
        Type::S64 => compare::<i64>(d, slots, whole),
        Type::F32 if flush => d.plain_lanes(
            slots,
            two(move |a: u32, b: u32| {
                comparison.test(f32::from_bits(single::flush(a)), f32::from_bits(single::flush(b)))
            }),
        ),
        Type::F32 => compare::<f32>(d, slots, comparison),
        Type::F64 => compare::<f64>(d, slots, comparison),
        Type::F16 | Type::Bf16 => {
            let format = if ty == Type::F16 { Format::F16 } else { Format::BF16 };
            d.plain_lanes(slots, two(move |a: u16, b: u16| half_test(format, a, b, comparison, flush)));
        }
        _ => return Err(unsupported(i, ty)),
    }
    Ok(())
}

fn half_test(format: Format, a: u16, b: u16, comparison: Comparison, flush: bool) -> bool {
    let value = |bits: u16| format.decode(u32::from(if flush { half::flush(format, bits) } else { bits }));
    comparison.test(value(a), value(b))
}

/// Appends `p = p combined with c`.
fn combine_with(d: Decoder<'_, '_, '_>, combine: Combine, slots: Operands, negated: bool) {
    match combine {
        Combine::And => d.lanes(slots, two(move |p: bool, c: bool| p & (c != negated))),
        Combine::Or => d.lanes(slots, two(move |p: bool, c: bool| p | (c != negated))),
        Combine::Xor => d.lanes(slots, two(move |p: bool, c: bool| p ^ (c != negated))),
    }
}

/// `setp.CmpOp{.BoolOp}.type p{|q}, a, b{, c}`: p = (a CmpOp b) BoolOp c, q = !(a CmpOp b) BoolOp
/// c.
fn set_predicate(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let comparison = comparison(w)?;
    let combine = combine(w);
    let flush = w.take("ftz");
    let ty = w.ty()?;
    d.expect_operands(i, if combine.is_some() { 4 } else { 3 })?;
    let a = d.source(&i.operands[1], ty)?;
    let b = d.source(&i.operands[2], ty)?;
    if matches!(ty, Type::F16x2 | Type::Bf16x2) {
        return set_predicate_pair(d, i, ty, comparison, combine, flush, [a, b]);
    }
    let (p, q) = match &i.operands[0] {
        Operand::Pair(p, q) => (d.destination(p, Type::Pred)?, Some(d.destination(q, Type::Pred)?)),
        p => (d.destination(p, Type::Pred)?, None),
    };
    let operands = Operands { a, b, ..Operands::default() };
    if combine.is_none() && q.is_none() {
        return compare_as(d, i, ty, comparison, flush, Operands { d: p, ..operands });
    }
    let truth = d.scratch(File::Predicate);
    let with = match combine {
        Some(combine) => Some((combine, d.predicate(&i.operands[3])?)),
        None => None,
    };
    compare_as(d, i, ty, comparison, flush, Operands { d: truth, ..operands })?;
    let opposite = q.map(|q| {
        let slot = d.scratch(File::Predicate);
        d.lanes(Operands { d: slot, a: truth, ..Operands::default() }, one(|p: bool| !p));
        (q, slot)
    });
    finish(d, with, p, truth, opposite)
}

/// Writes the results of a comparison, combined with a predicate or as they are.
fn finish(
    d: Decoder<'_, '_, '_>,
    with: Option<(Combine, (Slot, bool))>,
    p: Slot,
    truth: Slot,
    opposite: Option<(Slot, Slot)>,
) -> Result<(), DecodeError> {
    let mut results = vec![(p, truth)];
    results.extend(opposite);
    // The destinations may include the combined predicate, so both combinations come first.
    if let Some((combine, (c, negated))) = with {
        for (_, from) in &results {
            combine_with(d, combine, Operands { d: *from, a: *from, b: c, ..Operands::default() }, negated);
        }
    }
    for (to, from) in results {
        d.lanes(Operands { d: to, a: from, ..Operands::default() }, one(|p: bool| p));
    }
    Ok(())
}

/// `setp` of a pair: p for the low half, q for the high one.
fn set_predicate_pair(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    comparison: Comparison,
    combine: Option<Combine>,
    flush: bool,
    [a, b]: [Slot; 2],
) -> Result<(), DecodeError> {
    let format = if ty == Type::F16x2 { Format::F16 } else { Format::BF16 };
    let Operand::Pair(p, q) = &i.operands[0] else {
        return Err(DecodeError::new("A comparison of pairs has two destinations, `p|q`."));
    };
    let (p, q) = (d.destination(p, Type::Pred)?, d.destination(q, Type::Pred)?);
    let (low, high) = (d.scratch(File::Predicate), d.scratch(File::Predicate));
    let with = match combine {
        Some(combine) => Some((combine, d.predicate(&i.operands[3])?)),
        None => None,
    };
    d.plain_lanes(
        Operands { d: low, e: high, a, b, ..Operands::default() },
        two(move |a: u32, b: u32| {
            (
                half_test(format, a as u16, b as u16, comparison, flush),
                half_test(format, (a >> 16) as u16, (b >> 16) as u16, comparison, flush),
            )
        }),
    );
    finish(d, with, p, low, Some((q, high)))
}

/// `set.CmpOp{.BoolOp}.dtype.stype d, a, b{, c}`: all ones, or 1.0, if it holds.
fn set(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let comparison = comparison(w)?;
    let combine = combine(w);
    let flush = w.take("ftz");
    let (result, ty) = (w.ty()?, w.ty()?);
    d.expect_operands(i, if combine.is_some() { 4 } else { 3 })?;
    let a = d.source(&i.operands[1], ty)?;
    let b = d.source(&i.operands[2], ty)?;
    let destination = d.destination(&i.operands[0], result)?;
    let (low, high) = (d.scratch(File::Predicate), d.scratch(File::Predicate));
    let operands = Operands { d: low, e: high, a, b, ..Operands::default() };
    let packed = matches!(ty, Type::F16x2 | Type::Bf16x2);
    if packed {
        let format = if ty == Type::F16x2 { Format::F16 } else { Format::BF16 };
        d.plain_lanes(
            operands,
            two(move |a: u32, b: u32| {
                (
                    half_test(format, a as u16, b as u16, comparison, flush),
                    half_test(format, (a >> 16) as u16, (b >> 16) as u16, comparison, flush),
                )
            }),
        );
    } else {
        compare_as(d, i, ty, comparison, flush, operands)?;
    }
    if let Some(combine) = combine {
        let (c, negated) = d.predicate(&i.operands[3])?;
        combine_with(d, combine, Operands { d: low, a: low, b: c, ..Operands::default() }, negated);
        combine_with(d, combine, Operands { d: high, a: high, b: c, ..Operands::default() }, negated);
    }
    let slots = Operands { d: destination, a: low, b: high, ..Operands::default() };
    let word = |truth: u32| move |low: bool, _: bool| if low { truth } else { 0 };
    match (result, packed) {
        (Type::U32 | Type::S32, false) => d.lanes(slots, two(word(u32::MAX))),
        (Type::F32, false) => d.lanes(slots, two(word(1f32.to_bits()))),
        (Type::U16 | Type::S16, false) => d.lanes(slots, two(word(0xffff))),
        (Type::F16, false) => d.lanes(slots, two(word(0x3c00))),
        (Type::Bf16, false) => d.lanes(slots, two(word(0x3f80))),
        (_, true) => {
            let one: u32 = match result {
                Type::F16x2 => 0x3c00,
                Type::Bf16x2 => 0x3f80,
                _ => 0xffff,
            };
            d.lanes(
                slots,
                two(move |low: bool, high: bool| (u32::from(low) * one) | ((u32::from(high) * one) << 16)),
            );
        }
        _ => return Err(unsupported(i, result)),
    }
    Ok(())
}

fn select(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty, ty, Type::Pred];
    match ty.bytes() {
        2 | 4 => d.vector(i, ty, &types, three(|a: u32, b: u32, c: bool| if c { a } else { b }))?,
        8 => d.vector(i, ty, &types, three(|a: u64, b: u64, c: bool| if c { a } else { b }))?,
        _ => return Err(unsupported(i, ty)),
    }
    let predicate = d.source(&i.operands[3], Type::Pred)?;
    d.note_selection(predicate);
    Ok(())
}

/// `slct`: a if c is not negative, b otherwise. NaN chooses b.
fn select_by_sign(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let flush = w.take("ftz");
    let (ty, by) = (w.ty()?, w.ty()?);
    let types = [ty, ty, by];
    match (ty.bytes(), by) {
        (2 | 4, Type::S32) => {
            d.vector(i, ty, &types, three(|a: u32, b: u32, c: i32| if c >= 0 { a } else { b }))
        }
        (8, Type::S32) => d.vector(i, ty, &types, three(|a: u64, b: u64, c: i32| if c >= 0 { a } else { b })),
        (2 | 4, Type::F32) => d.scalar(
            i,
            ty,
            &types,
            three(move |a: u32, b: u32, c: u32| {
                let c = if flush { single::flush(c) } else { c };
                if f32::from_bits(c) >= 0.0 { a } else { b }
            }),
        ),
        (8, Type::F32) => d.scalar(
            i,
            ty,
            &types,
            three(move |a: u64, b: u64, c: u32| {
                let c = if flush { single::flush(c) } else { c };
                if f32::from_bits(c) >= 0.0 { a } else { b }
            }),
        ),
        _ => Err(unsupported(i, by)),
    }
}
