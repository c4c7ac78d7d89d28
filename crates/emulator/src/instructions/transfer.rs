//! `mov` and `cvt` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_ptx::syntax::{Instruction, Operand, Type};

use crate::decode::{DecodeError, Decoder, File, Register, Words, elements, unsupported};
use crate::lanes::{Operands, four, one, three, two};
use crate::numeric::Rounding;
use crate::numeric::convert::{self, ConvertMode, Scalar};
use crate::registers::Slot;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "mov" => copy(d, i, w),
        _ if w.take("pack") => pack(d, i, w),
        _ => convert_element(d, i, w),
    }
}

fn copy(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let is_vector = w.take("v2") || w.take("v4");
    let ty = w.ty()?;
    d.expect_operands(i, 2)?;
    if is_vector {
        return copy_elements(d, i, ty);
    }
    if let Operand::Vector(elements) = &i.operands[0] {
        return unpack(d, i, ty, elements);
    }
    if let Operand::Vector(elements) = &i.operands[1] {
        return pack_elements(d, i, ty, elements);
    }
    let source = d.source(&i.operands[1], ty)?;
    let destination = d.destination(&i.operands[0], ty)?;
    move_column(d, File::of(ty), source, destination);
    Ok(())
}

fn move_column(d: Decoder<'_, '_, '_>, file: File, from: Slot, to: Slot) {
    let operands = Operands { d: to, a: from, ..Operands::default() };
    match file {
        File::Word => d.lanes(operands, one(|a: u32| a)),
        File::Long => d.lanes(operands, one(|a: u64| a)),
        File::Quad => d.plain_lanes(operands, one(|a: u128| a)),
        File::Predicate => d.lanes(operands, one(|a: bool| a)),
    }
}

/// `mov.v2` and `mov.v4`: all sources are read before a destination is written.
fn copy_elements(d: Decoder<'_, '_, '_>, i: &Instruction, ty: Type) -> Result<(), DecodeError> {
    let (to, from) = (elements(&i.operands[0]), elements(&i.operands[1]));
    let file = File::of(ty);
    let mut copies = Vec::new();
    for operand in from {
        let source = d.source(operand, ty)?;
        let copy = d.scratch(file);
        move_column(d, file, source, copy);
        copies.push(copy);
    }
    for (operand, copy) in to.iter().zip(copies) {
        let destination = d.destination(operand, ty)?;
        move_column(d, file, copy, destination);
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

fn pack_elements(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    elements: &[Operand],
) -> Result<(), DecodeError> {
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
        _ => return Err(unsupported(i, ty)),
    }
    Ok(())
}

fn unpack(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    elements: &[Operand],
) -> Result<(), DecodeError> {
    let part = element(ty, elements.len())?;
    let source = d.source(&i.operands[1], ty)?;
    let mut slots = Vec::new();
    for element in elements {
        slots.push(d.destination(element, part)?);
    }
    for (index, pair) in slots.chunks(2).enumerate() {
        let &[first, second] = pair else { return Err(unsupported(i, ty)) };
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
                d.plain_lanes(
                    operands,
                    one(move |a: u128| ((a >> shift) as u32, (a >> (shift + 32)) as u32)),
                );
            }
            _ => return Err(unsupported(i, ty)),
        }
    }
    Ok(())
}

/// A type of `cvt`: its scalar, how many of them, and the register type that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    scalar: Scalar,
    count: u32,
    register: Type,
}

fn packed(word: &str) -> Option<Packed> {
    let integer =
        |width, signed, register| Packed { scalar: Scalar::Integer { width, signed }, count: 1, register };
    let of = |scalar, count, register| Packed { scalar, count, register };
    Some(match word {
        "u8" => integer(8, false, Type::U8),
        "s8" => integer(8, true, Type::S8),
        "u16" => integer(16, false, Type::U16),
        "s16" => integer(16, true, Type::S16),
        "u32" => integer(32, false, Type::U32),
        "s32" => integer(32, true, Type::S32),
        "u64" => integer(64, false, Type::U64),
        "s64" => integer(64, true, Type::S64),
        "f16" => of(Scalar::F16, 1, Type::F16),
        "bf16" => of(Scalar::Bf16, 1, Type::Bf16),
        "tf32" => of(Scalar::Tf32, 1, Type::B32),
        "f32" => of(Scalar::F32, 1, Type::F32),
        "f64" => of(Scalar::F64, 1, Type::F64),
        "f16x2" => of(Scalar::F16, 2, Type::B32),
        "bf16x2" => of(Scalar::Bf16, 2, Type::B32),
        "e4m3x2" => of(Scalar::E4m3, 2, Type::B16),
        "e5m2x2" => of(Scalar::E5m2, 2, Type::B16),
        "e2m3x2" => of(Scalar::E2m3, 2, Type::B16),
        "e3m2x2" => of(Scalar::E3m2, 2, Type::B16),
        "e2m1x2" => of(Scalar::E2m1, 2, Type::B8),
        "ue8m0x2" => of(Scalar::Ue8m0, 2, Type::B16),
        "e4m3x4" => of(Scalar::E4m3, 4, Type::B32),
        "e5m2x4" => of(Scalar::E5m2, 4, Type::B32),
        "e2m3x4" => of(Scalar::E2m3, 4, Type::B32),
        "e3m2x4" => of(Scalar::E3m2, 4, Type::B32),
        "e2m1x4" => of(Scalar::E2m1, 4, Type::B16),
        _ => return None,
    })
}

