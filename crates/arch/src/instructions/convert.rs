//! Moves and conversions (PTX ISA, "Data Movement and Conversion Instructions": `mov`, `cvt`,
//! `cvta`, and their like).

use super::Class::*;
use super::Pipe::Alu;
use super::availability::{BLACKWELL, STOCHASTIC};
use super::{Form, form};

pub(super) const FORMS: &[Form] = &[
    form(Move, "mov .T:$registers", "T = T"),
    form(Move, "mov .V:v2|v4 .T:$registers", "{T*V:128} = {T*V:128}"),
    form(Move, "mov .pred", "pred = pred"),
    form(Move, "mov .pred", "pred = #"),
    form(Move, "mov .T:b32|b64|u32|u64|s32|s64", "T = sym"),
    form(Move, "mov .b16", "b16 = {b8*2}"),
    form(Move, "mov .b32", "b32 = {b8*4}"),
    form(Move, "mov .b32", "b32 = {b16*2}"),
    form(Move, "mov .b64", "b64 = {b16*4}"),
    form(Move, "mov .b64", "b64 = {b32*2}"),
    form(Move, "mov .b128", "b128 = {b64*2}").since((8, 3), 70),
    form(Move, "mov .b128", "b128 = {b32*4}").since((8, 3), 70),
    form(Move, "mov .b16", "{b8_*2} = b16!"),
    form(Move, "mov .b32", "{b8_*4} = b32!"),
    form(Move, "mov .b32", "{b16_*2} = b32!"),
    form(Move, "mov .b64", "{b16_*4} = b64!"),
    form(Move, "mov .b64", "{b32_*2} = b64!"),
    form(Move, "mov .b128", "{b64_*2} = b128").since((8, 3), 70),
    form(Move, "mov .b128", "{b32_*4} = b128").since((8, 3), 70),
    form(Move, "mov .b128", "b128 = b128").since((8, 3), 70),
    form(Conversion, "cvt .D:$integers8 .S:$integers8", "D+ = S+").on(Alu),
    // Saturation is for sources whose range the destination does not hold.
    form(Conversion, "cvt .sat .u8 .S:u16|u32|u64|s8|s16|s32|s64", "u8+ = S+").on(Alu),
    form(Conversion, "cvt .sat .u16 .S:u32|u64|s8|s16|s32|s64", "u16+ = S+").on(Alu),
    form(Conversion, "cvt .sat .u32 .S:u64|s8|s16|s32|s64", "u32+ = S+").on(Alu),
    form(Conversion, "cvt .sat .u64 .S:s8|s16|s32|s64", "u64+ = S+").on(Alu),
    form(Conversion, "cvt .sat .s8 .S:u8|u16|u32|u64|s16|s32|s64", "s8+ = S+").on(Alu),
    form(Conversion, "cvt .sat .s16 .S:u16|u32|u64|s32|s64", "s16+ = S+").on(Alu),
    form(Conversion, "cvt .sat .s32 .S:u32|u64|s64", "s32+ = S+").on(Alu),
    form(Conversion, "cvt .sat .s64 .S:u64", "s64+ = S+").on(Alu),
    form(Conversion, "cvt .$integral .sat? .D:$integers8 .S:f16|f64", "D+ = S!"),
    form(Conversion, "cvt .$integral .ftz? .sat? .D:$integers8 .f32", "D+ = f32!"),
    form(Conversion, "cvt .$integral .D:$integers16 .bf16", "D = bf16").since((7, 8), 90),
    // ptxas takes a register of 8 bits and no wider one.
    form(Conversion, "cvt .$integral .D:u8|s8 .bf16", "D = bf16").since((7, 8), 90),
    form(Conversion, "cvt .$rounding .sat? .D:f16|f64 .S:$integers8", "D = S!+"),
    form(Conversion, "cvt .$rounding .ftz? .sat? .f32 .S:$integers8", "f32 = S!+"),
    form(Conversion, "cvt .$rounding .bf16 .S:$integers16", "bf16 = S!").since((7, 8), 90),
    form(Conversion, "cvt .$rounding .bf16 .S:u8|s8", "bf16 = S!").since((7, 8), 90),
    form(Conversion, "cvt .ftz? .sat? .f32 .f16", "f32 = f16"),
    form(Conversion, "cvt .sat? .f64 .f16", "f64 = f16"),
    form(Conversion, "cvt .ftz? .sat? .f64 .f32", "f64 = f32!"),
    form(Conversion, "cvt .$rounding? .f32 .bf16", "f32 = bf16").since((7, 1), 80),
    form(Conversion, "cvt .$rounding? .ftz .f32 .bf16", "f32 = bf16").since((7, 8), 90),
    form(Conversion, "cvt .$rounding? .f64 .bf16", "f64 = bf16").since((7, 8), 90),
    form(Conversion, "cvt .$rounding .bf16 .S:f16|f64", "bf16 = S!").since((7, 8), 90),
    form(Conversion, "cvt .bf16 .f16", "bf16 = f16").since((7, 8), 90),
    form(Conversion, "cvt .$rounding? .f16 .bf16", "f16 = bf16").since((7, 8), 90),
    form(Conversion, "cvt .$rounding .ftz? .sat? .f32 .f64", "f32 = f64!"),
    form(Conversion, "cvt .$rounding .ftz? .sat? .f16 .f32", "f16 = f32!").on(Alu),
    form(Conversion, "cvt .$rounding .sat? .f16 .f64", "f16 = f64!"),
    form(Conversion, "cvt .$integral? .ftz? .sat? .f32 .f32", "f32 = f32!"),
    form(Conversion, "cvt .$integral? .sat? .f64 .f64", "f64 = f64!"),
    form(Conversion, "cvt .$integral? .sat? .f16 .f16", "f16 = f16"),
    form(Conversion, "cvt .rn|rz .relu? .f16 .f32", "f16 = f32!").on(Alu),
    form(Conversion, "cvt .rn|rz .relu? .bf16 .f32", "bf16 = f32!").on(Alu).since((7, 0), 80),
    form(Conversion, "cvt .rn|rz .relu? .f16x2|bf16x2 .f32", "b32 = f32!, f32!").on(Alu).since((7, 0), 80),
    form(Conversion, "cvt .rm|rp .bf16 .f32", "bf16 = f32!").on(Alu).since((7, 0), 80),
    form(Conversion, "cvt .$rounding .ftz .bf16 .f32", "bf16 = f32!").on(Alu).since((7, 0), 80),
    form(Conversion, "cvt .$integral? .bf16 .bf16", "bf16 = bf16").since((7, 8), 90),
    form(Conversion, "cvt .rn|rz .$satfinite .D:f16|bf16 .f32", "D = f32!").on(Alu).since((8, 1), 70),
    form(Conversion, "cvt .rn|rz .$satfinite .f16x2|bf16x2 .f32", "b32 = f32!, f32!")
        .on(Alu)
        .since((8, 1), 80),
    form(Conversion, "cvt .rna .satfinite .tf32 .f32", "tf32 = f32!").on(Alu).since((8, 1), 80),
    form(Conversion, "cvt .rna .tf32 .f32", "tf32 = f32!").on(Alu).since((7, 0), 80),
    form(Conversion, "cvt .rn|rz .relu? .tf32 .f32", "tf32 = f32!").on(Alu).since((7, 8), 90),
    form(Conversion, "cvt .rn|rz .$satfinite .tf32 .f32", "tf32 = f32!").on(Alu).since((8, 6), 100),
    form(Conversion, "cvt .rn .$satfinite .D:e4m3x2|e5m2x2 .f32", "D = f32!, f32!").since((8, 1), 89),
    form(Conversion, "cvt .rn .$satfinite .D:e4m3x2|e5m2x2 .f32", "D = f32!, f32!").since((7, 8), 90),
    form(Conversion, "cvt .rn .$satfinite .D:e4m3x2|e5m2x2 .f16x2", "D = f16x2").since((8, 1), 89),
    form(Conversion, "cvt .rn .$satfinite .D:e4m3x2|e5m2x2 .f16x2", "D = f16x2").since((7, 8), 90),
    form(Conversion, "cvt .rn .relu? .f16x2 .S:e4m3x2|e5m2x2", "f16x2 = S").since((8, 1), 89),
    form(Conversion, "cvt .rn .relu? .f16x2 .S:e4m3x2|e5m2x2", "f16x2 = S").since((7, 8), 90),
    form(Conversion, "cvt .rn .$satfinite .D:e2m1x2|e2m3x2|e3m2x2 .f32", "D = f32!, f32!")
        .only_on((8, 6), BLACKWELL),
    form(Conversion, "cvt .rn .$satfinite .e2m1x2 .f16x2", "e2m1x2 = f16x2").only_on((8, 6), BLACKWELL),
    form(Conversion, "cvt .rn .relu? .f16x2 .S:e2m1x2|e2m3x2|e3m2x2", "f16x2 = S").only_on((8, 6), BLACKWELL),
    // The last operand has the random bits.
    form(Conversion, "cvt .rs .relu? .f16x2|bf16x2 .f32", "b32 = f32!, f32!, b32!")
        .only_on((8, 7), STOCHASTIC),
    form(Conversion, "cvt .rs .$satfinite .f16x2|bf16x2 .f32", "b32 = f32!, f32!, b32!")
        .only_on((8, 7), STOCHASTIC),
    form(Conversion, "cvt .rs .$satfinite .D:e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4 .f32", "D = {f32*4}, b32!")
        .only_on((8, 7), STOCHASTIC),
    form(Conversion, "cvt .rz|rp .satfinite? .ue8m0x2 .f32", "ue8m0x2 = f32!, f32!")
        .only_on((8, 6), BLACKWELL),
    form(Conversion, "cvt .rz|rp .satfinite? .ue8m0x2 .bf16x2", "ue8m0x2 = b32!").only_on((8, 6), BLACKWELL),
    form(Conversion, "cvt .rn .bf16x2 .ue8m0x2", "bf16x2 = ue8m0x2").only_on((8, 6), BLACKWELL),
    form(Conversion, "cvt.pack .sat .D:u16|s16 .s32", "b32 = s32!, s32!").on(Alu).since((6, 5), 72),
    form(Conversion, "cvt.pack .sat .u8|s8|u4|s4|u2|s2 .s32 .b32", "b32 = s32!, s32!, b32!")
        .on(Alu)
        .since((6, 5), 72),
    form(Address, "cvta .global|shared|local|const|param|param::entry .u64", "u64 = u64!"),
    form(Address, "cvta .global|shared|local|const .u64", "u64 = sym"),
    form(Address, "cvta.to .global|shared|local|const|param|param::entry .u64", "u64 = u64!"),
    form(Address, "cvta .shared::cta .u64", "u64 = u64!").since((7, 8), 20),
    form(Address, "cvta .shared::cluster .u64", "u64 = u64!").since((7, 8), 90),
    form(Address, "cvta.to .shared::cta .u64", "u64 = u64!").since((7, 8), 20),
    form(Address, "cvta.to .shared::cluster .u64", "u64 = u64!").since((7, 8), 90),
    form(Address, "isspacep .global|shared|local|const|param|param::entry", "pred = u64!"),
    form(Address, "isspacep .shared::cta", "pred = u64!").since((7, 8), 20),
    form(Address, "isspacep .shared::cluster", "pred = u64!").since((7, 8), 90),
    form(Address, "mapa .u64", "u64 = u64!, u32").since((7, 8), 90),
    form(Address, "mapa .u32", "u32 = u32!, u32").since((7, 8), 90),
    form(Address, "mapa .shared::cluster .T:u32|u64", "T = T!, u32").since((7, 8), 90),
    form(Address, "getctarank .u32", "u32 = u32!").since((7, 8), 90),
    form(Address, "getctarank .u64", "u32 = u64!").since((7, 8), 90),
    form(Address, "getctarank .shared::cluster .T:u32|u64", "u32 = T!").since((7, 8), 90),
];

/// Conversions of later versions of PTX than ptxas 13.0 has, which nothing is checked against.
pub(super) const LATER: &[Form] = &[
    form(Conversion, "cvt .rn .$satfinite .D:e4m3x2|e5m2x2|e2m3x2|e3m2x2|e2m1x2 .bf16x2", "D = bf16x2")
        .only_on((9, 1), BLACKWELL),
    form(Conversion, "cvt .rn .relu? .bf16x2 .S:e4m3x2|e5m2x2|e2m3x2|e3m2x2|e2m1x2", "bf16x2 = S")
        .only_on((9, 1), BLACKWELL),
];
