//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions" and "Half Precision
//! Comparison Instructions").

use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{DecodeError, Decoded, Decoder, File, Row};
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

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.base() {
        "setp" => set_predicate(d, i),
        "set" => set(d, i),
        "selp" => select(d, i),
        _ => select_by_sign(d, i),
    }
}

/// Appends a comparison of two registers. The hot ones are loops of their own.
fn compare<T: Lane + PartialOrd>(d: Decoder<'_, '_, '_>, slots: Operands, comparison: Comparison) -> Decoded {
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

/// Appends the comparison of values of a type into a predicate, of pairs into two.
fn compare_as(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type, slots: Operands) -> Decoded {
    let comparison = i.must("comparison", &COMPARISONS)?;
    let flush = i.has("ftz");
    let format = if matches!(ty, Type::F16 | Type::F16x2) { Format::F16 } else { Format::BF16 };
    let test = move |a: u32, b: u32| half_test(format, a as u16, b as u16, comparison, flush);
    // Integers are ordered, so `ne` is simply `!=` for them.
    let whole = if comparison == Comparison::NotEqual { Comparison::NotEqualUnordered } else { comparison };
    match ty {
        Type::F32 if flush => d.plain_lanes(
            slots,
            two(move |a: u32, b: u32| {
                comparison.test(f32::from_bits(single::flush(a)), f32::from_bits(single::flush(b)))
            }),
        ),
        Type::F32 => compare::<f32>(d, slots, comparison),
        Type::F64 => compare::<f64>(d, slots, comparison),
        Type::F16 | Type::Bf16 => d.plain_lanes(slots, two(test)),
        Type::F16x2 | Type::Bf16x2 => {
            d.plain_lanes(slots, two(move |a: u32, b: u32| (test(a, b), test(a >> 16, b >> 16))))
        }
        _ => by_type!(i, ty, [i16, i32, i64, u16, u32, u64], compare::<T>(d, slots, whole)),
    }
}

fn half_test(format: Format, a: u16, b: u16, comparison: Comparison, flush: bool) -> bool {
    let value = |bits: u16| format.decode(u32::from(if flush { half::flush(format, bits) } else { bits }));
    comparison.test(value(a), value(b))
}

fn is_pair(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2)
}

/// How the instruction combines its results with its last operand: with a predicate, or its negation.
fn combination(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<Option<(Combine, Slot, bool)>, DecodeError> {
    let how = i.choose(&[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)]);
    let Some(how) = how else { return Ok(None) };
    let (slot, negated) = d.predicate(i.operand(3)?)?;
    Ok(Some((how, slot, negated)))
}

/// Appends `p = p combined with c`, if there is a combination.
fn combine(d: Decoder<'_, '_, '_>, with: Option<(Combine, Slot, bool)>, p: Slot) -> Decoded {
    let Some((how, c, negated)) = with else { return Ok(()) };
    let slots = Operands { d: p, a: p, b: c, ..Operands::default() };
    match how {
        Combine::And => d.lanes(slots, two(move |p: bool, c: bool| p & (c != negated)))?,
        Combine::Or => d.lanes(slots, two(move |p: bool, c: bool| p | (c != negated)))?,
        Combine::Xor => d.lanes(slots, two(move |p: bool, c: bool| p ^ (c != negated)))?,
    }
    d.note_predicates([(c, negated); 2]);
    Ok(())
}

/// `setp.CmpOp{.BoolOp}.type p{|q}, a, b{, c}`: p = (a CmpOp b) BoolOp c, q = !(a CmpOp b) BoolOp c. Of
/// pairs p is for the low half, q for the high one.
fn set_predicate(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let ty = i.ty()?;
    let mut slots = Operands { a: d.source_at(i, 1)?, b: d.source_at(i, 2)?, ..Operands::default() };
    let (p, q) = match &i.operands[0] {
        Operand::Pair(p, q) => (d.destination(p, Type::Pred)?, Some(d.destination(q, Type::Pred)?)),
        p => (d.destination(p, Type::Pred)?, None),
    };
    let with = combination(d, i)?;
    if with.is_none() && q.is_none() {
        return compare_as(d, i, ty, Operands { d: p, ..slots });
    }
    (slots.d, slots.e) = (d.scratch(File::Predicate), d.scratch(File::Predicate));
    compare_as(d, i, ty, slots)?;
    let mut results = vec![(p, slots.d)];
    if let Some(q) = q {
        if !is_pair(ty) {
            let opposite = Operands { d: slots.e, a: slots.d, ..Operands::default() };
            d.lanes(opposite, one(|p: bool| !p))?;
        }
        results.push((q, slots.e));
    }
    // The destinations may include the combined predicate, so both combinations come first.
    results.iter().try_for_each(|(_, from)| combine(d, with, *from))?;
    results.into_iter().try_for_each(|(to, from)| {
        d.lanes(Operands { d: to, a: from, ..Operands::default() }, one(|p: bool| p))
    })
}

/// `set.CmpOp{.BoolOp}.dtype.stype d, a, b{, c}`: all ones, or 1.0, if it holds.
fn set(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (result, ty) = i.two_types()?;
    let (a, b) = (d.source_at(i, 1)?, d.source_at(i, 2)?);
    let destination = d.destination_at(i, 0)?;
    let with = combination(d, i)?;
    let (low, high) = (d.scratch(File::Predicate), d.scratch(File::Predicate));
    compare_as(d, i, ty, Operands { d: low, e: high, a, b, ..Operands::default() })?;
    combine(d, with, low)?;
    let one: u32 = match result {
        Type::F32 => 1f32.to_bits(),
        Type::F16 | Type::F16x2 => 0x3c00,
        Type::Bf16 | Type::Bf16x2 => 0x3f80,
        Type::U32 | Type::S32 if !is_pair(ty) => u32::MAX,
        _ => 0xffff,
    };
    let slots = Operands { d: destination, a: low, b: high, ..Operands::default() };
    if !is_pair(ty) {
        return d.lanes(slots, two(move |low: bool, _: bool| if low { one } else { 0 }));
    }
    combine(d, with, high)?;
    d.lanes(slots, two(move |low: bool, high: bool| (u32::from(low) * one) | (u32::from(high) * one) << 16))
}

fn select(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let slots = d.slots(i)?;
    match i.ty()?.bytes() {
        8 => d.lanes(slots, three(|a: u64, b: u64, c: bool| if c { a } else { b }))?,
        _ => d.lanes(slots, three(|a: u32, b: u32, c: bool| if c { a } else { b }))?,
    }
    d.note_predicates([(slots.c, false); 2]);
    Ok(())
}

/// `slct`: a if c is not negative, b otherwise. NaN chooses b.
fn select_by_sign(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (ty, by) = i.two_types()?;
    let flush = i.has("ftz");
    let holds = move |c: u32| f32::from_bits(if flush { single::flush(c) } else { c }) >= 0.0;
    match (ty.bytes(), by) {
        (8, Type::S32) => d.vector(i, three(|a: u64, b: u64, c: i32| if c >= 0 { a } else { b })),
        (8, _) => d.scalar(i, three(move |a: u64, b: u64, c: u32| if holds(c) { a } else { b })),
        (_, Type::S32) => d.vector(i, three(|a: u32, b: u32, c: i32| if c >= 0 { a } else { b })),
        _ => d.scalar(i, three(move |a: u32, b: u32, c: u32| if holds(c) { a } else { b })),
    }
}
