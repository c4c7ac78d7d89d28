//! Asynchronous copies and the tensor memory accelerator (PTX ISA, "Data Movement and Conversion
//! Instructions: Asynchronous copy", "Tensor copy", "Bulk copy").

use super::tensor_memory::BLACKWELL;
use super::{Form, form};

const HOPPER: ((u32, u32), u32) = ((8, 0), 90);

/// The targets with `tensormap.replace`.
const REPLACED: &[&str] = &["sm_90a", "sm_100a", "sm_103a", "sm_120a"];

pub(super) const FORMS: &[Form] = &[
    form("cp .async .ca|cg .shared|shared::cta .global .L2::64B|L2::128B|L2::256B?", "[], [], #, b32!?"),
    form("cp .async .ca|cg .shared|shared::cta .global .L2::64B|L2::128B|L2::256B?", "[], [], #, pred").since((7, 5), 80),
    form("cp .async .ca|cg .shared|shared::cta .global .L2::cache_hint .L2::64B|L2::128B|L2::256B?", "[], [], #, b64!"),
    form("cp .async .ca|cg .shared|shared::cta .global .L2::cache_hint .L2::64B|L2::128B|L2::256B?", "[], [], #, b32!, b64!"),
    form("cp .async .commit_group", ""),
    form("cp .async .wait_group", "#"),
    form("cp .async .wait_all", ""),
    form("cp .async .mbarrier .arrive .noinc? .shared|shared::cta? .b64", "[]"),
    form("cp .async .bulk .commit_group", "").since(HOPPER.0, HOPPER.1),
    form("cp .async .bulk .wait_group .read?", "#").since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .shared::cluster .global .mbarrier::complete_tx::bytes .multicast::cluster? .L2::cache_hint?",
        "[], [], b32, [], b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form("cp .async .bulk .shared::cta .global .mbarrier::complete_tx::bytes .L2::cache_hint?", "[], [], b32, [], b64!@L2::cache_hint")
        .since((8, 6), 90),
    form("cp .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes", "[], [], b32, []")
        .since(HOPPER.0, HOPPER.1),
    form("cp .async .bulk .global .shared::cta .bulk_group .L2::cache_hint?", "[], [], b32, b64!@L2::cache_hint")
        .since(HOPPER.0, HOPPER.1),
    // The mask has a bit for each of 16 bytes.
    form(
        "cp .async .bulk .global .shared::cta .bulk_group .L2::cache_hint? .cp_mask",
        "[], [], b32, b64!@L2::cache_hint, b16!",
    )
    .since((8, 6), 100),
    form("cp .async .bulk .prefetch .L2 .global .L2::cache_hint?", "[], b32, b64!@L2::cache_hint")
        .since(HOPPER.0, HOPPER.1),
    form(
        "cp .reduce .async .bulk .global .shared::cta .bulk_group .L2::cache_hint? .add.u32|add.s32|add.u64|inc.u32|dec.u32|min.u32|min.s32|min.u64|min.s64|max.u32|max.s32|max.u64|max.s64|and.b32|and.b64|or.b32|or.b64|xor.b32|xor.b64",
        "[], [], b32, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .reduce .async .bulk .global .shared::cta .bulk_group .L2::cache_hint? .add .f32|f64",
        "[], [], b32, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .reduce .async .bulk .global .shared::cta .bulk_group .L2::cache_hint? .add.noftz|min|max .f16|bf16",
        "[], [], b32, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:1d|2d|3d|4d|5d .shared::cluster .global .tile? .mbarrier::complete_tx::bytes \
         .multicast::cluster? .L2::cache_hint?",
        "[], [*N], [], b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    // The mbarrier may be that of the other CTA of a pair.
    form(
        "cp .async .bulk .tensor .N:1d|2d|3d|4d|5d .shared::cluster .global .tile? .mbarrier::complete_tx::bytes \
         .multicast::cluster? .cta_group::1|cta_group::2 .L2::cache_hint?",
        "[], [*N], [], b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .N:1d|2d|3d|4d|5d .shared::cta .global .tile? .mbarrier::complete_tx::bytes \
         .cta_group::1|cta_group::2 .L2::cache_hint?",
        "[], [*N], [], b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .N:1d|2d|3d|4d|5d .shared::cta .global .tile? .mbarrier::complete_tx::bytes .L2::cache_hint?",
        "[], [*N], [], b64!@L2::cache_hint",
    )
    .since((8, 6), 90),
    form(
        "cp .async .bulk .tensor .N:1d|2d|3d|4d|5d .global .shared::cta .tile? .bulk_group .L2::cache_hint?",
        "[*N], [], b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form("cp .async .bulk .prefetch .tensor .N:1d|2d|3d|4d|5d .L2 .global .tile? .L2::cache_hint?", "[*N], b64!@L2::cache_hint")
        .since(HOPPER.0, HOPPER.1),
    form(
        "cp .reduce .async .bulk .tensor .N:1d|2d|3d|4d|5d .global .shared::cta .add|min|max|inc|dec|and|or|xor .tile? \
         .bulk_group .L2::cache_hint?",
        "[*N], [], b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    // Four rows: a column, and the index of each row. ptxas takes `.shared::cta` on every sm_100.
    form(
        "cp .async .bulk .tensor .2d .shared::cluster .global .tile::gather4 .mbarrier::complete_tx::bytes \
         .multicast::cluster? .L2::cache_hint?",
        "[], [*5], [], b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .2d .shared::cta .global .tile::gather4 .mbarrier::complete_tx::bytes .L2::cache_hint?",
        "[], [*5], [], b64!@L2::cache_hint",
    )
    .since((8, 6), 100),
    form(
        "cp .async .bulk .tensor .2d .global .shared::cta .tile::scatter4 .bulk_group .L2::cache_hint?",
        "[*5], [], b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form("cp .async .bulk .prefetch .tensor .2d .L2 .global .tile::gather4 .L2::cache_hint?", "[*5], b64!@L2::cache_hint")
        .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .N:3d .shared::cluster .global .im2col .mbarrier::complete_tx::bytes \
         .multicast::cluster? .L2::cache_hint?",
        "[], [*N], [], {b16*1}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:3d .shared::cta .global .im2col .mbarrier::complete_tx::bytes .L2::cache_hint?",
        "[], [*N], [], {b16*1}, b64!@L2::cache_hint",
    )
    .since((8, 6), 90),
    form(
        "cp .async .bulk .prefetch .tensor .N:3d .L2 .global .im2col .L2::cache_hint?",
        "[*N], {b16*1}, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:4d .shared::cluster .global .im2col .mbarrier::complete_tx::bytes \
         .multicast::cluster? .L2::cache_hint?",
        "[], [*N], [], {b16*2}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:4d .shared::cta .global .im2col .mbarrier::complete_tx::bytes .L2::cache_hint?",
        "[], [*N], [], {b16*2}, b64!@L2::cache_hint",
    )
    .since((8, 6), 90),
    form(
        "cp .async .bulk .prefetch .tensor .N:4d .L2 .global .im2col .L2::cache_hint?",
        "[*N], {b16*2}, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:5d .shared::cluster .global .im2col .mbarrier::complete_tx::bytes \
         .multicast::cluster? .L2::cache_hint?",
        "[], [*N], [], {b16*3}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:5d .shared::cta .global .im2col .mbarrier::complete_tx::bytes .L2::cache_hint?",
        "[], [*N], [], {b16*3}, b64!@L2::cache_hint",
    )
    .since((8, 6), 90),
    form(
        "cp .async .bulk .prefetch .tensor .N:5d .L2 .global .im2col .L2::cache_hint?",
        "[*N], {b16*3}, b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .async .bulk .tensor .N:3d .shared::cluster .global .im2col .mbarrier::complete_tx::bytes \
         .multicast::cluster? .cta_group::1|cta_group::2 .L2::cache_hint?",
        "[], [*N], [], {b16*1}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .N:4d .shared::cluster .global .im2col .mbarrier::complete_tx::bytes \
         .multicast::cluster? .cta_group::1|cta_group::2 .L2::cache_hint?",
        "[], [*N], [], {b16*2}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .N:5d .shared::cluster .global .im2col .mbarrier::complete_tx::bytes \
         .multicast::cluster? .cta_group::1|cta_group::2 .L2::cache_hint?",
        "[], [*N], [], {b16*3}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    // The rows of im2col along axis 1 alone, and how far the filter and its halo are.
    form(
        "cp .async .bulk .tensor .N:3d|4d|5d .shared::cluster .global .im2col::w|im2col::w::128 \
         .mbarrier::complete_tx::bytes .multicast::cluster? .cta_group::1|cta_group::2? .L2::cache_hint?",
        "[], [*N], [], {b16*2}, b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .prefetch .tensor .N:3d|4d|5d .L2 .global .im2col::w|im2col::w::128 .L2::cache_hint?",
        "[*N], {b16*2}, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .2d .shared::cluster .global .tile::gather4 .mbarrier::complete_tx::bytes \
         .multicast::cluster? .cta_group::1|cta_group::2 .L2::cache_hint?",
        "[], [*5], [], b16!@multicast::cluster, b64!@L2::cache_hint",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "cp .async .bulk .tensor .N:3d|4d|5d .global .shared::cta .im2col_no_offs .bulk_group .L2::cache_hint?",
        "[*N], [], b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .reduce .async .bulk .tensor .N:3d|4d|5d .global .shared::cta .add|min|max|inc|dec|and|or|xor \
         .im2col_no_offs .bulk_group .L2::cache_hint?",
        "[*N], [], b64!@L2::cache_hint",
    )
    .since(HOPPER.0, HOPPER.1),
    form(
        "cp .reduce .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes \
         .add.u32|add.s32|add.u64|inc.u32|dec.u32|min.u32|min.s32|max.u32|max.s32|and.b32|or.b32|xor.b32",
        "[], [], b32, []",
    )
    .since(HOPPER.0, HOPPER.1),
    form("tensormap .replace .tile .global_address .global|shared::cta? .b1024 .b64", "[], b64").only_on((8, 3), REPLACED),
    form("tensormap .replace .tile .rank .global|shared::cta? .b1024 .b32", "[], b32").only_on((8, 3), REPLACED),
    form("tensormap .replace .tile .box_dim|global_dim|element_stride .global|shared::cta? .b1024 .b32", "[], #, b32")
        .only_on((8, 3), REPLACED),
    // Assemblers before CUDA 12.5 (PTX 8.5) took the stride in units of 16 bytes.
    form("tensormap .replace .tile .global_stride .global|shared::cta? .b1024 .b64", "[], #, b64")
        .only_on((8, 5), REPLACED),
    form(
        "tensormap .replace .tile .elemtype|interleave_layout|swizzle_mode|fill_mode .global|shared::cta? .b1024 .b32",
        "[], #",
    )
    .only_on((8, 3), REPLACED),
    form(
        "tensormap .cp_fenceproxy .global .shared::cta .tensormap::generic .release .cta|cluster|gpu|sys .sync .aligned",
        "[], [], #",
    )
    .since((8, 3), 90),
    form("st .async .weak? .shared::cluster .mbarrier::complete_tx::bytes .V:v2|v4? .T:b32|b64|u32|u64|s32|s64|f32|f64", "[], {T*V:128}, []")
        .since((8, 1), 90),
    form("red .async .relaxed .cluster .shared::cluster? .mbarrier::complete_tx::bytes .inc|dec|min|max|add .u32", "[], b32, []")
        .since((8, 1), 90),
    form("red .async .relaxed .cluster .shared::cluster? .mbarrier::complete_tx::bytes .min|max|add .s32", "[], b32, []")
        .since((8, 1), 90),
    form("red .async .relaxed .cluster .shared::cluster? .mbarrier::complete_tx::bytes .add .u64|s64", "[], b64, []")
        .since((8, 1), 90),
    form("red .async .relaxed .cluster .shared::cluster? .mbarrier::complete_tx::bytes .and|or|xor .b32", "[], b32, []")
        .since((8, 1), 90),
    // To global memory, of another device too. ptxas 13.0 stores 8 bits from `.b8` registers only.
    form("st .async .mmio? .release .gpu|sys .global? .T:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64", "[], T")
        .since((8, 7), 100),
    form("red .async .mmio? .release .gpu|sys .global? .inc|dec|min|max|add .u32", "[], b32").since((8, 7), 100),
    form("red .async .mmio? .release .gpu|sys .global? .min|max|add .s32", "[], b32").since((8, 7), 100),
    form("red .async .mmio? .release .gpu|sys .global? .add .u64|s64", "[], b64").since((8, 7), 100),
    form("red .async .mmio? .release .gpu|sys .global? .and|or|xor .b32", "[], b32").since((8, 7), 100),
    form("st .bulk .weak? .shared::cta?", "[], b64, #").since((8, 6), 100),
    form("multimem .ld_reduce .relaxed .cta|gpu|sys .global? .add .T:u32|s32|u64|f32|f64", "T = []").since((8, 1), 90),
    form("multimem .ld_reduce .relaxed .cta|gpu|sys .global? .add .V:v4|v2 .T:f32|f16x2|bf16x2", "{T*V} = []")
        .since((8, 1), 90),
    form("multimem .st .relaxed .cta|gpu|sys .global? .T:u32|s32|u64|f32|f64", "[], T").since((8, 1), 90),
    form("multimem .red .relaxed .cta|gpu|sys .global? .add .T:u32|s32|u64|f32|f64", "[], T").since((8, 1), 90),
];
