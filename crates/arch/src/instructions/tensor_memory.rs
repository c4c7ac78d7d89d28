//! Tensor memory and the matrix engine that works in it (PTX ISA, "TensorCore 5th Generation Family
//! Instructions").

use super::{Form, form};

pub(super) const BLACKWELL: &[&str] = &["sm_100a"];

pub(super) const FORMS: &[Form] = &[
    form("tcgen05 .alloc .cta_group::1|cta_group::2 .sync .aligned .shared::cta? .b32", "[], b32")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .dealloc .cta_group::1|cta_group::2 .sync .aligned .b32", "b32!, b32").only_on((8, 6), BLACKWELL),
    form("tcgen05 .relinquish_alloc_permit .cta_group::1|cta_group::2 .sync .aligned", "").only_on((8, 6), BLACKWELL),
    form("tcgen05 .wait::ld|wait::st .sync .aligned", "").only_on((8, 6), BLACKWELL),
    form("tcgen05 .fence::before_thread_sync|fence::after_thread_sync", "").only_on((8, 6), BLACKWELL),
    form("tcgen05 .ld .sync .aligned .32x32b|16x64b .N:$counts .pack::16b? .b32", "{b32*N} = [tensor]")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .ld .sync .aligned .16x128b .N:x1|x2|x4|x8|x16|x32|x64 .pack::16b? .b32", "{b32*N.x*2} = [tensor]")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .ld .sync .aligned .16x256b .N:x1|x2|x4|x8|x16|x32 .pack::16b? .b32", "{b32*N.x*4} = [tensor]")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .ld .sync .aligned .16x32bx2 .N:$counts .pack::16b? .b32", "{b32*N} = [tensor], #")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .st .sync .aligned .32x32b|16x64b .N:$counts .unpack::16b? .b32", "[tensor], {b32*N}")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .st .sync .aligned .16x128b .N:x1|x2|x4|x8|x16|x32|x64 .unpack::16b? .b32", "[tensor], {b32*N.x*2}")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .st .sync .aligned .16x256b .N:x1|x2|x4|x8|x16|x32 .unpack::16b? .b32", "[tensor], {b32*N.x*4}")
        .only_on((8, 6), BLACKWELL),
    form("tcgen05 .st .sync .aligned .16x32bx2 .N:$counts .unpack::16b? .b32", "[tensor], #, {b32*N}")
        .only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .commit .cta_group::1|cta_group::2 .mbarrier::arrive::one .shared::cluster? .multicast::cluster? .b64",
        "[], b16!@multicast::cluster",
    )
    .only_on((8, 6), BLACKWELL),
    form("tcgen05 .cp .cta_group::1|cta_group::2 .128x256b|4x256b|128x128b .$decompression?", "[tensor], b64!").only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .cp .cta_group::1|cta_group::2 .64x128b.warpx2::02_13|64x128b.warpx2::01_23|32x128b.warpx4 .$decompression?",
        "[tensor], b64!",
    )
    .only_on((8, 6), BLACKWELL),
    form("tcgen05 .shift .cta_group::1|cta_group::2 .down", "[tensor]").only_on((8, 6), BLACKWELL),
    // A in shared memory, and in tensor memory. A mask has rows of D that are not written; the last
    // operand divides what D holds by a power of two.
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$tensor_kinds .$collector?",
        "[tensor], b64!, b64!, b32!, pred, #?@kind::f16, #?@kind::tf32",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$tensor_kinds .$collector?",
        "[tensor], b64!, b64!, b32!, {b32*4}@cta_group::1, {b32*8}@cta_group::2, pred, #?@kind::f16, #?@kind::tf32",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$tensor_kinds .$collector?",
        "[tensor], [tensor], b64!, b32!, pred, #?@kind::f16, #?@kind::tf32",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$tensor_kinds .$collector?",
        "[tensor], [tensor], b64!, b32!, {b32*4}@cta_group::1, {b32*8}@cta_group::2, pred, #?@kind::f16, #?@kind::tf32",
    )
    .only_on((8, 6), BLACKWELL),
    // With scales of A and of B.
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$scaled_kinds .$collector?",
        "[tensor], b64!, b64!, b32!, [tensor], [tensor], pred",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$scaled_kinds .$collector?",
        "[tensor], [tensor], b64!, b32!, [tensor], [tensor], pred",
    )
    .only_on((8, 6), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$packed_kinds .$collector?",
        "[tensor], b64!, b64!, b32!, [tensor], [tensor], pred",
    )
    .only_on((8, 7), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$packed_kinds .$collector?",
        "[tensor], [tensor], b64!, b32!, [tensor], [tensor], pred",
    )
    .only_on((8, 7), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$block_kinds .$collector?",
        "[tensor], b64!, b64!, b32!, [tensor], [tensor], pred",
    )
    .only_on((8, 8), BLACKWELL),
    form(
        "tcgen05 .mma .cta_group::1|cta_group::2 .$block_kinds .$collector?",
        "[tensor], [tensor], b64!, b32!, [tensor], [tensor], pred",
    )
    .only_on((8, 8), BLACKWELL),
];