fn convert_element(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let (rounding, integral) = w
        .choose(&[
            ("rni", (Rounding::NearestEven, true)),
            ("rzi", (Rounding::Zero, true)),
            ("rmi", (Rounding::Down, true)),
            ("rpi", (Rounding::Up, true)),
            ("rn", (Rounding::NearestEven, false)),
            ("rz", (Rounding::Zero, false)),
            ("rm", (Rounding::Down, false)),
            ("rp", (Rounding::Up, false)),
            ("rna", (Rounding::NearestAway, false)),
        ])
        .unwrap_or_default();
    let mode = ConvertMode {
        rounding,
        integral,
        flush: w.take("ftz"),
        saturate: w.take("sat"),
        finite: w.take("satfinite"),
        relu: w.take("relu"),
    };
    let is_random = w.take("rs");
    let missing = || DecodeError::new("`cvt` names two types, of which one is missing or not known.");
    let to = w.take_first(packed).ok_or_else(missing)?;
    let from = w.take_first(packed).ok_or_else(missing)?;
    match (from.count, to.count) {
        _ if is_random => convert_randomly(d, i, to, mode),
        (1, 1) => convert_one(d, i, from, to, mode),
        (1, 2) => {
            let (from_scalar, to_scalar) = (from.scalar, to.scalar);
            d.vector(
                i,
                to.register,
                &[from.register; 2],
                two(move |a: u32, b: u32| {
                    convert::convert_pair(a.into(), b.into(), from_scalar, to_scalar, mode) as u32
                }),
            )
        }
        _ => convert_two(d, i, from, to, mode),
    }
}

/// `cvt.rs` of f32: `d, a, b, random` to a pair, `d, {a, b, e, f}, random` to four elements, of which
/// the upper half of the random bits is for a and b, and the lower half for e and f. To e2m1, each
/// half is a byte of both halves.
fn convert_randomly(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    to: Packed,
    mode: ConvertMode,
) -> Result<(), DecodeError> {
    let scalar = to.scalar;
    let pair =
        move |a: u32, b: u32, random: u32| convert::convert_randomly(a, b, random, scalar, mode) as u32;
    if to.count == 2 {
        return d.vector(i, to.register, &[Type::F32, Type::F32, Type::B32], three(pair));
    }
    d.expect_operands(i, 3)?;
    let elements = elements(&i.operands[1]);
    let [a, b, e, f] = elements else {
        return Err(DecodeError::new("`cvt.rs` to four elements converts a vector of four."));
    };
    let upper = Operands {
        d: d.scratch(File::Word),
        a: d.source(a, Type::F32)?,
        b: d.source(b, Type::F32)?,
        c: d.source(&i.operands[2], Type::B32)?,
        ..Operands::default()
    };
    let both = Operands {
        d: d.destination(&i.operands[0], to.register)?,
        a: d.source(e, Type::F32)?,
        b: d.source(f, Type::F32)?,
        c: upper.c,
        x: upper.d,
        ..Operands::default()
    };
    let (stride, half) = match scalar {
        Scalar::E2m1 => (
            8,
            (|random, lower| {
                let byte = if lower { 0 } else { 8 };
                (random >> (16 + byte) & 0xff) << 8 | random >> byte & 0xff
            }) as fn(u32, bool) -> u32,
        ),
        _ => {
            (16, (|random, lower| if lower { random & 0xffff } else { random >> 16 }) as fn(u32, bool) -> u32)
        }
    };
    d.lanes(upper, three(move |a: u32, b: u32, random: u32| pair(a, b, half(random, false))));
    d.lanes(
        both,
        four(move |e: u32, f: u32, random: u32, upper: u32| upper << stride | pair(e, f, half(random, true))),
    );
    Ok(())
}

/// `cvt` from a pair to a pair.
fn convert_two(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    from: Packed,
    to: Packed,
    mode: ConvertMode,
) -> Result<(), DecodeError> {
    if to.count != 2 {
        return Err(unsupported(i, to.register));
    }
    let stride = from.register.bytes() * 4;
    let keep = (1u64 << stride) - 1;
    d.scalar(
        i,
        to.register,
        &[from.register],
        one(move |a: u32| {
            let a = u64::from(a);
            convert::convert_pair(a >> stride & keep, a & keep, from.scalar, to.scalar, mode) as u32
        }),
    )
}

