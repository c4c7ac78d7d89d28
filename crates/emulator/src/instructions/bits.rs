//! Logic, shifts and bit fields (PTX ISA, "Logic and Shift Instructions" and the bit instructions
//! of "Integer Arithmetic Instructions").

use warpwright_ptx::syntax::Type;

use crate::decode::{Decoded, Decoder, Row};
use crate::lanes::{four, one, three, two};
use crate::numeric::bits::{self, PermuteMode};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let ty = i.ty()?;
    let (wrap, signed) = (i.has("wrap"), matches!(ty, Type::S32 | Type::S64));
    match i.base() {
        "and" | "or" if ty == Type::Pred => logic_of_predicates(d, i),
        "and" => by_type!(i, ty, [u16, u32, u64], d.vector(i, two(|a: T, b: T| a & b))),
        "or" => by_type!(i, ty, [u16, u32, u64], d.vector(i, two(|a: T, b: T| a | b))),
        "xor" => by_type!(i, ty, [bool, u16, u32, u64], d.vector(i, two(|a: T, b: T| a ^ b))),
        "not" => by_type!(i, ty, [bool, u16, u32, u64], d.vector(i, one(|a: T| !a))),
        "cnot" => by_type!(i, ty, [u16, u32, u64], d.vector(i, one(|a: T| T::from(a == 0)))),
        "lop3" => logic_of_three(d, i),
        "shl" | "shr" => shift(d, i, ty),
        "shf" if i.has("l") => {
            d.vector(i, three(move |a: u32, b: u32, c: u32| bits::shf_left(a, b, c, wrap)))
        }
        "shf" => d.vector(i, three(move |a: u32, b: u32, c: u32| bits::shf_right(a, b, c, wrap))),
        "bfe" if ty.bytes() == 4 => {
            d.vector(i, three(move |a: u32, b: u32, c: u32| bits::bfe_b32(a, b, c, signed)))
        }
        "bfe" => d.vector(i, three(move |a: u64, b: u32, c: u32| bits::bfe_b64(a, b, c, signed))),
        "bfi" if ty.bytes() == 4 => d.vector(i, four(bits::bfi_b32)),
        "bfi" => d.vector(i, four(bits::bfi_b64)),
        "bfind" => {
            let amount = i.has("shiftamt");
            match ty.bytes() {
                4 => d.vector(i, one(move |a: u32| bits::bfind_b32(a, signed, amount))),
                _ => d.vector(i, one(move |a: u64| bits::bfind_b64(a, signed, amount))),
            }
        }
        "brev" => by_type!(i, ty, [u32, u64], d.vector(i, one(T::reverse_bits))),
        "clz" => by_type!(i, ty, [u32, u64], d.vector(i, one(T::leading_zeros))),
        "popc" => by_type!(i, ty, [u32, u64], d.vector(i, one(T::count_ones))),
        "fns" => d.scalar(i, three(bits::fns)),
        "bmsk" => d.vector(i, two(move |a: u32, b: u32| bits::bmsk(a, b, wrap))),
        "szext" => d.vector(i, two(move |a: u32, b: u32| bits::szext(a, b, signed, wrap))),
        "prmt" => permute(d, i),
        _ => Err(i.unsupported()),
    }
}

fn logic_of_predicates(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let slots = d.slots(i)?;
    match i.base() {
        "and" => d.lanes(slots, two(|a: bool, b: bool| a & b))?,
        _ => d.lanes(slots, two(|a: bool, b: bool| a | b))?,
    }
    d.note_predicates([(slots.a, false), (slots.b, false)]);
    Ok(())
}

/// `lop3.b32`, and its form that also combines whether the result is not zero with a predicate.
fn logic_of_three(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let table = i.literal(4)? as u8;
    let logic = move |a: u32, b: u32, c: u32| bits::lop3(a, b, c, table);
    let Some(and) = i.choose(&[("or", false), ("and", true)]) else {
        return d.vector(i, three(logic));
    };
    d.vector(
        i,
        four(move |a: u32, b: u32, c: u32, q: bool| {
            let result = logic(a, b, c);
            let set = result != 0;
            (result, if and { set & q } else { set | q })
        }),
    )
}

fn shift(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type) -> Decoded {
    match (i.base(), ty) {
        ("shl", Type::B16) => d.vector(i, two(bits::shl_b16)),
        ("shl", Type::B32) => d.vector(i, two(bits::shl_b32)),
        ("shl", Type::B64) => d.vector(i, two(bits::shl_b64)),
        ("shr", Type::B16 | Type::U16) => d.vector(i, two(bits::shr_u16)),
        ("shr", Type::B32 | Type::U32) => d.vector(i, two(bits::shr_u32)),
        ("shr", Type::B64 | Type::U64) => d.vector(i, two(bits::shr_u64)),
        ("shr", Type::S16) => d.vector(i, two(bits::shr_s16)),
        ("shr", Type::S32) => d.vector(i, two(bits::shr_s32)),
        ("shr", Type::S64) => d.vector(i, two(bits::shr_s64)),
        _ => Err(i.unsupported()),
    }
}

fn permute(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let mode = i.choose(&[
        ("f4e", PermuteMode::Forward4),
        ("b4e", PermuteMode::Backward4),
        ("rc8", PermuteMode::Replicate8),
        ("ecl", PermuteMode::EdgeLeft),
        ("ecr", PermuteMode::EdgeRight),
        ("rc16", PermuteMode::Replicate16),
    ]);
    match mode {
        None => d.vector(i, three(|a: u32, b: u32, c: u32| bits::prmt(a, b, c, PermuteMode::Index))),
        Some(mode) => d.scalar(i, three(move |a: u32, b: u32, c: u32| bits::prmt(a, b, c, mode))),
    }
}
