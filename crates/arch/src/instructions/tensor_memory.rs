//! Tensor memory and the matrix engine that works in it (PTX ISA, "TensorCore 5th Generation Family
//! Instructions").

use super::Class::*;
use super::availability::{BLOCK_SCALES, BYTE_PRODUCTS, DATACENTER, REDUCING, TENSOR_MEMORY};
use super::{Form, form};

pub(super) const FORMS: &[Form] = &[
    form(TensorMemoryControl, "tcgen05.alloc .cta_group::1|cta_group::2 .sync .aligned .shared::cta? .b32", "[], b32").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryControl, "tcgen05.dealloc .cta_group::1|cta_group::2 .sync .aligned .b32", "b32!, b32").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryControl, "tcgen05.relinquish_alloc_permit .cta_group::1|cta_group::2 .sync .aligned", "").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemorySync, "tcgen05.wait::ld|tcgen05.wait::st .sync .aligned", "").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemorySync, "tcgen05.fence::before_thread_sync|tcgen05.fence::after_thread_sync", "").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryLoad, "tcgen05.ld .sync .aligned? .32x32b|16x64b .N:$counts .pack::16b? .b32", "{b32*N} = [tensor]").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryLoad, "tcgen05.ld .sync .aligned? .16x128b .N:x1|x2|x4|x8|x16|x32|x64 .pack::16b? .b32", "{b32*N.x*2} = [tensor]").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryLoad, "tcgen05.ld .sync .aligned? .16x256b .N:x1|x2|x4|x8|x16|x32 .pack::16b? .b32", "{b32*N.x*4} = [tensor]").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryLoad, "tcgen05.ld .sync .aligned? .16x32bx2 .N:$counts .pack::16b? .b32", "{b32*N} = [tensor], #").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryStore, "tcgen05.st .sync .aligned? .32x32b|16x64b .N:$counts .unpack::16b? .b32", "[tensor], {b32*N}").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryStore, "tcgen05.st .sync .aligned? .16x128b .N:x1|x2|x4|x8|x16|x32|x64 .unpack::16b? .b32", "[tensor], {b32*N.x*2}").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryStore, "tcgen05.st .sync .aligned? .16x256b .N:x1|x2|x4|x8|x16|x32 .unpack::16b? .b32", "[tensor], {b32*N.x*4}").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryStore, "tcgen05.st .sync .aligned? .16x32bx2 .N:$counts .unpack::16b? .b32", "[tensor], #, {b32*N}").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryControl, "tcgen05.commit .cta_group::1|cta_group::2 .mbarrier::arrive::one .shared::cluster? .multicast::cluster? .b64", "[], b16!@multicast::cluster").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryCopy, "tcgen05.cp .cta_group::1|cta_group::2 .128x256b|4x256b|128x128b .$decompression?", "[tensor], b64!").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryCopy, "tcgen05.cp .cta_group::1|cta_group::2 .64x128b.warpx2::02_13|64x128b.warpx2::01_23|32x128b.warpx4 .$decompression?", "[tensor], b64!").only_on((8, 6), TENSOR_MEMORY),
    form(TensorMemoryCopy, "tcgen05.shift .cta_group::1|cta_group::2 .down", "[tensor]").only_on((8, 6), BLOCK_SCALES),
    // Also the least, or the greatest, of the registers that each lane loads.
    form(TensorMemoryLoad, "tcgen05.ld.red .sync .aligned? .32x32b .N:x2|x4|x8|x16|x32|x64|x128 .min|max .u32|s32", "{b32*N}, b32 = [tensor]").only_on((8, 8), REDUCING),
    form(TensorMemoryLoad, "tcgen05.ld.red .sync .aligned? .32x32b .N:x2|x4|x8|x16|x32|x64|x128 .min|max .abs? .NaN? .f32", "{b32*N}, b32 = [tensor]").only_on((8, 8), REDUCING),
    form(TensorMemoryLoad, "tcgen05.ld.red .sync .aligned? .16x32bx2 .N:x2|x4|x8|x16|x32|x64|x128 .min|max .u32|s32", "{b32*N}, b32 = [tensor], #").only_on((8, 8), REDUCING),
    form(TensorMemoryLoad, "tcgen05.ld.red .sync .aligned? .16x32bx2 .N:x2|x4|x8|x16|x32|x64|x128 .min|max .abs? .NaN? .f32", "{b32*N}, b32 = [tensor], #").only_on((8, 8), REDUCING),
];

/// The kinds of a multiply, whether A may be sparse, the PTX version and the targets that have them,
/// and whether they have scales.
type Kinds = (&'static str, &'static str, (u32, u32), &'static [&'static str], bool);

const KINDS: [Kinds; 7] = [
    ("$tensor_kinds", ".sp?", (8, 6), TENSOR_MEMORY, false),
    ("kind::i8", ".sp?", (8, 6), BYTE_PRODUCTS, false),
    ("$scaled_kinds", ".sp?", (8, 6), BLOCK_SCALES, true),
    ("$packed_kinds", ".sp?", (8, 7), BLOCK_SCALES, true),
    ("$mixed_kinds", ".sp?", (8, 8), TENSOR_MEMORY, true),
    ("$narrow_kinds", "", (8, 8), TENSOR_MEMORY, true),
    ("$narrow_kinds", ".sp", (8, 8), BLOCK_SCALES, true),
];

/// The forms of `tcgen05.mma`, with A in shared memory and in tensor memory. Of a sparse A there is
/// metadata. A mask has rows of D that are not written; a literal divides what D holds by a power of
/// two; a register at the end masks columns of B. Their text is allocated once and never freed.
pub(super) fn multiply_forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for (kinds, sparse, version, targets, is_scaled) in KINDS {
        for a in ["b64!", "[tensor]"] {
            let matrices = format!("[tensor], {a}, b64!, [tensor]@sp, b32!");
            let mut add = |name: String, rest: &str, targets| {
                let operands = format!("{matrices}, {rest}");
                forms.push(form(TensorMemoryMma, name.leak(), operands.leak()).only_on(version, targets));
            };
            let name = |kinds: &str, usage: &str| {
                format!("tcgen05.mma {sparse} .cta_group::1|cta_group::2 .{kinds} .{usage}")
            };
            if is_scaled {
                add(name(kinds, "$collector?"), "[tensor], [tensor], pred", targets);
                continue;
            }
            let usages = if a == "[tensor]" { &["$collector?", "$shifted"][..] } else { &["$collector?"] };
            for usage in usages {
                for mask in ["", "{b32*4}@cta_group::1, {b32*8}@cta_group::2, "] {
                    add(name(kinds, usage), &format!("{mask}pred"), targets);
                    if kinds == "$tensor_kinds" {
                        let kinds = "kind::f16|kind::tf32";
                        add(name(kinds, usage), &format!("{mask}pred, #"), DATACENTER);
                    }
                }
            }
            let name = format!("tcgen05.mma.ws {sparse} .cta_group::1 .{kinds} .$collector_of_b?");
            add(name, "pred, b64!?", targets);
        }
    }
    forms
}
