//! The text of a bf16 GEMM with `wgmma`, as a tensor-core kernel of the sm_90a class is written but
//! for the copies, which every thread makes by `cp.async`.
//!
//! C = A Bᵀ, with A (m, k) and B (n, k) row-major bf16, C (m, n) row-major f32; m a multiple of
//! 128, n of 256, k of 64. A CTA of two warpgroups makes 128 by 256 of C in steps of 64 along k,
//! four stages deep; a warpgroup makes 64 by 256. A row of a shared tile is 128 bytes, swizzled
//! over all eight pieces.

use std::fmt::Write;

const STAGES: u32 = 4;
/// Rows of the tiles of A and B.
const ROWS: u32 = 128;
const COLUMNS: u32 = 256;
const STAGE_BYTES: u32 = (ROWS + COLUMNS) * 128;
/// Steps of 16 along k in a stage.
const STEPS: u32 = 4;

/// Bytes of dynamic shared memory.
pub(super) const SHARED_BYTES: u32 = STAGES * STAGE_BYTES;

/// A kernel `gemm(a, b, c, n, k)`.
pub(super) fn text() -> String {
    let mut text = String::from(HEAD);
    for accumulator in 0..COLUMNS / 2 {
        line(&mut text, &format!("mov.f32 %c{accumulator}, 0f00000000;"));
    }
    for stage in 0..STAGES - 1 {
        line(&mut text, &format!("add.u32 %to, %slot, {};", stage * STAGE_BYTES));
        copy_tile(&mut text);
    }
    text.push_str(LOOP_HEAD);
    let accumulators: Vec<String> = (0..COLUMNS / 2).map(|register| format!("%c{register}")).collect();
    let accumulators = accumulators.join(", ");
    for step in 0..STEPS {
        // 32 bytes further along k.
        line(&mut text, &format!("add.u64 %d0, %left, {};", 2 * step));
        line(&mut text, &format!("add.u64 %d1, %right, {};", 2 * step));
        line(
            &mut text,
            &format!(
                "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{accumulators}}}, %d0, %d1, %true, 1, 1, 0, 0;"
            ),
        );
    }
    text.push_str(LOOP_MIDDLE);
    copy_tile(&mut text);
    text.push_str(LOOP_TAIL);
    for column in 0..COLUMNS / 8 {
        for upper in 0..2 {
            let first = 4 * column + 2 * upper;
            let (out, offset) = (["%out", "%out_upper"][upper as usize], column * 32);
            line(&mut text, &format!("st.global.v2.f32 [{out}+{offset}], {{%c{first}, %c{}}};", first + 1));
        }
    }
    text.push_str("    ret;\n}\n");
    text
}

fn line(text: &mut String, instruction: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "    {instruction}");
}

/// Copies this thread's pieces of both tiles to the stage at `%to`, and goes on along k.
fn copy_tile(text: &mut String) {
    for (from, rows, start) in [("%from_a", ROWS, 0), ("%from_b", COLUMNS, ROWS * 128)] {
        line(text, &format!("mov.u64 %d2, {from};"));
        for piece in 0..rows / 32 {
            let target = start + piece * 32 * 128;
            line(text, &format!("cp.async.cg.shared.global [%to+{target}], [%d2], 16;"));
            line(text, "add.u64 %d2, %d2, %rows32;");
        }
        line(text, &format!("add.u64 {from}, {from}, 128;"));
    }
    line(text, "cp.async.commit_group;");
}

