//! Floating-point instructions of all widths (PTX ISA, "Floating-Point Instructions", "Half Precision Floating-Point
//! Instructions", "Mixed Precision", "Half Precision Comparison Instructions").

use super::{Form, form};

pub(super) const FORMS: &[Form] = &[
    form("add|sub|mul .rn|rz|rm|rp? .ftz? .sat? .f32", "f32 = f32, f32"),
    form("add|sub|mul .rn|rz|rm|rp? .f64", "f64 = f64, f64"),
    form("add|sub|mul .rn|rz|rm|rp? .ftz? .f32x2", "f32x2 = f32x2, f32x2").since((8, 6), 100),
    form("add|sub .rn|rz|rm|rp? .sat? .f32 .T:f16|bf16", "f32 = T, f32").since((8, 6), 100),
    form("fma|mad .rn|rz|rm|rp .ftz? .sat? .f32", "f32 = f32, f32, f32"),
    form("fma|mad .rn|rz|rm|rp .f64", "f64 = f64, f64, f64"),
    form("fma .rn|rz|rm|rp .ftz? .f32x2", "f32x2 = f32x2, f32x2, f32x2").since((8, 6), 100),
    form("fma .rn|rz|rm|rp .sat? .f32 .T:f16|bf16", "f32 = T, T, f32").since((8, 6), 100),
    form("div .approx|full|rn|rz|rm|rp .ftz? .f32", "f32 = f32, f32"),
    form("div .rn|rz|rm|rp .f64", "f64 = f64, f64"),
    form("abs|neg .ftz? .f32", "f32 = f32"),
    form("abs|neg .f64", "f64 = f64"),
    form("min|max .ftz? .NaN? .f32", "f32 = f32, f32"),
    form("min|max .ftz? .NaN? .xorsign.abs .f32", "f32 = f32, f32").since((7, 2), 86),
    form("min|max .ftz? .NaN? .abs? .f32", "f32 = f32, f32, f32").since((8, 8), 100),
    form("min|max .f64", "f64 = f64, f64"),
    form("rcp|sqrt .approx|rn|rz|rm|rp .ftz? .f32", "f32 = f32"),
    form("rcp|sqrt .rn|rz|rm|rp .f64", "f64 = f64"),
    form("rcp .approx .ftz .f64", "f64 = f64"),
    form("rsqrt|sin|cos|lg2|ex2 .approx .ftz? .f32", "f32 = f32"),
    form("rsqrt .approx .ftz? .f64", "f64 = f64"),
    form("tanh .approx .f32", "f32 = f32"),
    form("testp .finite|infinite|number|notanumber|normal|subnormal .T:f32|f64", "pred = T"),
    form("copysign .T:f32|f64", "T = T, T"),
    form("add|sub|mul .rn? .ftz? .sat? .T:f16|f16x2", "T = T, T"),
    form("add|sub|mul .rn? .T:bf16|bf16x2", "T = T, T").since((7, 8), 90),
    form("fma .rn .ftz? .sat? .T:f16|f16x2", "T = T, T, T"),
    form("fma .rn .ftz? .relu .T:f16|f16x2", "T = T, T, T"),
    form("fma .rn .relu? .T:bf16|bf16x2", "T = T, T, T"),
    form("fma .rn .oob .relu? .T:f16|f16x2|bf16|bf16x2", "T = T, T, T").since((8, 1), 90),
    form("abs|neg .ftz? .T:f16|f16x2", "T = T"),
    form("abs|neg .T:bf16|bf16x2", "T = T"),
    form("min|max .ftz? .NaN? .T:f16|f16x2", "T = T, T"),
    form("min|max .NaN? .T:bf16|bf16x2", "T = T, T"),
    form("min|max .ftz? .NaN? .xorsign.abs .T:f16|f16x2", "T = T, T").since((7, 2), 86),
    form("min|max .NaN? .xorsign.abs .T:bf16|bf16x2", "T = T, T").since((7, 2), 86),
    form("tanh|ex2 .approx .T:f16|f16x2", "T = T"),
    form("tanh .approx .T:bf16|bf16x2", "T = T").since((7, 8), 90),
    form("ex2 .approx .ftz .T:bf16|bf16x2", "T = T").since((7, 8), 90),
    form("setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .f32", "pred/pred = f32, f32"),
    form("setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .f64", "pred/pred = f64, f64"),
    form(
        "setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .and|or|xor .ftz? .f32",
        "pred/pred = f32, f32, ~pred",
    ),
    form(
        "setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .and|or|xor .f64",
        "pred/pred = f64, f64, ~pred",
    ),
    form("setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .f16", "pred = f16, f16"),
    form(
        "setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .and|or|xor .ftz? .f16",
        "pred = f16, f16, ~pred",
    ),
    form("setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .f16x2", "pred|pred = f16x2, f16x2"),
    form(
        "setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .and|or|xor .ftz? .f16x2",
        "pred|pred = f16x2, f16x2, ~pred",
    ),
    form("setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .bf16", "pred = bf16, bf16")
        .since((7, 8), 90),
    form("setp .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .bf16x2", "pred|pred = bf16x2, bf16x2")
        .since((7, 8), 90),
    form("set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .D:u32|s32|f32 .f32", "D = f32, f32"),
    form("set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .D:u32|s32|f32 .f64", "D = f64, f64"),
    form(
        "set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .and|or|xor .ftz? .D:u32|s32|f32 .f32",
        "D = f32, f32, ~pred",
    ),
    form(
        "set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .and|or|xor .D:u32|s32|f32 .f64",
        "D = f64, f64, ~pred",
    ),
    form(
        "set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .D:f16|u16|s16|u32|s32 .f16",
        "D = f16, f16",
    ),
    form(
        "set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .f16x2 .f16x2",
        "f16x2 = f16x2, f16x2",
    ),
    form(
        "set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .D:bf16|u16|s16|u32|s32 .bf16",
        "D = bf16, bf16",
    )
    .since((7, 8), 90),
    form("set .eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .bf16x2 .bf16x2", "bf16x2 = bf16x2, bf16x2")
        .since((7, 8), 90),
];
