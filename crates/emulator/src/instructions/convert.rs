//! `cvt` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{DecodeError, Decoded, Decoder, File, Register, Row};
use crate::lanes::{Operands, four, one, three, two};
use crate::numeric::Rounding;
use crate::numeric::convert::{self, ConvertMode, Scalar};

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

fn mode(i: &Row<'_>) -> ConvertMode {
    let rounding = i.choose(&[
        ("rni", (Rounding::NearestEven, true)),
        ("rzi", (Rounding::Zero, true)),
        ("rmi", (Rounding::Down, true)),
        ("rpi", (Rounding::Up, true)),
        ("rn", (Rounding::NearestEven, false)),
        ("rz", (Rounding::Zero, false)),
        ("rm", (Rounding::Down, false)),
        ("rp", (Rounding::Up, false)),
        ("rna", (Rounding::NearestAway, false)),
    ]);
    let (rounding, integral) = rounding.unwrap_or_default();
    ConvertMode {
        rounding,
        integral,
        flush: i.has("ftz"),
        saturate: i.has("sat"),
        finite: i.has("satfinite"),
        relu: i.has("relu"),
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("pack") {
        return pack(d, i);
    }
    let (mode, mut types) = (mode(i), i.all(packed));
    let (to, from) = types.next().zip(types.next()).ok_or_else(|| i.names_no("second type"))?;
    match (from.count, to.count) {
        _ if i.has("rs") => convert_randomly(d, i, to, mode),
        (1, 1) => convert_one(d, i, from, to, mode),
        (1, 2) => {
            let (from, to) = (from.scalar, to.scalar);
            let pair = move |a: u32, b: u32| convert::convert_pair(a.into(), b.into(), from, to, mode) as u32;
            d.vector(i, two(pair))
        }
        _ => convert_two(d, i, from, to, mode),
    }
}

/// `cvt.rs` of f32: `d, a, b, random` to a pair, `d, {a, b, e, f}, random` to four elements, of which
/// the upper half of the random bits is for a and b, and the lower half for e and f. To e2m1, each
/// half is a byte of both halves.
fn convert_randomly(d: Decoder<'_, '_, '_>, i: &Row<'_>, to: Packed, mode: ConvertMode) -> Decoded {
    let scalar = to.scalar;
    let pair =
        move |a: u32, b: u32, random: u32| convert::convert_randomly(a, b, random, scalar, mode) as u32;
    if to.count == 2 {
        return d.vector(i, three(pair));
    }
    let [a, b, e, f] = d.sources_at(i, 1)?[..] else { return Err(i.unsupported()) };
    let (half_result, random) = (d.scratch(File::Word), d.source_at(i, 2)?);
    let upper = Operands { d: half_result, a, b, c: random, ..Operands::default() };
    let both = Operands { d: d.destination_at(i, 0)?, a: e, b: f, c: random, x: half_result, e: 0 };
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
    d.lanes(upper, three(move |a: u32, b: u32, random: u32| pair(a, b, half(random, false))))?;
    d.lanes(
        both,
        four(move |e: u32, f: u32, random: u32, upper: u32| upper << stride | pair(e, f, half(random, true))),
    )
}

/// `cvt` from a pair to a pair.
fn convert_two(d: Decoder<'_, '_, '_>, i: &Row<'_>, from: Packed, to: Packed, mode: ConvertMode) -> Decoded {
    if to.count != 2 {
        return Err(i.unsupported());
    }
    let stride = from.register.bytes() * 4;
    let keep = (1u64 << stride) - 1;
    d.scalar(
        i,
        one(move |a: u32| {
            let a = u64::from(a);
            convert::convert_pair(a >> stride & keep, a & keep, from.scalar, to.scalar, mode) as u32
        }),
    )
}

/// `cvt` of one element. Its registers may be wider than its types.
fn convert_one(d: Decoder<'_, '_, '_>, i: &Row<'_>, from: Packed, to: Packed, mode: ConvertMode) -> Decoded {
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
            d.lanes(slots, one(|a: u32| a as u16))
        }
        (Type::S32, Type::F32) if simple && mode.rounding == Rounding::NearestEven => {
            d.lanes(slots, one(|a: i32| a as f32))
        }
        (Type::U32, Type::F32) if simple && mode.rounding == Rounding::NearestEven => {
            d.lanes(slots, one(|a: u32| a as f32))
        }
        _ => convert_any(d, slots, source.file, destination, from, to, mode),
    }
}

fn convert_any(
    d: Decoder<'_, '_, '_>,
    slots: Operands,
    source: File,
    destination: Register,
    from: Packed,
    to: Packed,
    mode: ConvertMode,
) -> Decoded {
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
fn pack(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let narrow = [
        ("u16", (16, false)),
        ("s16", (16, true)),
        ("u8", (8, false)),
        ("s8", (8, true)),
        ("u4", (4, false)),
        ("s4", (4, true)),
        ("u2", (2, false)),
        ("s2", (2, true)),
    ];
    let (width, signed) = i.must("narrow type", &narrow)?;
    if i.operands.len() == 4 {
        return d.vector(i, three(move |a: u32, b: u32, c: u32| convert::pack(a, b, c, width, signed)));
    }
    d.vector(i, two(move |a: u32, b: u32| convert::pack(a, b, 0, width, signed)))
}
