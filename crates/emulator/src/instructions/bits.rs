//! Logic, shifts and bit fields (PTX ISA, "Logic and Shift Instructions" and the bit instructions
//! of "Integer Arithmetic Instructions").

use warpwright_ptx::syntax::{Instruction, Number, Operand, Type};

use crate::decode::{DecodeError, Decoder, Words, unsupported};
use crate::lanes::{Operands, four, one, three, two};
use crate::numeric::bits::{self, PermuteMode};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "and" | "or" | "xor" | "not" | "cnot" => logic(d, i, w),
        "lop3" => logic_of_three(d, i, w),
        "shl" | "shr" => shift(d, i, w),
        "shf" => funnel_shift(d, i, w),
        "bfe" => extract(d, i, w),
        "bfi" => insert(d, i, w),
        "bfind" => find(d, i, w),
        "brev" | "clz" | "popc" => count(d, i, w),
        "fns" => {
            w.ty()?;
            d.scalar(i, Type::B32, &[Type::B32, Type::B32, Type::S32], three(bits::fns))
        }
        "bmsk" => {
            let wrap = w.choose(&[("clamp", false), ("wrap", true)]).unwrap_or(false);
            w.ty()?;
            d.vector(i, Type::B32, &[Type::U32; 2], two(move |a: u32, b: u32| bits::bmsk(a, b, wrap)))
        }
        "szext" => {
            let wrap = w.choose(&[("clamp", false), ("wrap", true)]).unwrap_or(false);
            let ty = w.ty()?;
            let signed = ty == Type::S32;
            d.vector(i, ty, &[ty, Type::U32], two(move |a: u32, b: u32| bits::szext(a, b, signed, wrap)))
        }
        _ => permute(d, i, w),
    }
}

fn logic(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty, ty];
    match (i.opcode.base(), ty) {
        ("and", Type::Pred) => d.vector(i, ty, &types, two(|a: bool, b: bool| a & b)),
        ("or", Type::Pred) => d.vector(i, ty, &types, two(|a: bool, b: bool| a | b)),
        ("xor", Type::Pred) => d.vector(i, ty, &types, two(|a: bool, b: bool| a ^ b)),
        ("not", Type::Pred) => d.vector(i, ty, &types[..1], one(|a: bool| !a)),
        ("and", Type::B16) => d.vector(i, ty, &types, two(|a: u16, b: u16| a & b)),
        ("or", Type::B16) => d.vector(i, ty, &types, two(|a: u16, b: u16| a | b)),
        ("xor", Type::B16) => d.vector(i, ty, &types, two(|a: u16, b: u16| a ^ b)),
        ("not", Type::B16) => d.vector(i, ty, &types[..1], one(|a: u16| !a)),
        ("cnot", Type::B16) => d.vector(i, ty, &types[..1], one(|a: u16| u16::from(a == 0))),
        ("and", Type::B32) => d.vector(i, ty, &types, two(|a: u32, b: u32| a & b)),
        ("or", Type::B32) => d.vector(i, ty, &types, two(|a: u32, b: u32| a | b)),
        ("xor", Type::B32) => d.vector(i, ty, &types, two(|a: u32, b: u32| a ^ b)),
        ("not", Type::B32) => d.vector(i, ty, &types[..1], one(|a: u32| !a)),
        ("cnot", Type::B32) => d.vector(i, ty, &types[..1], one(|a: u32| u32::from(a == 0))),
        ("and", Type::B64) => d.vector(i, ty, &types, two(|a: u64, b: u64| a & b)),
        ("or", Type::B64) => d.vector(i, ty, &types, two(|a: u64, b: u64| a | b)),
        ("xor", Type::B64) => d.vector(i, ty, &types, two(|a: u64, b: u64| a ^ b)),
        ("not", Type::B64) => d.vector(i, ty, &types[..1], one(|a: u64| !a)),
        ("cnot", Type::B64) => d.vector(i, ty, &types[..1], one(|a: u64| u64::from(a == 0))),
        _ => Err(unsupported(i, ty)),
    }
}

/// `lop3.b32`, and its form that also combines whether the result is not zero with a predicate.
fn logic_of_three(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let combine = w.choose(&[("or", false), ("and", true)]);
    w.ty()?;
    let Some(Operand::Number(Number::Integer(table))) = i.operands.get(4) else {
        return Err(DecodeError::new("The table of `lop3` must be a number from 0 to 255."));
    };
    let table = *table as u8;
    let mut slots = Operands {
        a: d.source(d.operand(&i.operands, 1)?, Type::B32)?,
        b: d.source(d.operand(&i.operands, 2)?, Type::B32)?,
        c: d.source(d.operand(&i.operands, 3)?, Type::B32)?,
        ..Operands::default()
    };
    let Some(and) = combine else {
        d.expect_operands(i, 5)?;
        slots.d = d.destination(&i.operands[0], Type::B32)?;
        d.lanes(slots, three(move |a: u32, b: u32, c: u32| bits::lop3(a, b, c, table)));
        return Ok(());
    };
    d.expect_operands(i, 6)?;
    let (predicate, negated) = d.predicate(&i.operands[5])?;
    slots.x = predicate;
    match &i.operands[0] {
        Operand::Pair(value, truth) => {
            slots.d = d.destination(value, Type::B32)?;
            slots.e = d.destination(truth, Type::Pred)?;
        }
        _ => return Err(DecodeError::new("This form of `lop3` has two destinations, `d|p`.")),
    }
    d.lanes(
        slots,
        four(move |a: u32, b: u32, c: u32, q: bool| {
            let result = bits::lop3(a, b, c, table);
            let (set, q) = (result != 0, q != negated);
            (result, if and { set & q } else { set | q })
        }),
    );
    Ok(())
}

