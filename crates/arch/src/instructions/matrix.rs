//! Matrix instructions: fragments through shared memory, and multiply-accumulate (PTX ISA, "Warp Level Matrix
//! Multiply-Accumulate Instructions", "Asynchronous Warpgroup Level Matrix Instructions").

use super::{Form, form};

const HOPPER: &[&str] = &["sm_90a"];

/// Where matrices of bytes are loaded and stored transposed (PTX ISA, "ldmatrix" and "stmatrix").
const BYTE_MATRICES: &[&str] = &["sm_100a", "sm_120a"];

/// The shapes of a warpgroup's product, with the given depth, for every width that floating types have.
macro_rules! float_shapes {
    ($depth:literal) => {
        concat!(
            ".M:", "m64n8", $depth, "|m64n16", $depth, "|m64n24", $depth, "|m64n32", $depth, "|m64n40",
            $depth, "|m64n48", $depth, "|m64n56", $depth, "|m64n64", $depth, "|m64n72", $depth, "|m64n80",
            $depth, "|m64n88", $depth, "|m64n96", $depth, "|m64n104", $depth, "|m64n112", $depth, "|m64n120",
            $depth, "|m64n128", $depth, "|m64n136", $depth, "|m64n144", $depth, "|m64n152", $depth,
            "|m64n160", $depth, "|m64n168", $depth, "|m64n176", $depth, "|m64n184", $depth, "|m64n192",
            $depth, "|m64n200", $depth, "|m64n208", $depth, "|m64n216", $depth, "|m64n224", $depth,
            "|m64n232", $depth, "|m64n240", $depth, "|m64n248", $depth, "|m64n256", $depth
        )
    };
}

/// The same for integer types, which have fewer widths.
macro_rules! integer_shapes {
    ($depth:literal) => {
        concat!(
            ".M:", "m64n8", $depth, "|m64n16", $depth, "|m64n24", $depth, "|m64n32", $depth, "|m64n48",
            $depth, "|m64n64", $depth, "|m64n80", $depth, "|m64n96", $depth, "|m64n112", $depth, "|m64n128",
            $depth, "|m64n144", $depth, "|m64n160", $depth, "|m64n176", $depth, "|m64n192", $depth,
            "|m64n208", $depth, "|m64n224", $depth, "|m64n240", $depth, "|m64n256", $depth
        )
    };
}