const HEAD: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 stages[];
.visible .entry gemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n, .param .u32 k)
{
    .reg .pred %p, %true;
    .reg .b32 %r<16>;
    .reg .b32 %to, %slot, %read, %write, %step, %steps, %ahead, %base;
    .reg .f32 %c<128>;
    .reg .b64 %d<8>;
    .reg .b64 %from_a, %from_b, %rows32, %left, %right, %constant, %out, %out_upper;
    ld.param.u64 %d0, [a];
    ld.param.u64 %d1, [b];
    ld.param.u64 %d2, [c];
    ld.param.u32 %r0, [n];
    ld.param.u32 %r1, [k];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %base, stages;
    setp.eq.u32 %true, 0, 0;
    // Thread t copies piece t % 8 of rows t / 8, t / 8 + 32, and so on, of each tile.
    shr.u32 %r5, %r2, 3;
    and.b32 %r6, %r2, 7;
    mul.wide.u32 %rows32, %r1, 64;
    mad.lo.u32 %r7, %r4, 128, %r5;
    mul.wide.u32 %d3, %r7, %r1;
    cvt.u64.u32 %d4, %r6;
    shl.b64 %d4, %d4, 3;
    add.u64 %d3, %d3, %d4;
    shl.b64 %d3, %d3, 1;
    add.u64 %from_a, %d0, %d3;
    mad.lo.u32 %r7, %r3, 256, %r5;
    mul.wide.u32 %d3, %r7, %r1;
    add.u64 %d3, %d3, %d4;
    shl.b64 %d3, %d3, 1;
    add.u64 %from_b, %d1, %d3;
    and.b32 %r7, %r5, 7;
    xor.b32 %r7, %r7, %r6;
    shl.b32 %r7, %r7, 4;
    mad.lo.u32 %r7, %r5, 128, %r7;
    add.u32 %slot, %base, %r7;
    // C: row 128 y + 16 (t / 32) + l / 4, column 256 x + 2 (l % 4); then the eighth row after it.
    and.b32 %r9, %r2, 31;
    shr.u32 %r10, %r2, 5;
    shr.u32 %r5, %r9, 2;
    mad.lo.u32 %r5, %r10, 16, %r5;
    mad.lo.u32 %r5, %r4, 128, %r5;
    and.b32 %r6, %r9, 3;
    shl.b32 %r6, %r6, 1;
    mad.lo.u32 %r6, %r3, 256, %r6;
    mul.wide.u32 %d3, %r5, %r0;
    cvt.u64.u32 %d4, %r6;
    add.u64 %d3, %d3, %d4;
    shl.b64 %d3, %d3, 2;
    add.u64 %out, %d2, %d3;
    mul.wide.u32 %d3, %r0, 32;
    add.u64 %out_upper, %out, %d3;
    // Rows of 128 bytes, eight of them 1024 apart, swizzled over 128 bytes; the warpgroup's half of
    // A.
    mov.u64 %constant, 0x4000004000010000;
    shr.u32 %r11, %r2, 7;
    shl.b32 %r11, %r11, 13;
    shr.u32 %steps, %r1, 6;
    mov.u32 %step, 0;
    mov.u32 %read, 0;
    mov.u32 %write, 147456;
";

const LOOP_HEAD: &str = "\
next:
    cp.async.wait_group 2;
    wgmma.wait_group.sync.aligned 0;
    fence.proxy.async;
    bar.sync 0;
    add.u32 %r12, %base, %read;
    add.u32 %r13, %r12, %r11;
    and.b32 %r13, %r13, 0x3ffff;
    shr.u32 %r13, %r13, 4;
    cvt.u64.u32 %left, %r13;
    or.b64 %left, %left, %constant;
    add.u32 %r13, %r12, 16384;
    and.b32 %r13, %r13, 0x3ffff;
    shr.u32 %r13, %r13, 4;
    cvt.u64.u32 %right, %r13;
    or.b64 %right, %right, %constant;
    wgmma.fence.sync.aligned;
";

const LOOP_MIDDLE: &str = "\
    wgmma.commit_group.sync.aligned;
    add.u32 %ahead, %step, 3;
    setp.ge.u32 %p, %ahead, %steps;
    @%p bra last;
    add.u32 %to, %slot, %write;
";

const LOOP_TAIL: &str = "\
    bra copied;
last:
    cp.async.commit_group;
copied:
    add.u32 %read, %read, 49152;
    setp.eq.u32 %p, %read, 196608;
    selp.b32 %read, 0, %read, %p;
    add.u32 %write, %write, 49152;
    setp.eq.u32 %p, %write, 196608;
    selp.b32 %write, 0, %write, %p;
    add.u32 %step, %step, 1;
    setp.lt.u32 %p, %step, %steps;
    @%p bra next;
    wgmma.wait_group.sync.aligned 0;
";
