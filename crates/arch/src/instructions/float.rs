//! Floating-point instructions of all widths (PTX ISA, "Floating-Point Instructions", "Half
//! Precision Floating-Point Instructions", "Mixed Precision", "Half Precision Comparison
//! Instructions").

use super::Class::*;
use super::Pipe::{Fp16, Fp64};
use super::{Form, form};

pub(super) const FORMS: &[Form] = &[
    form(Float, "add|sub|mul .$rounding? .ftz? .sat? .f32", "f32 = f32, f32"),
    form(Float, "add|sub|mul .$rounding? .f64", "f64 = f64, f64").on(Fp64),
    form(Float, "add|sub|mul .$rounding? .ftz? .f32x2", "f32x2 = f32x2, f32x2").since((8, 6), 100),
    form(Float, "add|sub .$rounding? .sat? .f32 .T:f16|bf16", "f32 = T, f32").since((8, 6), 100),
    form(Float, "fma|mad .$rounding .ftz? .sat? .f32", "f32 = f32, f32, f32").operations(2),
    form(Float, "fma|mad .$rounding .f64", "f64 = f64, f64, f64").on(Fp64).operations(2),
    form(Float, "fma .$rounding .ftz? .f32x2", "f32x2 = f32x2, f32x2, f32x2")
        .operations(2)
        .since((8, 6), 100),
    form(Float, "fma .$rounding .sat? .f32 .T:f16|bf16", "f32 = T, T, f32").operations(2).since((8, 6), 100),
    // The targets before sm_20 have one rounding, which needs no word.
    form(Float, "mad .ftz? .sat? .f32", "f32 = f32, f32, f32").operations(2).until((1, 0), 20),
    form(FloatDivide, "div.full .ftz? .f32", "f32 = f32, f32"),
    form(FloatDivide, "div .approx|rn|rz|rm|rp .ftz? .f32", "f32 = f32, f32"),
    form(FloatDivide, "div .$rounding .f64", "f64 = f64, f64").on(Fp64),
    form(FloatCompare, "abs|neg .ftz? .f32", "f32 = f32"),
    form(FloatCompare, "abs|neg .f64", "f64 = f64"),
    form(FloatCompare, "min|max .ftz? .NaN? .f32", "f32 = f32, f32"),
    form(FloatCompare, "min|max .ftz? .NaN? .xorsign.abs .f32", "f32 = f32, f32").since((7, 2), 86),
    form(FloatCompare, "min|max .ftz? .NaN? .abs? .f32", "f32 = f32, f32, f32").since((8, 8), 100),
    form(FloatCompare, "min|max .f64", "f64 = f64, f64").on(Fp64),
    form(Special, "rcp|sqrt .approx|rn|rz|rm|rp .ftz? .f32", "f32 = f32"),
    form(Special, "rcp|sqrt .$rounding .f64", "f64 = f64").on(Fp64),
    form(Special, "rcp .approx .ftz .f64", "f64 = f64").since((2, 1), 20),
    form(Special, "rcp .$rounding .ftz .f64", "f64 = f64").on(Fp64),
    form(Special, "rsqrt|sin|cos|lg2|ex2 .approx .ftz? .f32", "f32 = f32"),
    form(Special, "rsqrt .approx .ftz? .f64", "f64 = f64"),
    form(Special, "tanh .approx .f32", "f32 = f32").since((7, 0), 75),
    form(FloatCompare, "testp .finite|infinite|number|notanumber|normal|subnormal? .T:f32|f64", "pred = T"),
    form(FloatCompare, "copysign .T:f32|f64", "T = T, T"),
    form(Float, "add|sub|mul .rn? .ftz? .sat? .T:f16|f16x2", "T = T, T").on(Fp16).since((4, 2), 53),
    form(Float, "add|sub|mul .rn? .T:bf16|bf16x2", "T = T, T").on(Fp16).since((7, 8), 90),
    form(Float, "fma .rn .ftz? .sat? .T:f16|f16x2", "T = T, T, T").on(Fp16).operations(2).since((4, 2), 53),
    form(Float, "fma .rn .ftz? .relu .T:f16|f16x2", "T = T, T, T").on(Fp16).operations(2).since((7, 0), 80),
    form(Float, "fma .rn .relu? .T:bf16|bf16x2", "T = T, T, T").on(Fp16).operations(2).since((7, 0), 80),
    form(Float, "fma .rn .oob .relu? .T:f16|f16x2|bf16|bf16x2", "T = T, T, T")
        .on(Fp16)
        .operations(2)
        .since((8, 1), 90),
    form(FloatCompare, "abs|neg .ftz? .T:f16|f16x2", "T = T").since((5, 1), 53),
    form(FloatCompare, "abs|neg .T:bf16|bf16x2", "T = T").since((7, 0), 80),
    form(FloatCompare, "min|max .ftz? .NaN? .T:f16|f16x2", "T = T, T").since((7, 0), 80),
    form(FloatCompare, "min|max .NaN? .T:bf16|bf16x2", "T = T, T").since((7, 0), 80),
    form(FloatCompare, "min|max .ftz? .NaN? .xorsign.abs .T:f16|f16x2", "T = T, T").since((7, 2), 86),
    form(FloatCompare, "min|max .NaN? .xorsign.abs .T:bf16|bf16x2", "T = T, T").since((7, 2), 86),
    form(Special, "tanh|ex2 .approx .T:f16|f16x2", "T = T").since((7, 0), 75),
    form(Special, "tanh .approx .T:bf16|bf16x2", "T = T").since((7, 8), 90),
    form(Special, "ex2 .approx .ftz .T:bf16|bf16x2", "T = T").since((7, 8), 90),
    form(Compare, "setp .$float_order .ftz? .f32", "pred/pred = f32, f32"),
    form(Compare, "setp .$float_order .f64", "pred/pred = f64, f64").on(Fp64),
    form(Compare, "setp .$float_order .and|or|xor .ftz? .f32", "pred/pred = f32, f32, ~pred"),
    form(Compare, "setp .$float_order .and|or|xor .f64", "pred/pred = f64, f64, ~pred").on(Fp64),
    form(Compare, "setp .$float_order .ftz? .f16", "pred = f16, f16").on(Fp16).since((4, 2), 53),
    form(Compare, "setp .$float_order .and|or|xor .ftz? .f16", "pred = f16, f16, ~pred")
        .on(Fp16)
        .since((4, 2), 53),
    form(Compare, "setp .$float_order .ftz? .f16x2", "pred|pred = f16x2, f16x2").on(Fp16).since((4, 2), 53),
    form(Compare, "setp .$float_order .and|or|xor .ftz? .f16x2", "pred|pred = f16x2, f16x2, ~pred")
        .on(Fp16)
        .since((4, 2), 53),
    form(Compare, "setp .$float_order .bf16", "pred = bf16, bf16").on(Fp16).since((7, 8), 90),
    form(Compare, "setp .$float_order .bf16x2", "pred|pred = bf16x2, bf16x2").on(Fp16).since((7, 8), 90),
    form(Compare, "set .$float_order .ftz? .D:u32|s32|f32 .f32", "D = f32, f32"),
    form(Compare, "set .$float_order .D:u32|s32|f32 .f64", "D = f64, f64").on(Fp64),
    form(Compare, "set .$float_order .and|or|xor .ftz? .D:u32|s32|f32 .f32", "D = f32, f32, ~pred"),
    form(Compare, "set .$float_order .and|or|xor .D:u32|s32|f32 .f64", "D = f64, f64, ~pred").on(Fp64),
    form(Compare, "set .$float_order .ftz? .D:f16|u16|s16|u32|s32 .f16", "D = f16, f16")
        .on(Fp16)
        .since((4, 2), 53),
    form(Compare, "set .$float_order .ftz? .D:f16x2|u32|s32 .f16x2", "D = f16x2, f16x2")
        .on(Fp16)
        .since((4, 2), 53),
    form(Compare, "set .$float_order .D:bf16|u16|s16|u32|s32 .bf16", "D = bf16, bf16")
        .on(Fp16)
        .since((7, 8), 90),
    form(Compare, "setp .$float_order .and|or|xor .bf16", "pred = bf16, bf16, ~pred")
        .on(Fp16)
        .since((7, 8), 90),
    form(Compare, "setp .$float_order .and|or|xor .bf16x2", "pred|pred = bf16x2, bf16x2, ~pred")
        .on(Fp16)
        .since((7, 8), 90),
    form(Compare, "set .$float_order .and|or|xor .ftz? .D:f16|u16|s16|u32|s32 .f16", "D = f16, f16, ~pred")
        .on(Fp16)
        .since((4, 2), 53),
    form(Compare, "set .$float_order .and|or|xor .ftz? .D:f16x2|u32|s32 .f16x2", "D = f16x2, f16x2, ~pred")
        .on(Fp16)
        .since((4, 2), 53),
    form(Compare, "set .$float_order .and|or|xor .D:bf16|u16|s16|u32|s32 .bf16", "D = bf16, bf16, ~pred")
        .on(Fp16)
        .since((7, 8), 90),
    form(Compare, "set .$float_order .and|or|xor .D:bf16x2|u32|s32 .bf16x2", "D = bf16x2, bf16x2, ~pred")
        .on(Fp16)
        .since((7, 8), 90),
    form(Compare, "set .$float_order .D:bf16x2|u32|s32 .bf16x2", "D = bf16x2, bf16x2")
        .on(Fp16)
        .since((7, 8), 90),
];
