//! `mov` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{DecodeError, Decoded, Decoder, File, Row, elements};
use crate::lanes::{Operands, four, one, two};
use crate::registers::Slot;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let ty = i.ty()?;
    match (&i.operands[0], &i.operands[1]) {
        _ if i.has("v2") || i.has("v4") => copy_elements(d, i, ty),
        (Operand::Vector(elements), _) if elements.len() > 1 => unpack(d, i, ty, elements),
        (_, Operand::Vector(elements)) if elements.len() > 1 => pack(d, i, ty, elements),
        (to, from) => {
            let source = d.source(from, ty)?;
            let destination = d.destination(to, ty)?;
            move_column(d, File::of(ty), source, destination)
        }
    }
}

fn move_column(d: Decoder<'_, '_, '_>, file: File, from: Slot, to: Slot) -> Decoded {
    let operands = Operands { d: to, a: from, ..Operands::default() };
    match file {
        File::Word => d.lanes(operands, one(|a: u32| a)),
        File::Long => d.lanes(operands, one(|a: u64| a)),
        File::Quad => d.plain_lanes(operands, one(|a: u128| a)),
        File::Predicate => d.lanes(operands, one(|a: bool| a)),
    }
}

/// `mov.v2` and `mov.v4`: all sources are read before a destination is written.
fn copy_elements(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type) -> Decoded {
    let (to, from) = (elements(&i.operands[0]), elements(&i.operands[1]));
    let file = File::of(ty);
    let mut copies = Vec::new();
    for operand in from {
        let source = d.source(operand, ty)?;
        let copy = d.scratch(file);
        move_column(d, file, source, copy)?;
        copies.push(copy);
    }
    for (operand, copy) in to.iter().zip(copies) {
        let destination = d.destination(operand, ty)?;
        move_column(d, file, copy, destination)?;
    }
    Ok(())
}

/// The element type of a value of a type divided into `count` parts.
fn element(ty: Type, count: usize) -> Result<Type, DecodeError> {
    match ty.bytes() as usize / count.max(1) {
        1 => Ok(Type::B8),
        2 => Ok(Type::B16),
        4 => Ok(Type::B32),
        8 => Ok(Type::B64),
        _ => Err(DecodeError::new(format!(
            "A value of type .{} cannot be cut into {count} elements.",
            ty.word()
        ))),
    }
}

fn pack(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type, elements: &[Operand]) -> Decoded {
    let part = element(ty, elements.len())?;
    let mut slots = Operands { d: d.destination(&i.operands[0], ty)?, ..Operands::default() };
    let mut sources = [0; 4];
    for (slot, operand) in sources.iter_mut().zip(elements) {
        *slot = d.source(operand, part)?;
    }
    [slots.a, slots.b, slots.c, slots.x] = sources;
    match (ty.bytes(), elements.len()) {
        (2, 2) => d.lanes(slots, two(|a: u8, b: u8| u16::from(a) | u16::from(b) << 8)),
        (4, 2) => d.lanes(slots, two(|a: u16, b: u16| u32::from(a) | u32::from(b) << 16)),
        (4, 4) => d.lanes(slots, four(|a: u8, b: u8, c: u8, x: u8| u32::from_le_bytes([a, b, c, x]))),
        (8, 2) => d.lanes(slots, two(|a: u32, b: u32| u64::from(a) | u64::from(b) << 32)),
        (8, 4) => d.lanes(
            slots,
            four(|a: u16, b: u16, c: u16, x: u16| {
                u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(x) << 48
            }),
        ),
        (16, 2) => d.plain_lanes(slots, two(|a: u64, b: u64| u128::from(a) | u128::from(b) << 64)),
        (16, 4) => d.plain_lanes(
            slots,
            four(|a: u32, b: u32, c: u32, x: u32| {
                u128::from(a) | u128::from(b) << 32 | u128::from(c) << 64 | u128::from(x) << 96
            }),
        ),
        _ => Err(i.unsupported()),
    }
}

fn unpack(d: Decoder<'_, '_, '_>, i: &Row<'_>, ty: Type, elements: &[Operand]) -> Decoded {
    let part = element(ty, elements.len())?;
    let source = d.source(&i.operands[1], ty)?;
    let mut slots = Vec::new();
    for element in elements {
        slots.push(d.destination(element, part)?);
    }
    for (index, pair) in slots.chunks(2).enumerate() {
        let &[first, second] = pair else { return Err(i.unsupported()) };
        let operands = Operands { d: first, e: second, a: source, ..Operands::default() };
        let shift = index as u32 * 2 * 8 * part.bytes();
        match (ty.bytes(), part) {
            (2, Type::B8) => d.lanes(operands, one(|a: u16| (a as u8, (a >> 8) as u8))),
            (4, Type::B16) => d.lanes(operands, one(|a: u32| (a as u16, (a >> 16) as u16))),
            (4, Type::B8) => {
                d.lanes(operands, one(move |a: u32| ((a >> shift) as u8, (a >> (shift + 8)) as u8)))
            }
            (8, Type::B32) => d.lanes(operands, one(|a: u64| (a as u32, (a >> 32) as u32))),
            (8, Type::B16) => {
                d.lanes(operands, one(move |a: u64| ((a >> shift) as u16, (a >> (shift + 16)) as u16)))
            }
            (16, Type::B64) => d.plain_lanes(operands, one(|a: u128| (a as u64, (a >> 64) as u64))),
            (16, Type::B32) => {
                d.plain_lanes(operands, one(move |a: u128| ((a >> shift) as u32, (a >> (shift + 32)) as u32)))
            }
            _ => return Err(i.unsupported()),
        }?;
    }
    Ok(())
}