pub(super) const FORMS: &[Form] = &[
    form("ldmatrix .sync .aligned .m8n8 .N:x1|x2|x4 .trans? .shared|shared::cta? .b16", "{b32*N} = []"),
    form("stmatrix .sync .aligned .m8n8 .N:x1|x2|x4 .trans? .shared|shared::cta? .b16", "[], {b32*N}")
        .since((7, 8), 90),
    // ptxas takes the count before the shape, too, and CUTLASS writes it so.
    form("ldmatrix .sync .aligned .N:x1|x2|x4 .trans? .m8n8 .shared|shared::cta? .b16", "{b32*N} = []"),
    form("stmatrix .sync .aligned .N:x1|x2|x4 .trans? .m8n8 .shared|shared::cta? .b16", "[], {b32*N}")
        .since((7, 8), 90),
    form("ldmatrix .sync .aligned .m16n16 .x1 .trans .shared|shared::cta? .b8", "{b32*2} = []")
        .only_on((8, 6), BYTE_MATRICES),
    form("ldmatrix .sync .aligned .m16n16 .x2 .trans .shared|shared::cta? .b8", "{b32*4} = []")
        .only_on((8, 6), BYTE_MATRICES),
    form("stmatrix .sync .aligned .m16n8 .N:x1|x2|x4 .trans .shared|shared::cta? .b8", "[], {b32*N}")
        .only_on((8, 6), BYTE_MATRICES),
    form("movmatrix .sync .aligned .m8n8 .trans .b16", "b32 = b32!").since((7, 8), 80),
    form("mma .sync .aligned .m16n8k8 .row .col .f16 .f16 .f16 .f16", "{b32*2} = {b32*2}, {b32*1}, {b32*2}"),
    form("mma .sync .aligned .m16n8k8 .row .col .f32 .f16 .f16 .f32", "{f32*4} = {b32*2}, {b32*1}, {f32*4}"),
    form(
        "mma .sync .aligned .m16n8k8 .row .col .f32 .bf16 .bf16 .f32",
        "{f32*4} = {b32*2}, {b32*1}, {f32*4}",
    ),
    form("mma .sync .aligned .m16n8k16 .row .col .f16 .f16 .f16 .f16", "{b32*2} = {b32*4}, {b32*2}, {b32*2}"),
    form("mma .sync .aligned .m16n8k16 .row .col .f32 .f16 .f16 .f32", "{f32*4} = {b32*4}, {b32*2}, {f32*4}"),
    form(
        "mma .sync .aligned .m16n8k16 .row .col .f32 .bf16 .bf16 .f32",
        "{f32*4} = {b32*4}, {b32*2}, {f32*4}",
    ),
    form(
        "mma .sync .aligned .m16n8k4 .row .col .f32 .tf32 .tf32 .f32",
        "{f32*4} = {b32*2}, {b32*1}, {f32*4}",
    ),
    form(
        "mma .sync .aligned .m16n8k8 .row .col .f32 .tf32 .tf32 .f32",
        "{f32*4} = {b32*4}, {b32*2}, {f32*4}",
    ),
    form("mma .sync .aligned .m8n8k4 .row .col .f64 .f64 .f64 .f64", "{f64*2} = {f64*1}, {f64*1}, {f64*2}"),
    form("mma .sync .aligned .m16n8k4 .row .col .f64 .f64 .f64 .f64", "{f64*4} = {f64*2}, {f64*1}, {f64*4}")
        .since((7, 8), 90),
    form("mma .sync .aligned .m16n8k8 .row .col .f64 .f64 .f64 .f64", "{f64*4} = {f64*4}, {f64*2}, {f64*4}")
        .since((7, 8), 90),
    form("mma .sync .aligned .m16n8k16 .row .col .f64 .f64 .f64 .f64", "{f64*4} = {f64*8}, {f64*4}, {f64*4}")
        .since((7, 8), 90),
    form(
        "mma .sync .aligned .m8n8k4 .row|col .row|col .f16 .f16 .f16 .f16",
        "{b32*4} = {b32*2}, {b32*2}, {b32*4}",
    ),
    form(
        "mma .sync .aligned .m8n8k4 .row|col .row|col .f32 .f16 .f16 .f32",
        "{f32*8} = {b32*2}, {b32*2}, {f32*8}",
    ),
    form(
        "mma .sync .aligned .m8n8k16 .row .col .satfinite? .s32 .u8|s8 .u8|s8 .s32",
        "{b32*2} = {b32*1}, {b32*1}, {b32*2}",
    ),
    form(
        "mma .sync .aligned .m16n8k16 .row .col .satfinite? .s32 .u8|s8 .u8|s8 .s32",
        "{b32*4} = {b32*2}, {b32*1}, {b32*4}",
    ),
    form(
        "mma .sync .aligned .m16n8k32 .row .col .satfinite? .s32 .u8|s8 .u8|s8 .s32",
        "{b32*4} = {b32*4}, {b32*2}, {b32*4}",
    ),
    form(
        "mma .sync .aligned .m8n8k32 .row .col .satfinite? .s32 .u4|s4 .u4|s4 .s32",
        "{b32*2} = {b32*1}, {b32*1}, {b32*2}",
    ),
    form(
        "mma .sync .aligned .m16n8k32 .row .col .satfinite? .s32 .u4|s4 .u4|s4 .s32",
        "{b32*4} = {b32*2}, {b32*1}, {b32*4}",
    ),
    form(
        "mma .sync .aligned .m16n8k64 .row .col .satfinite? .s32 .u4|s4 .u4|s4 .s32",
        "{b32*4} = {b32*4}, {b32*2}, {b32*4}",
    ),
    form(
        "mma .sync .aligned .m8n8k128 .row .col .s32 .b1 .b1 .s32 .xor.popc|and.popc",
        "{b32*2} = {b32*1}, {b32*1}, {b32*2}",
    )
    .since((7, 1), 80),
    form(
        "mma .sync .aligned .m16n8k128 .row .col .s32 .b1 .b1 .s32 .xor.popc|and.popc",
        "{b32*4} = {b32*2}, {b32*1}, {b32*4}",
    )
    .since((7, 1), 80),
    form(
        "mma .sync .aligned .m16n8k256 .row .col .s32 .b1 .b1 .s32 .xor.popc|and.popc",
        "{b32*4} = {b32*4}, {b32*2}, {b32*4}",
    )
    .since((7, 1), 80),
    form(
        "mma .sync .aligned .m16n8k32 .row .col .f32 .e4m3|e5m2 .e4m3|e5m2 .f32",
        "{f32*4} = {b32*4}, {b32*2}, {f32*4}",
    )
    .since((8, 4), 89),
    form(
        "mma .sync .aligned .m16n8k16 .row .col .f32 .e4m3|e5m2 .e4m3|e5m2 .f32",
        "{f32*4} = {b32*2}, {b32*1}, {f32*4}",
    )
    .since((8, 7), 89),
    form(
        "mma .sync .aligned .m16n8k32 .row .col .f16 .e4m3|e5m2 .e4m3|e5m2 .f16",
        "{b32*2} = {b32*4}, {b32*2}, {b32*2}",
    )
    .since((8, 7), 89),
    form(
        "wmma .load .a|b .sync .aligned .row|col .m16n16k16|m8n32k16|m32n8k16 .shared|global? .f16",
        "{b32*8} = [], b32?",
    ),
    form("mma .sync .aligned .m8n8k4 .row|col .row|col .f32 .f16 .f16 .f16", "{f32*8} = {b32*2}, {b32*2}, {b32*4}"),
    form("mma .sync .aligned .m16n8k16 .row .col .f16 .e4m3|e5m2 .e4m3|e5m2 .f16", "{b32*2} = {b32*2}, {b32*1}, {b32*2}").since((8, 7), 89),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k16 .row .col .f16 .f16 .f16 .f16", "{b32*2} = {b32*2}, {b32*2}, {b32*2}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k16 .row .col .f32 .f16.f16|bf16.bf16 .f32", "{f32*4} = {b32*2}, {b32*2}, {f32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k32 .row .col .f16 .f16 .f16 .f16", "{b32*2} = {b32*4}, {b32*4}, {b32*2}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k32 .row .col .f32 .f16.f16|bf16.bf16 .f32", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k8 .row .col .f32 .tf32 .tf32 .f32", "{f32*4} = {b32*2}, {b32*2}, {f32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k16 .row .col .f32 .tf32 .tf32 .f32", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k32 .row .col .satfinite? .s32 .u8|s8 .u8|s8 .s32", "{b32*4} = {b32*2}, {b32*2}, {b32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .satfinite? .s32 .u8|s8 .u8|s8 .s32", "{b32*4} = {b32*4}, {b32*4}, {b32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .satfinite? .s32 .u4|s4 .u4|s4 .s32", "{b32*4} = {b32*2}, {b32*2}, {b32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k128 .row .col .satfinite? .s32 .u4|s4 .u4|s4 .s32", "{b32*4} = {b32*4}, {b32*4}, {b32*4}, b32!, #").since((7, 1), 80),
    form("mma .sp|sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .f32 .e4m3|e5m2 .e4m3|e5m2 .f32", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #").since((8, 4), 89),
    form("wmma .load .a|b .sync .aligned .row|col .m16n16k16 .shared|global? .bf16", "{b32*4} = [], b32?"),
    form("wmma .load .a .sync .aligned .row|col .m8n32k16 .shared|global? .bf16", "{b32*2} = [], b32?"),
    form("wmma .load .b .sync .aligned .row|col .m8n32k16 .shared|global? .bf16", "{b32*8} = [], b32?"),
    form("wmma .load .a .sync .aligned .row|col .m32n8k16 .shared|global? .bf16", "{b32*8} = [], b32?"),
    form("wmma .load .b .sync .aligned .row|col .m32n8k16 .shared|global? .bf16", "{b32*2} = [], b32?"),
    form("wmma .load .a|b .sync .aligned .row|col .m16n16k8 .shared|global? .tf32", "{b32*4} = [], b32?"),
    form("wmma .load .a|b .sync .aligned .row|col .m8n8k4 .shared|global? .f64", "{f64*1} = [], b32?"),
    form("wmma .load .a|b .sync .aligned .row|col .m16n16k16 .shared|global? .s8|u8", "{b32*2} = [], b32?"),
    form("wmma .load .a .sync .aligned .row|col .m8n32k16 .shared|global? .s8|u8", "{b32*1} = [], b32?"),
    form("wmma .load .b .sync .aligned .row|col .m8n32k16 .shared|global? .s8|u8", "{b32*4} = [], b32?"),
    form("wmma .load .a .sync .aligned .row|col .m32n8k16 .shared|global? .s8|u8", "{b32*4} = [], b32?"),
    form("wmma .load .b .sync .aligned .row|col .m32n8k16 .shared|global? .s8|u8", "{b32*1} = [], b32?"),
    form("wmma .load .a .sync .aligned .row .m8n8k32 .shared|global? .s4|u4", "{b32*1} = [], b32?"),
    form("wmma .load .b .sync .aligned .col .m8n8k32 .shared|global? .s4|u4", "{b32*1} = [], b32?"),
    form("wmma .load .a .sync .aligned .row .m8n8k128 .shared|global? .b1", "{b32*1} = [], b32?"),
    form("wmma .load .b .sync .aligned .col .m8n8k128 .shared|global? .b1", "{b32*1} = [], b32?"),
    form(
        "wmma .load .c .sync .aligned .row|col .m16n16k16|m8n32k16|m32n8k16 .shared|global? .f16",
        "{b32*4} = [], b32?",
    ),
    form(
        "wmma .load .c .sync .aligned .row|col .m16n16k16|m8n32k16|m32n8k16 .shared|global? .f32|s32",
        "{b32*8} = [], b32?",
    ),
    form("wmma .load .c .sync .aligned .row|col .m16n16k8 .shared|global? .f32", "{f32*8} = [], b32?"),
    form("wmma .load .c .sync .aligned .row|col .m8n8k4 .shared|global? .f64", "{f64*2} = [], b32?"),
    form(
        "wmma .load .c .sync .aligned .row|col .m8n8k32|m8n8k128 .shared|global? .s32",
        "{b32*2} = [], b32?",
    ),
    form(
        "wmma .store .d .sync .aligned .row|col .m16n16k16|m8n32k16|m32n8k16 .shared|global? .f16",
        "[], {b32*4}, b32?",
    ),
    form(
        "wmma .store .d .sync .aligned .row|col .m16n16k16|m8n32k16|m32n8k16 .shared|global? .f32|s32",
        "[], {b32*8}, b32?",
    ),
    form("wmma .store .d .sync .aligned .row|col .m16n16k8 .shared|global? .f32", "[], {f32*8}, b32?"),
    form("wmma .store .d .sync .aligned .row|col .m8n8k4 .shared|global? .f64", "[], {f64*2}, b32?"),
    form(
        "wmma .store .d .sync .aligned .row|col .m8n8k32|m8n8k128 .shared|global? .s32",
        "[], {b32*2}, b32?",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k16|m8n32k16|m32n8k16 .f16 .f16",
        "{b32*4} = {b32*8}, {b32*8}, {b32*4}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k16|m8n32k16|m32n8k16 .f32 .f32",
        "{f32*8} = {b32*8}, {b32*8}, {f32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k16|m8n32k16|m32n8k16 .f16 .f32",
        "{b32*4} = {b32*8}, {b32*8}, {f32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k16|m8n32k16|m32n8k16 .f32 .f16",
        "{f32*8} = {b32*8}, {b32*8}, {b32*4}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k16 .f32 .bf16 .bf16 .f32",
        "{f32*8} = {b32*4}, {b32*4}, {f32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m8n32k16 .f32 .bf16 .bf16 .f32",
        "{f32*8} = {b32*2}, {b32*8}, {f32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m32n8k16 .f32 .bf16 .bf16 .f32",
        "{f32*8} = {b32*8}, {b32*2}, {f32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k8 .f32 .tf32 .tf32 .f32",
        "{f32*8} = {b32*4}, {b32*4}, {f32*8}",
    ),
    // The place that compilers write the rounding in.
    form("wmma .mma .sync .aligned .row|col .row|col .m8n8k4 .f64 .f64 .f64 .f64 .rn", "{f64*2} = {f64*1}, {f64*1}, {f64*2}"),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m8n8k4 .rn? .f64 .f64 .f64 .f64",
        "{f64*2} = {f64*1}, {f64*1}, {f64*2}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m16n16k16 .s32 .s8.s8|u8.u8 .s32 .satfinite?",
        "{b32*8} = {b32*2}, {b32*2}, {b32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m8n32k16 .s32 .s8.s8|u8.u8 .s32 .satfinite?",
        "{b32*8} = {b32*1}, {b32*4}, {b32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row|col .row|col .m32n8k16 .s32 .s8.s8|u8.u8 .s32 .satfinite?",
        "{b32*8} = {b32*4}, {b32*1}, {b32*8}",
    ),
    form(
        "wmma .mma .sync .aligned .row .col .m8n8k32 .s32 .s4.s4|u4.u4 .s32 .satfinite?",
        "{b32*2} = {b32*1}, {b32*1}, {b32*2}",
    ),
    form(
        "wmma .mma .xor.popc|and.popc .sync .aligned .row .col .m8n8k128 .s32 .b1 .b1 .s32",
        "{b32*2} = {b32*1}, {b32*1}, {b32*2}",
    )
    .since((7, 1), 80),
    form("wgmma .fence .sync .aligned", "").only_on((8, 0), HOPPER),
    form("wgmma .commit_group .sync .aligned", "").only_on((8, 0), HOPPER),
    form("wgmma .wait_group .sync .aligned", "#").only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k16"), " .f32 .f16 .f16"),
        "{f32*M.n/2} += b64!, b64!, pred, #, #, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k16"), " .f16 .f16 .f16"),
        "{b32*M.n/4} += b64!, b64!, pred, #, #, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k16"), " .f32 .bf16 .bf16"),
        "{f32*M.n/2} += b64!, b64!, pred, #, #, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k16"), " .f32 .f16 .f16"),
        "{f32*M.n/2} += {b32*4}, b64!, pred, #, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k16"), " .f16 .f16 .f16"),
        "{b32*M.n/4} += {b32*4}, b64!, pred, #, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k16"), " .f32 .bf16 .bf16"),
        "{f32*M.n/2} += {b32*4}, b64!, pred, #, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k8"), " .f32 .tf32 .tf32"),
        "{f32*M.n/2} += b64!, b64!, pred, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k32"), " .f32 .e4m3|e5m2 .e4m3|e5m2"),
        "{f32*M.n/2} += b64!, b64!, pred, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k32"), " .f16 .e4m3|e5m2 .e4m3|e5m2"),
        "{b32*M.n/4} += b64!, b64!, pred, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", integer_shapes!("k32"), " .s32 .s8.s8|u8.u8 .satfinite?"),
        "{b32*M.n/2} += b64!, b64!, pred",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", integer_shapes!("k32"), " .s32 .s8.u8|u8.s8 .satfinite?"),
        "{b32*M.n/2} += b64!, b64!, pred",
    )
    .only_on((8, 4), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", integer_shapes!("k256"), " .s32 .b1 .b1 .and.popc"),
        "{b32*M.n/2} += b64!, b64!, pred",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k8"), " .f32 .tf32 .tf32"),
        "{f32*M.n/2} += {b32*4}, b64!, pred, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k32"), " .f32 .e4m3|e5m2 .e4m3|e5m2"),
        "{f32*M.n/2} += {b32*4}, b64!, pred, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", float_shapes!("k32"), " .f16 .e4m3|e5m2 .e4m3|e5m2"),
        "{b32*M.n/4} += {b32*4}, b64!, pred, #, #",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", integer_shapes!("k32"), " .s32 .s8.s8|u8.u8 .satfinite?"),
        "{b32*M.n/2} += {b32*4}, b64!, pred",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", integer_shapes!("k32"), " .s32 .s8.u8|u8.s8 .satfinite?"),
        "{b32*M.n/2} += {b32*4}, b64!, pred",
    )
    .only_on((8, 4), HOPPER),
    form(
        concat!("wgmma .mma_async .sync .aligned ", integer_shapes!("k256"), " .s32 .b1 .b1 .and.popc"),
        "{b32*M.n/2} += {b32*4}, b64!, pred",
    )
    .only_on((8, 0), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k32"), " .f32 .f16.f16|bf16.bf16"),
        "{f32*M.n/2} += b64!, b64!, b32!, #, pred, #, #, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k32"), " .f32 .f16.f16|bf16.bf16"),
        "{f32*M.n/2} += {b32*4}, b64!, b32!, #, pred, #, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k32"), " .f16 .f16 .f16"),
        "{b32*M.n/4} += b64!, b64!, b32!, #, pred, #, #, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k32"), " .f16 .f16 .f16"),
        "{b32*M.n/4} += {b32*4}, b64!, b32!, #, pred, #, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k16"), " .f32 .tf32 .tf32"),
        "{f32*M.n/2} += b64!, b64!, b32!, #, pred, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k16"), " .f32 .tf32 .tf32"),
        "{f32*M.n/2} += {b32*4}, b64!, b32!, #, pred, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k64"), " .f32 .e4m3|e5m2 .e4m3|e5m2"),
        "{f32*M.n/2} += b64!, b64!, b32!, #, pred, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k64"), " .f32 .e4m3|e5m2 .e4m3|e5m2"),
        "{f32*M.n/2} += {b32*4}, b64!, b32!, #, pred, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k64"), " .f16 .e4m3|e5m2 .e4m3|e5m2"),
        "{b32*M.n/4} += b64!, b64!, b32!, #, pred, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", float_shapes!("k64"), " .f16 .e4m3|e5m2 .e4m3|e5m2"),
        "{b32*M.n/4} += {b32*4}, b64!, b32!, #, pred, #, #",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", integer_shapes!("k64"), " .s32 .s8.s8|u8.u8 .satfinite?"),
        "{b32*M.n/2} += b64!, b64!, b32!, #, pred",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", integer_shapes!("k64"), " .s32 .s8.s8|u8.u8 .satfinite?"),
        "{b32*M.n/2} += {b32*4}, b64!, b32!, #, pred",
    )
    .only_on((8, 2), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", integer_shapes!("k64"), " .s32 .s8.u8|u8.s8 .satfinite?"),
        "{b32*M.n/2} += b64!, b64!, b32!, #, pred",
    )
    .only_on((8, 4), HOPPER),
    form(
        concat!("wgmma .mma_async .sp .sync .aligned ", integer_shapes!("k64"), " .s32 .s8.u8|u8.s8 .satfinite?"),
        "{b32*M.n/2} += {b32*4}, b64!, b32!, #, pred",
    )
    .only_on((8, 4), HOPPER),
];
