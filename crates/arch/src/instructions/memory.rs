//! Loads, stores, atomics and cache control (PTX ISA, "Data Movement and Conversion Instructions",
//! "Parallel Synchronization and Communication Instructions": `atom`, `red`).

use super::{Form, form};

pub(super) const FORMS: &[Form] = &[
    form(
        "ld .weak? .global|shared|local|const|param|shared::cta? .V:v2|v4? \
         .T:$memory",
        "{T+*V:128} = []",
    ),
    form(
        "ld .global? .ca|cg|cs|lu|cv .V:v2|v4? .T:$memory",
        "{T+*V:128} = []",
    ),
    form(
        "ld .weak? .global? .$level1? \
         .L2::cache_hint? .$prefetch? .V:v2|v4? .T:$memory",
        "{T+*V:128} = [], b64!@L2::cache_hint",
    )
    .since((7, 4), 80),
    form(
        "ld .global .ca|cg|cs? .nc .V:v2|v4? .T:$memory",
        "{T+*V:128} = []",
    ),
    form(
        "ld .global .nc .$level1? \
         .L2::cache_hint? .$prefetch? .V:v2|v4? .T:$memory",
        "{T+*V:128} = [], b64!@L2::cache_hint",
    )
    .since((7, 4), 80),
    form(
        "ld .volatile .global|shared? .V:v2|v4? .T:$memory",
        "{T+*V:128} = []",
    ),
    form(
        "ld .relaxed|acquire .cta|gpu|sys .global|shared? .V:v2|v4? \
         .T:$memory",
        "{T+*V:128} = []",
    ),
    form("ld .relaxed|acquire .$cluster .V:v2|v4? .T:$memory", "{T+*V:128} = []").since((7, 8), 90),
    form("ld .weak|volatile? .shared::cluster .V:v2|v4? .T:$memory", "{T+*V:128} = []").since((7, 8), 90),
    form("ld .mmio .relaxed .sys .global? .T:$memory", "T+ = []")
        .since((8, 2), 80),
    form("ld .weak? .global|shared? .b128", "b128 = []").since((8, 3), 80),
    // 256 bits of global memory. Only these have priorities in L2.
    form("ld .global? .ca|cg|cs|lu|cv .V:v4|v8 .T:$wide", "{T+*V:256!} = []").since((8, 8), 100),
    form(
        "ld .weak? .global? .$level1? .$level2? .L2::cache_hint? .$prefetch? .V:v4|v8 .T:$wide",
        "{T+*V:256!} = [], b64!@L2::cache_hint",
    )
    .since((8, 8), 100),
    form(
        "ld .global .nc .$level1? .$level2? .L2::cache_hint? .$prefetch? .V:v4|v8 .T:$wide",
        "{T+*V:256!} = [], b64!@L2::cache_hint",
    )
    .since((8, 8), 100),
    form("ld .volatile .global? .V:v4|v8 .T:$wide", "{T+*V:256!} = []").since((8, 8), 100),
    form(
        "ld .relaxed|acquire .cta|cluster|gpu|sys .global? .$level1? .$level2? .L2::cache_hint? .$prefetch? \
         .V:v4|v8 .T:$wide",
        "{T+*V:256!} = [], b64!@L2::cache_hint",
    )
    .since((8, 8), 100),
    form("ldu .global? .V:v2|v4? .T:$memory", "{T+*V:128} = []"),
    form(
        "st .weak? .global|shared|local|shared::cta? .V:v2|v4? \
         .T:$memory",
        "[], {T+*V:128}",
    ),
    form(
        "st .global? .wb|cg|cs|wt .V:v2|v4? .T:$memory",
        "[], {T+*V:128}",
    ),
    form(
        "st .weak? .global? .$level1? \
         .L2::cache_hint? .V:v2|v4? .T:$memory",
        "[], {T+*V:128}, b64!@L2::cache_hint",
    )
    .since((7, 4), 80),
    form(
        "st .volatile .global|shared? .V:v2|v4? .T:$memory",
        "[], {T+*V:128}",
    ),
    form(
        "st .relaxed|release .cta|gpu|sys .global|shared? .V:v2|v4? \
         .T:$memory",
        "[], {T+*V:128}",
    ),
    form("st .relaxed|release .$cluster .V:v2|v4? .T:$memory", "[], {T+*V:128}").since((7, 8), 90),
    form("st .weak|volatile? .shared::cluster .V:v2|v4? .T:$memory", "[], {T+*V:128}").since((7, 8), 90),
    form("st .mmio .relaxed .sys .global? .T:$memory", "[], T+")
        .since((8, 2), 80),
    form("st .weak? .global|shared? .b128", "[], b128").since((8, 3), 80),
    form("st .global? .wb|cg|cs|wt .V:v4|v8 .T:$wide", "[], {T+*V:256!}").since((8, 8), 100),
    form(
        "st .weak? .global? .$level1? .$level2? .L2::cache_hint? .V:v4|v8 .T:$wide",
        "[], {T+*V:256!}, b64!@L2::cache_hint",
    )
    .since((8, 8), 100),
    form("st .volatile .global? .V:v4|v8 .T:$wide", "[], {T+*V:256!}").since((8, 8), 100),
    form(
        "st .relaxed|release .cta|cluster|gpu|sys .global? .$level1? .$level2? .L2::cache_hint? .V:v4|v8 .T:$wide",
        "[], {T+*V:256!}, b64!@L2::cache_hint",
    )
    .since((8, 8), 100),
    form("prefetch .global|local? .L1|L2", "[]"),
    form("prefetch .global .L2::evict_last|L2::evict_normal", "[]").since((7, 4), 80),
    form("prefetch .const|param? .tensormap", "[]").since((8, 0), 90),
    form("prefetchu .L1", "[]"),
    form("applypriority .global? .L2::evict_normal", "[], #").since((7, 4), 80),
    form("discard .global? .L2", "[], #").since((7, 4), 80),
    form(
        "createpolicy .fractional \
         .L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged .L2::evict_first|L2::evict_unchanged? .b64",
        "b64 = f32?",
    )
    .since((7, 4), 80),
    form(
        "createpolicy .range .global? \
         .L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged .L2::evict_first|L2::evict_unchanged? .b64",
        "b64 = [], b32, b32",
    )
    .since((7, 4), 80),
    form("createpolicy .cvt .L2 .b64", "b64 = b64").since((7, 4), 80),
    form(
        "atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .and|or|xor .T:b32|b64",
        "T_ = [], T",
    ),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .exch .T:b32|b64", "T_ = [], T"),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .cas .T:b16|b32|b64", "T_ = [], T, T"),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .add .T:u32|s32|u64|f32|f64", "T_ = [], T"),
    form(
        "atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .min|max .T:u32|s32|u64|s64",
        "T_ = [], T",
    ),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .inc|dec .u32", "b32_ = [], b32"),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .add .noftz .T:f16|f16x2", "T_ = [], T"),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global|shared? .add .noftz .T:bf16|bf16x2", "T = [], T")
        .since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu? .global|shared? .exch .b128", "b128_ = [], b128").since((8, 3), 90),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu? .global|shared? .cas .b128", "b128_ = [], b128, b128").since((8, 3), 90),
    form("atom .relaxed|acquire|release|acq_rel? .sys .global|shared? .exch .b128", "b128_ = [], b128").since((8, 4), 90),
    form("atom .relaxed|acquire|release|acq_rel? .sys .global|shared? .cas .b128", "b128_ = [], b128, b128").since((8, 4), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .and|or|xor|exch .T:b32|b64", "T_ = [], T").since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .cas .T:b16|b32|b64", "T_ = [], T, T").since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .add .T:u32|s32|u64|f32|f64", "T_ = [], T").since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .min|max .T:u32|s32|u64|s64", "T_ = [], T").since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .inc|dec .u32", "b32_ = [], b32").since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .add .noftz .T:f16|f16x2", "T_ = [], T").since((7, 8), 90),
    form("atom .relaxed|acquire|release|acq_rel? .$cluster .add .noftz .T:bf16|bf16x2", "T = [], T").since((7, 8), 90),
    form("atom .shared::cluster .and|or|xor|exch .T:b32|b64", "T_ = [], T").since((7, 8), 90),
    form("atom .shared::cluster .cas .T:b16|b32|b64", "T_ = [], T, T").since((7, 8), 90),
    form("atom .shared::cluster .add .T:u32|s32|u64|f32|f64", "T_ = [], T").since((7, 8), 90),
    form("atom .shared::cluster .min|max .T:u32|s32|u64|s64", "T_ = [], T").since((7, 8), 90),
    form("atom .shared::cluster .inc|dec .u32", "b32_ = [], b32").since((7, 8), 90),
    form("atom .shared::cluster .add .noftz .T:f16|f16x2", "T_ = [], T").since((7, 8), 90),
    form("atom .shared::cluster .add .noftz .T:bf16|bf16x2", "T = [], T").since((7, 8), 90),
    form("atom .relaxed? .gpu? .global .add .L2::cache_hint .T:u32|s32|u64|f32|f64", "T_ = [], T, b64!")
        .since((7, 4), 80),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global .add .V:v2|v4 .f32", "{f32*V} = [], {f32*V}").since((8, 1), 90),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global .add|min|max .noftz .V:v2|v4|v8 .T:f16|bf16", "{T*V} = [], {T*V}").since((8, 1), 90),
    form("atom .relaxed|acquire|release|acq_rel? .cta|gpu|sys? .global .add|min|max .noftz .V:v2|v4 .T:f16x2|bf16x2", "{T*V} = [], {T*V}").since((8, 1), 90),
    form("red .relaxed|release? .cta|gpu|sys? .global|shared? .and|or|xor .T:b32|b64", "[], T"),
    form("red .relaxed|release? .cta|gpu|sys? .global|shared? .add .T:u32|s32|u64|f32|f64", "[], T"),
    form("red .relaxed|release? .cta|gpu|sys? .global|shared? .min|max .T:u32|s32|u64|s64", "[], T"),
    form("red .relaxed|release? .cta|gpu|sys? .global|shared? .inc|dec .u32", "[], b32"),
    form("red .relaxed|release? .cta|gpu|sys? .global|shared? .add .noftz .T:f16|f16x2", "[], T"),
    form("red .relaxed|release? .cta|gpu|sys? .global|shared? .add .noftz .T:bf16|bf16x2", "[], T").since((7, 8), 90),
    form("red .relaxed|release? .$cluster .and|or|xor .T:b32|b64", "[], T").since((7, 8), 90),
    form("red .relaxed|release? .$cluster .add .T:u32|s32|u64|f32|f64", "[], T").since((7, 8), 90),
    form("red .relaxed|release? .$cluster .min|max .T:u32|s32|u64|s64", "[], T").since((7, 8), 90),
    form("red .relaxed|release? .$cluster .inc|dec .u32", "[], b32").since((7, 8), 90),
    form("red .relaxed|release? .$cluster .add .noftz .T:f16|f16x2|bf16|bf16x2", "[], T").since((7, 8), 90),
    form("red .shared::cluster .and|or|xor .T:b32|b64", "[], T").since((7, 8), 90),
    form("red .shared::cluster .add .T:u32|s32|u64|f32|f64", "[], T").since((7, 8), 90),
    form("red .shared::cluster .min|max .T:u32|s32|u64|s64", "[], T").since((7, 8), 90),
    form("red .shared::cluster .inc|dec .u32", "[], b32").since((7, 8), 90),
    form("red .shared::cluster .add .noftz .T:f16|f16x2|bf16|bf16x2", "[], T").since((7, 8), 90),
    form("red .relaxed? .gpu? .global .add .L2::cache_hint .T:u32|s32|u64|f32|f64", "[], T, b64!").since((7, 4), 80),
    form("red .relaxed|release? .cta|gpu|sys? .global .add .V:v2|v4 .f32", "[], {f32*V}").since((8, 1), 90),
    form("red .relaxed|release? .cta|gpu|sys? .global .add|min|max .noftz .V:v2|v4|v8 .T:f16|bf16", "[], {T*V}").since((8, 1), 90),
    form("red .relaxed|release? .cta|gpu|sys? .global .add|min|max .noftz .V:v2|v4 .T:f16x2|bf16x2", "[], {T*V}").since((8, 1), 90),
    // Compilers also write the scope after the space.
    form("atom .global|shared .cta|gpu|sys .relaxed|acquire|release|acq_rel? .and|or|xor|exch .T:b32|b64", "T_ = [], T"),
    form("atom .global|shared .cta|gpu|sys .relaxed|acquire|release|acq_rel? .cas .T:b16|b32|b64", "T_ = [], T, T"),
    form("atom .global|shared .cta|gpu|sys .relaxed|acquire|release|acq_rel? .add .T:u32|s32|u64|f32|f64", "T_ = [], T"),
    form("atom .global|shared .cta|gpu|sys .relaxed|acquire|release|acq_rel? .min|max .T:u32|s32|u64|s64", "T_ = [], T"),
    form("atom .global|shared .cta|gpu|sys .relaxed|acquire|release|acq_rel? .inc|dec .u32", "b32_ = [], b32"),
    form("red .global|shared .cta|gpu|sys .relaxed|release? .and|or|xor .T:b32|b64", "[], T"),
    form("red .global|shared .cta|gpu|sys .relaxed|release? .add .T:u32|s32|u64|f32|f64", "[], T"),
    form("red .global|shared .cta|gpu|sys .relaxed|release? .min|max .T:u32|s32|u64|s64", "[], T"),
    form("red .global|shared .cta|gpu|sys .relaxed|release? .inc|dec .u32", "[], b32"),
    // ... and those that libcu++ and Triton write: the order and scope after the operation, or
    // before it with the space first.
    form("alloca .T:u32|u64", "T = T!, #?").since((7, 3), 80),
    form("stacksave .T:u32|u64", "T =").since((7, 3), 80),
    form("stackrestore .T:u32|u64", "T!").since((7, 3), 80),
    form("atom .and|or|xor|exch .relaxed|acquire|release|acq_rel .cta|gpu|sys .T:b32|b64", "T_ = [], T"),
    form("atom .cas .relaxed|acquire|release|acq_rel .cta|gpu|sys .T:b16|b32|b64", "T_ = [], T, T"),
    form("atom .add .relaxed|acquire|release|acq_rel .cta|gpu|sys .T:u32|s32|u64|f32|f64", "T_ = [], T"),
    form("atom .min|max .relaxed|acquire|release|acq_rel .cta|gpu|sys .T:u32|s32|u64|s64", "T_ = [], T"),
    form("atom .global|shared .relaxed|acquire|release|acq_rel .cta|gpu|sys .and|or|xor|exch .T:b32|b64", "T_ = [], T"),
    form("atom .global|shared .relaxed|acquire|release|acq_rel .cta|gpu|sys .cas .T:b16|b32|b64", "T_ = [], T, T"),
    form("atom .global|shared .relaxed|acquire|release|acq_rel .cta|gpu|sys .add .T:u32|s32|u64|f32|f64", "T_ = [], T"),
    form("atom .global .cta|gpu|sys .relaxed|acquire|release|acq_rel? .add .V:v2|v4 .f32", "{f32*V} = [], {f32*V}").since((8, 1), 90),
    form("atom .global .V:v2|v4 .f32 .add", "{f32*V} = [], {f32*V}").since((8, 1), 90),
    form("atom .global .V:v2|v4|v8 .T:f16|bf16 .add|min|max .noftz", "{T*V} = [], {T*V}").since((8, 1), 90),
    form("red .global .V:v2|v4 .f32 .add", "[], {f32*V}").since((8, 1), 90),
    form("red .global .V:v2|v4|v8 .T:f16|bf16 .add|min|max .noftz", "[], {T*V}").since((8, 1), 90),
];
