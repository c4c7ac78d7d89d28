//! The text of a bf16 GEMM with `mma.sync`, as a tensor-core kernel of the sm_80 class is written.
//!
//! C = A Bᵀ, with A (m, k) and B (n, k) row-major bf16, C (m, n) row-major f32; m and n multiples
//! of 128, k of 32. A CTA of four warps makes 128 by 128 of C in steps of 32 along k, three stages
//! of `cp.async` deep; a warp makes 64 by 64 with `mma.m16n8k16`. A row of a shared tile is 64
//! bytes, whose 16-byte pieces are permuted by bits 1 and 2 of the row, so that the eight rows of
//! an `ldmatrix` meet all banks.

use std::fmt::Write;

const STAGES: u32 = 3;
const TILE_BYTES: u32 = 128 * 64;
const STAGE_BYTES: u32 = 2 * TILE_BYTES;
/// Tiles of 16 rows, and of 8 columns, of a warp.
const ROW_TILES: u32 = 4;
const COLUMN_TILES: u32 = 8;

/// A kernel `gemm(a, b, c, n, k)`.
pub(super) fn text() -> String {
    let mut text = String::from(HEAD);
    let accumulators = 4 * ROW_TILES * COLUMN_TILES;
    for accumulator in 0..accumulators {
        line(&mut text, &format!("mov.f32 %c{accumulator}, 0f00000000;"));
    }
    for stage in 0..STAGES - 1 {
        copy_tile(&mut text, &format!("{}", stage * STAGE_BYTES));
    }
    text.push_str(LOOP_HEAD);
    copy_tile(&mut text, "%write");
    line(&mut text, "bra copied;");
    text.push_str("last:\n");
    line(&mut text, "cp.async.commit_group;");
    text.push_str("copied:\n");
    for half in 0..2 {
        multiply(&mut text, half);
    }
    text.push_str(LOOP_TAIL);
    store(&mut text);
    text.push_str("    ret;\n}\n");
    text
}

fn line(text: &mut String, instruction: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "    {instruction}");
}

/// Copies this thread's four pieces of each tile of the next step along k to a stage, and closes
/// the group.
fn copy_tile(text: &mut String, stage: &str) {
    line(text, &format!("add.u32 %to, %slot, {stage};"));
    for piece in 0..4 {
        let target = piece * 32 * 64;
        line(text, &format!("cp.async.cg.shared.global [%to+{target}], [%from_a{piece}], 16;"));
        line(
            text,
            &format!("cp.async.cg.shared.global [%to+{}], [%from_b{piece}], 16;", target + TILE_BYTES),
        );
        line(text, &format!("add.u64 %from_a{piece}, %from_a{piece}, 64;"));
        line(text, &format!("add.u64 %from_b{piece}, %from_b{piece}, 64;"));
    }
    line(text, "cp.async.commit_group;");
}

/// Sixteen of the step's 32 along k: the fragments, then all products of them.
fn multiply(text: &mut String, half: u32) {
    line(text, &format!("add.u32 %x, %read, %row_a{half};"));
    for tile in 0..ROW_TILES {
        let names: Vec<String> = (0..4).map(|register| format!("%a{}", 4 * tile + register)).collect();
        let offset = tile * 16 * 64;
        line(
            text,
            &format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}}}, [%x+{offset}];", names.join(", ")),
        );
    }
    line(text, &format!("add.u32 %x, %read, %row_b{half};"));
    for pair in 0..COLUMN_TILES / 2 {
        let names: Vec<String> = (0..4).map(|register| format!("%b{}", 4 * pair + register)).collect();
        let offset = TILE_BYTES + pair * 16 * 64;
        line(
            text,
            &format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}}}, [%x+{offset}];", names.join(", ")),
        );
    }
    for row in 0..ROW_TILES {
        for column in 0..COLUMN_TILES {
            let first = 4 * (row * COLUMN_TILES + column);
            let c: Vec<String> = (first..first + 4).map(|register| format!("%c{register}")).collect();
            let a: Vec<String> = (4 * row..4 * row + 4).map(|register| format!("%a{register}")).collect();
            let b = format!("%b{}, %b{}", 2 * column, 2 * column + 1);
            let (c, a) = (c.join(", "), a.join(", "));
            line(
                text,
                &format!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};"
                ),
            );
        }
    }
}

/// Stores the accumulators: lane t has columns 2 (t % 4) and the next of rows t / 4 and t / 4 + 8.
fn store(text: &mut String) {
    for row in 0..ROW_TILES {
        for upper in 0..2 {
            for column in 0..COLUMN_TILES {
                let first = 4 * (row * COLUMN_TILES + column) + 2 * upper;
                let offset = column * 8 * 4;
                line(text, &format!("st.global.v2.f32 [%out+{offset}], {{%c{first}, %c{}}};", first + 1));
            }
            line(text, "add.u64 %out, %out, %out_step;");
        }
    }
}