fn shift(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty, Type::U32];
    match (i.opcode.base(), ty) {
        ("shl", Type::B16) => d.vector(i, ty, &types, two(bits::shl_b16)),
        ("shl", Type::B32) => d.vector(i, ty, &types, two(bits::shl_b32)),
        ("shl", Type::B64) => d.vector(i, ty, &types, two(bits::shl_b64)),
        ("shr", Type::B16 | Type::U16) => d.vector(i, ty, &types, two(bits::shr_u16)),
        ("shr", Type::B32 | Type::U32) => d.vector(i, ty, &types, two(bits::shr_u32)),
        ("shr", Type::B64 | Type::U64) => d.vector(i, ty, &types, two(bits::shr_u64)),
        ("shr", Type::S16) => d.vector(i, ty, &types, two(bits::shr_s16)),
        ("shr", Type::S32) => d.vector(i, ty, &types, two(bits::shr_s32)),
        ("shr", Type::S64) => d.vector(i, ty, &types, two(bits::shr_s64)),
        _ => Err(unsupported(i, ty)),
    }
}

fn funnel_shift(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let left = w.choose(&[("l", true), ("r", false)]);
    let wrap = w.choose(&[("wrap", true), ("clamp", false)]).unwrap_or(false);
    w.ty()?;
    let types = [Type::B32, Type::B32, Type::U32];
    match left {
        Some(true) => {
            d.vector(i, Type::B32, &types, three(move |a: u32, b: u32, c: u32| bits::shf_left(a, b, c, wrap)))
        }
        Some(false) => d.vector(
            i,
            Type::B32,
            &types,
            three(move |a: u32, b: u32, c: u32| bits::shf_right(a, b, c, wrap)),
        ),
        None => Err(DecodeError::new("`shf` names no direction, .l or .r.")),
    }
}

fn extract(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let signed = matches!(ty, Type::S32 | Type::S64);
    let types = [ty, Type::U32, Type::U32];
    match ty {
        Type::U32 | Type::S32 => {
            d.vector(i, ty, &types, three(move |a: u32, b: u32, c: u32| bits::bfe_b32(a, b, c, signed)))
        }
        Type::U64 | Type::S64 => {
            d.vector(i, ty, &types, three(move |a: u64, b: u32, c: u32| bits::bfe_b64(a, b, c, signed)))
        }
        _ => Err(unsupported(i, ty)),
    }
}

fn insert(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let types = [ty, ty, Type::U32, Type::U32];
    match ty {
        Type::B32 => d.vector(i, ty, &types, four(bits::bfi_b32)),
        Type::B64 => d.vector(i, ty, &types, four(bits::bfi_b64)),
        _ => Err(unsupported(i, ty)),
    }
}

fn find(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let amount = w.take("shiftamt");
    let ty = w.ty()?;
    let signed = matches!(ty, Type::S32 | Type::S64);
    match ty {
        Type::U32 | Type::S32 => {
            d.vector(i, Type::U32, &[ty], one(move |a: u32| bits::bfind_b32(a, signed, amount)))
        }
        Type::U64 | Type::S64 => {
            d.vector(i, Type::U32, &[ty], one(move |a: u64| bits::bfind_b64(a, signed, amount)))
        }
        _ => Err(unsupported(i, ty)),
    }
}

fn count(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    match (i.opcode.base(), ty) {
        ("brev", Type::B32) => d.vector(i, ty, &[ty], one(|a: u32| a.reverse_bits())),
        ("brev", Type::B64) => d.vector(i, ty, &[ty], one(|a: u64| a.reverse_bits())),
        ("clz", Type::B32) => d.vector(i, Type::U32, &[ty], one(|a: u32| a.leading_zeros())),
        ("clz", Type::B64) => d.vector(i, Type::U32, &[ty], one(|a: u64| a.leading_zeros())),
        ("popc", Type::B32) => d.vector(i, Type::U32, &[ty], one(|a: u32| a.count_ones())),
        ("popc", Type::B64) => d.vector(i, Type::U32, &[ty], one(|a: u64| a.count_ones())),
        _ => Err(unsupported(i, ty)),
    }
}

fn permute(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    let mode = w
        .choose(&[
            ("f4e", PermuteMode::Forward4),
            ("b4e", PermuteMode::Backward4),
            ("rc8", PermuteMode::Replicate8),
            ("ecl", PermuteMode::EdgeLeft),
            ("ecr", PermuteMode::EdgeRight),
            ("rc16", PermuteMode::Replicate16),
        ])
        .unwrap_or(PermuteMode::Index);
    if mode == PermuteMode::Index {
        return d.vector(
            i,
            ty,
            &[Type::B32; 3],
            three(|a: u32, b: u32, c: u32| bits::prmt(a, b, c, PermuteMode::Index)),
        );
    }
    d.scalar(i, ty, &[Type::B32; 3], three(move |a: u32, b: u32, c: u32| bits::prmt(a, b, c, mode)))
}