/// `cvt` of one element. Its registers may be wider than its types.
fn convert_one(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    from: Packed,
    to: Packed,
    mode: ConvertMode,
) -> Result<(), DecodeError> {
    d.expect_operands(i, 2)?;
    let source = d.wide_source(&i.operands[1], from.register)?;
    let destination = match &i.operands[0] {
        Operand::Sink => {
            Register { file: File::of(to.register), slot: d.scratch(File::of(to.register)), ty: to.register }
        }
        operand => d.wide_destination(operand)?,
    };
    let too_narrow = |register: Register, ty: Type| register.ty.bytes() < ty.bytes();
    if too_narrow(source, from.register) || too_narrow(destination, to.register) {
        return Err(DecodeError::new("A register of `cvt` is narrower than its type."));
    }
    let narrow = [from, to].map(|packed| packed.register.bytes() == 1);
    let has_bf16 = from.scalar == Scalar::Bf16 || to.scalar == Scalar::Bf16;
    if has_bf16 && (narrow[0] && source.ty.bytes() > 1 || narrow[1] && destination.ty.bytes() > 1) {
        return Err(DecodeError::new("`cvt` between bf16 and 8 bits takes a register of 8 bits."));
    }
    let slots = Operands { d: destination.slot, a: source.slot, ..Operands::default() };
    let plain =
        mode == ConvertMode { rounding: mode.rounding, integral: mode.integral, ..ConvertMode::default() };
    let simple = plain && source.file == File::of(from.register) && destination.file == File::of(to.register);
    match (from.register, to.register) {
        (Type::U32, Type::U64 | Type::S64) if simple => d.lanes(slots, one(|a: u32| u64::from(a))),
        (Type::S32, Type::U64 | Type::S64) if simple => d.lanes(slots, one(|a: i32| i64::from(a))),
        (Type::U64 | Type::S64, Type::U32 | Type::S32) if simple => d.lanes(slots, one(|a: u64| a as u32)),
        (Type::U16, Type::U32 | Type::S32) if simple => d.lanes(slots, one(|a: u16| u32::from(a))),
        (Type::S16, Type::U32 | Type::S32) if simple => d.lanes(slots, one(|a: i16| i32::from(a))),
        // In a wider register the result is extended.
        (Type::U32 | Type::S32, Type::U16 | Type::S16) if simple && destination.ty.bytes() == 2 => {
            d.lanes(slots, one(|a: u32| a as u16));
        }
        (Type::S32, Type::F32) if simple && mode.rounding == Rounding::NearestEven => {
            d.lanes(slots, one(|a: i32| a as f32));
        }
        (Type::U32, Type::F32) if simple && mode.rounding == Rounding::NearestEven => {
            d.lanes(slots, one(|a: u32| a as f32));
        }
        _ => convert_any(d, slots, source.file, destination, from, to, mode),
    }
    Ok(())
}

fn convert_any(
    d: Decoder<'_, '_, '_>,
    slots: Operands,
    source: File,
    destination: Register,
    from: Packed,
    to: Packed,
    mode: ConvertMode,
) {
    let shift = match to.scalar {
        Scalar::Integer { width, signed: true } => 64 - width,
        _ => 0,
    };
    let (from, to) = (from.scalar, to.scalar);
    // A signed result is extended to the register's width.
    let convert = move |bits: u64| ((convert::convert(bits, from, to, mode) << shift) as i64 >> shift) as u64;
    match (source, destination.file) {
        (File::Word, File::Word) => d.lanes(slots, one(move |a: u32| convert(a.into()) as u32)),
        (File::Word, _) => d.lanes(slots, one(move |a: u32| convert(a.into()))),
        (_, File::Word) => d.lanes(slots, one(move |a: u64| convert(a) as u32)),
        _ => d.lanes(slots, one(convert)),
    }
}

/// `cvt.pack.sat.ctype.s32{.b32} d, a, b{, c}`
fn pack(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("sat");
    let narrow = w.take_first(|word| {
        [
            ("u16", 16, false),
            ("s16", 16, true),
            ("u8", 8, false),
            ("s8", 8, true),
            ("u4", 4, false),
            ("s4", 4, true),
            ("u2", 2, false),
            ("s2", 2, true),
        ]
        .into_iter()
        .find(|(name, ..)| *name == word)
    });
    let (_, width, signed) = narrow.ok_or_else(|| DecodeError::new("`cvt.pack` names no narrow type."))?;
    w.ty()?;
    if w.optional_ty().is_some() {
        return d.vector(
            i,
            Type::B32,
            &[Type::S32, Type::S32, Type::B32],
            three(move |a: u32, b: u32, c: u32| convert::pack(a, b, c, width, signed)),
        );
    }
    d.vector(i, Type::B32, &[Type::S32; 2], two(move |a: u32, b: u32| convert::pack(a, b, 0, width, signed)))
}