const HEAD: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry gemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n, .param .u32 k)
{
    .shared .align 128 .b8 stages[49152];
    .reg .pred %p;
    .reg .b32 %r<16>;
    .reg .b32 %to, %slot, %x, %read, %write, %step, %steps, %ahead, %row_a0, %row_a1, %row_b0, %row_b1, %base;
    .reg .b32 %a<16>;
    .reg .b32 %b<16>;
    .reg .f32 %c<128>;
    .reg .b64 %d<8>;
    .reg .b64 %from_a<4>;
    .reg .b64 %from_b<4>;
    .reg .b64 %out, %out_step;
    ld.param.u64 %d0, [a];
    ld.param.u64 %d1, [b];
    ld.param.u64 %d2, [c];
    ld.param.u32 %r0, [n];
    ld.param.u32 %r1, [k];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %base, stages;
    // Thread t copies piece t % 4 of rows t / 4, t / 4 + 32, and so on, of each tile.
    shr.u32 %r5, %r2, 2;
    and.b32 %r6, %r2, 3;
    mad.lo.u32 %r7, %r4, 128, %r5;
    mul.wide.u32 %d3, %r7, %r1;
    cvt.u64.u32 %d4, %r6;
    shl.b64 %d4, %d4, 3;
    add.u64 %d3, %d3, %d4;
    shl.b64 %d3, %d3, 1;
    add.u64 %from_a0, %d0, %d3;
    mad.lo.u32 %r7, %r3, 128, %r5;
    mul.wide.u32 %d3, %r7, %r1;
    add.u64 %d3, %d3, %d4;
    shl.b64 %d3, %d3, 1;
    add.u64 %from_b0, %d1, %d3;
    mul.wide.u32 %d5, %r1, 64;
    add.u64 %from_a1, %from_a0, %d5;
    add.u64 %from_a2, %from_a1, %d5;
    add.u64 %from_a3, %from_a2, %d5;
    add.u64 %from_b1, %from_b0, %d5;
    add.u64 %from_b2, %from_b1, %d5;
    add.u64 %from_b3, %from_b2, %d5;
    shr.u32 %r8, %r5, 1;
    and.b32 %r8, %r8, 3;
    xor.b32 %r8, %r8, %r6;
    shl.b32 %r8, %r8, 4;
    mad.lo.u32 %r8, %r5, 64, %r8;
    add.u32 %slot, %base, %r8;
    // Warp w makes rows 64 (w / 2) and columns 64 (w % 2) of the tile. A lane points ldmatrix at
    // one row: of A, row l % 16 and piece l / 16; of B, row l % 8 + 8 (l / 16) and piece l / 8 % 2.
    and.b32 %r9, %r2, 31;
    shr.u32 %r10, %r2, 5;
    shr.u32 %r11, %r10, 1;
    and.b32 %r12, %r10, 1;
    and.b32 %r13, %r9, 15;
    shr.u32 %r14, %r9, 4;
    mad.lo.u32 %r13, %r11, 64, %r13;
    shr.u32 %r15, %r13, 1;
    and.b32 %r15, %r15, 3;
    xor.b32 %r14, %r14, %r15;
    shl.b32 %r14, %r14, 4;
    mad.lo.u32 %row_a0, %r13, 64, %r14;
    xor.b32 %row_a1, %row_a0, 32;
    and.b32 %r13, %r9, 7;
    shr.u32 %r14, %r9, 4;
    mad.lo.u32 %r13, %r14, 8, %r13;
    mad.lo.u32 %r13, %r12, 64, %r13;
    shr.u32 %r14, %r9, 3;
    and.b32 %r14, %r14, 1;
    shr.u32 %r15, %r13, 1;
    and.b32 %r15, %r15, 3;
    xor.b32 %r14, %r14, %r15;
    shl.b32 %r14, %r14, 4;
    mad.lo.u32 %row_b0, %r13, 64, %r14;
    xor.b32 %row_b1, %row_b0, 32;
    // C: row 128 y + 64 (w / 2) + l / 4, column 128 x + 64 (w % 2) + 2 (l % 4); then every eighth
    // row.
    shr.u32 %r5, %r9, 2;
    and.b32 %r6, %r9, 3;
    mad.lo.u32 %r7, %r4, 128, %r5;
    mad.lo.u32 %r7, %r11, 64, %r7;
    mad.lo.u32 %r8, %r3, 128, 0;
    mad.lo.u32 %r8, %r12, 64, %r8;
    mad.lo.u32 %r8, %r6, 2, %r8;
    mul.wide.u32 %d3, %r7, %r0;
    cvt.u64.u32 %d4, %r8;
    add.u64 %d3, %d3, %d4;
    shl.b64 %d3, %d3, 2;
    add.u64 %out, %d2, %d3;
    mul.wide.u32 %out_step, %r0, 32;
    shr.u32 %steps, %r1, 5;
    mov.u32 %step, 0;
    mov.u32 %read, %base;
    mov.u32 %write, 32768;
";

const LOOP_HEAD: &str = "\
next:
    cp.async.wait_group 1;
    bar.sync 0;
    add.u32 %ahead, %step, 2;
    setp.ge.u32 %p, %ahead, %steps;
    @%p bra last;
";

const LOOP_TAIL: &str = "\
    add.u32 %read, %read, 16384;
    add.u32 %x, %base, 49152;
    setp.eq.u32 %p, %read, %x;
    selp.b32 %read, %base, %read, %p;
    add.u32 %write, %write, 16384;
    setp.eq.u32 %p, %write, 49152;
    selp.b32 %write, 0, %write, %p;
    add.u32 %step, %step, 1;
    setp.lt.u32 %p, %step, %steps;
    @%p bra next;
";
