//! Memory that several GPUs hold together (PTX ISA, "multimem.ld_reduce, multimem.st, multimem.red").

use super::Class::*;
use super::availability::SHARED_SMALL_FLOATS;
use super::{Form, form};

/// A spelling: the instruction and its orders, and what follows.
macro_rules! multimem {
    (load, $rest:literal) => {
        concat!(
            "multimem.ld_reduce .weak|relaxed.cta|relaxed.cluster|relaxed.gpu|relaxed.sys|acquire.cta|acquire.cluster|acquire.gpu|\
             acquire.sys? .global? ",
            $rest
        )
    };
    (store, $rest:literal) => {
        concat!(
            "multimem.st .weak|relaxed.cta|relaxed.cluster|relaxed.gpu|relaxed.sys|release.cta|release.cluster|release.gpu|\
             release.sys? .global? ",
            $rest
        )
    };
    (reduce, $rest:literal) => {
        concat!(
            "multimem.red .relaxed.cta|relaxed.cluster|relaxed.gpu|relaxed.sys|release.cta|release.cluster|release.gpu|release.sys? \
             .global? ",
            $rest
        )
    };
}

/// Elements of 8 bits have no rows: ptxas 13.0 takes them in `.b8` registers only.
pub(super) const FORMS: &[Form] = &[
    form(Load, multimem!(load, ".add .T:u32|s32|u64|f32|f64"), "T = []").since((8, 1), 90),
    form(Load, multimem!(load, ".min|max .T:u32|s32|u64|s64"), "T = []").since((8, 1), 90),
    form(Load, multimem!(load, ".and|or|xor .T:b32|b64"), "T = []").since((8, 1), 90),
    form(Load, multimem!(load, ".add|min|max .T:f16x2|bf16x2"), "T = []").since((8, 1), 90),
    form(Load, multimem!(load, ".add|min|max .V:v2|v4 .T:f16x2|bf16x2"), "{T*V} = []").since((8, 1), 90),
    form(Load, multimem!(load, ".add|min|max .V:v2|v4|v8 .T:f16|bf16"), "{T*V} = []").since((8, 1), 90),
    form(Load, multimem!(load, ".add .V:v2|v4 .T:f32"), "{T*V} = []").since((8, 1), 90),
    form(Load, multimem!(load, ".add .acc::f32 .T:f16x2|bf16x2"), "T = []").since((8, 2), 90),
    form(Load, multimem!(load, ".add .acc::f32 .V:v2|v4 .T:f16x2|bf16x2"), "{T*V} = []").since((8, 2), 90),
    form(Load, multimem!(load, ".add .acc::f32 .V:v2|v4|v8 .T:f16|bf16"), "{T*V} = []").since((8, 2), 90),
    form(Load, multimem!(load, ".min|max .T:e4m3x4|e5m2x4"), "T = []").only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Load, multimem!(load, ".min|max .V:v2|v4 .T:e4m3x4|e5m2x4"), "{T*V} = []")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Load, multimem!(load, ".min|max .V:v2|v4|v8 .T:e4m3x2|e5m2x2"), "{T*V} = []")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Load, multimem!(load, ".add .acc::f16? .T:e4m3x4|e5m2x4"), "T = []")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Load, multimem!(load, ".add .acc::f16? .V:v2|v4 .T:e4m3x4|e5m2x4"), "{T*V} = []")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Load, multimem!(load, ".add .acc::f16? .V:v2|v4|v8 .T:e4m3x2|e5m2x2"), "{T*V} = []")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Store, multimem!(store, ".T:b32|b64|u32|u64|s32|s64|f32|f64|f16x2|bf16x2"), "[], T")
        .since((8, 1), 90),
    form(Store, multimem!(store, ".V:v2|v4 .T:f32|f16x2|bf16x2"), "[], {T*V}").since((8, 1), 90),
    form(Store, multimem!(store, ".V:v2|v4|v8 .T:f16|bf16"), "[], {T*V}").since((8, 1), 90),
    form(Store, multimem!(store, ".T:e4m3x4|e5m2x4"), "[], T").only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Store, multimem!(store, ".V:v2|v4 .T:e4m3x4|e5m2x4"), "[], {T*V}")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Store, multimem!(store, ".V:v2|v4|v8 .T:e4m3x2|e5m2x2"), "[], {T*V}")
        .only_on((8, 6), SHARED_SMALL_FLOATS),
    form(Reduction, multimem!(reduce, ".add .T:u32|s32|u64|f32|f64|f16x2|bf16x2"), "[], T").since((8, 1), 90),
    form(Reduction, multimem!(reduce, ".min|max .T:u32|s32|u64|s64"), "[], T").since((8, 1), 90),
    form(Reduction, multimem!(reduce, ".and|or|xor .T:b32|b64"), "[], T").since((8, 1), 90),
    form(Reduction, multimem!(reduce, ".add .V:v2|v4 .T:f32"), "[], {T*V}").since((8, 1), 90),
    form(Reduction, multimem!(reduce, ".add|min|max .V:v2|v4 .T:f16x2|bf16x2"), "[], {T*V}")
        .since((8, 1), 90),
    form(Reduction, multimem!(reduce, ".add|min|max .V:v2|v4|v8 .T:f16|bf16"), "[], {T*V}").since((8, 1), 90),
];
