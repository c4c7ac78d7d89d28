//! Row 24 of the catalog: tiles and registers that an MMA reads and nothing has written.

use warpwright_check::FindingKind::Uninitialized;

use crate::checks::harness::{Grid, clean, found};

const WARPGROUP: Grid = Grid { ctas: 1, threads: 128, cluster: 1 };

/// Writes A of 64 x 16 in the first 2048 bytes, where `%p1` holds: thread 8 i + j has the first
/// half (i even) or the second half (i odd) of row 4 i + j or so, 16 bytes.
const FILL_A: &str = "mov.u32 %r1, 0; shl.b32 %r2, %tid, 4; add.u32 %r2, %r2, %tile;
    @%p1 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};";
/// Writes B of 16 x 8 in the next 256 bytes.
const FILL_B: &str = "setp.lt.u32 %p2, %tid, 16; @%p2 st.shared.v4.u32 [%r2+2048], {%r1, %r1, %r1, %r1};";
const EVERYWHERE: &str = "setp.eq.u32 %p1, %tid, %tid;";
/// All but the first half of row 0, which is thread 0's.
const NOT_A_HALF: &str = "setp.ne.u32 %p1, %tid, 0;";
/// All but row 0.
const NOT_A_ROW: &str = "and.b32 %r9, %tid, 0xf7; setp.ne.u32 %p1, %r9, 0;";
const NOWHERE: &str = "setp.ne.u32 %p1, %tid, %tid;";
const SYNC: &str = "fence.proxy.async; bar.sync 0;";
const DESCRIPTORS: &str = "cvt.u64.u32 %rd1, %tile; and.b64 %rd1, %rd1, 0x3ffff; shr.u64 %rd1, %rd1, 4;
    or.b64 %rd1, %rd1, 0x0000001000080000; add.u64 %rd2, %rd1, 128;";
/// `%p3` is scale-d.
const FRESH: &str = "setp.ne.u32 %p3, %tid, %tid;";
const ADDED: &str = "setp.eq.u32 %p3, %tid, %tid;";
const ZEROS: &str = "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;";
const MULTIPLY: &str = "wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %p3, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";
const OF_REGISTERS: &str = "wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, %rd2, %p3, 1, 1, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

fn message(parts: &[&str]) -> String {
    found(&body(parts), WARPGROUP, Uninitialized, ["wgmma.mma_async"]).message
}

#[test]
fn each_operand_in_shared_memory_is_written() {
    let product = [SYNC, DESCRIPTORS, FRESH, MULTIPLY].join("\n");
    clean(&body(&[EVERYWHERE, FILL_A, FILL_B, &product]), WARPGROUP);
    let of_a = message(&[NOWHERE, FILL_A, FILL_B, &product]);
    assert!(of_a.starts_with("an MMA reads A at") && of_a.ends_with("any of its 2048 bytes"), "{of_a}");
    let of_b = message(&[EVERYWHERE, FILL_A, &product]);
    assert!(of_b.starts_with("an MMA reads B at") && of_b.ends_with("any of its 256 bytes"), "{of_b}");
}

#[test]
fn a_row_is_written_whole_or_not_at_all() {
    let product = [FILL_A, FILL_B, SYNC, DESCRIPTORS, FRESH, MULTIPLY].join("\n");
    let half = message(&[NOT_A_HALF, &product]);
    assert!(half.contains("reads A of 2048 bytes, and nothing has written 16 of them"), "{half}");
    let row = message(&[NOT_A_ROW, &product]);
    assert!(row.contains("reads A of 2048 bytes, and nothing has written 32 of them"), "{row}");
    // Padding, since the same instruction reads a whole tile in the other CTA.
    let padded = NOT_A_ROW.to_owned() + "setp.eq.or.u32 %p1, %cta, 0, %p1;";
    clean(&body(&[&padded, &product]), Grid { ctas: 2, ..WARPGROUP });
}

/// A of 16-bit elements along m: a step along k is 128 bytes, of 8 rows each 16.
#[test]
fn rows_along_m_are_written_at_every_step_along_k() {
    let along_m = MULTIPLY.replace("%p3, 1, 1, 0, 0", "%p3, 1, 1, 1, 0");
    let product = [FILL_A, FILL_B, SYNC, DESCRIPTORS, FRESH, &along_m].join("\n");
    clean(&body(&[EVERYWHERE, &product]), WARPGROUP);
    let step = message(&[NOT_A_HALF, &product]);
    assert!(step.contains("nothing has written 16 of them"), "{step}");
}

#[test]
fn accumulators_are_written_before_they_are_added_to() {
    let start = [EVERYWHERE, FILL_A, FILL_B, SYNC, DESCRIPTORS].join("\n");
    clean(&body(&[&start, ZEROS, ADDED, MULTIPLY]), WARPGROUP);
    clean(&body(&[&start, FRESH, MULTIPLY, ADDED, MULTIPLY]), WARPGROUP);
    let nowhere = message(&[&start, ADDED, MULTIPLY]);
    assert!(nowhere.contains("accumulators that nothing has written"), "{nowhere}");
    let some = ZEROS.replace("mov.f32 %f3", "setp.lt.u32 %p4, %lane, 30; @%p4 mov.f32 %f3");
    let finding =
        found(&body(&[&start, &some, ADDED, MULTIPLY]), WARPGROUP, Uninitialized, ["wgmma.mma_async"]);
    assert!(finding.notes[0].contains("register 3 of 4 of its accumulators in lanes 30-31"), "{finding}");
}

#[test]
fn a_fragment_in_registers_is_written() {
    let start = [EVERYWHERE, FILL_A, FILL_B, SYNC, DESCRIPTORS, FRESH].join("\n");
    let fragment = "mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;";
    clean(&body(&[&start, fragment, OF_REGISTERS]), WARPGROUP);
    let finding = message(&[&start, OF_REGISTERS]);
    assert!(finding.contains("a fragment of A that nothing has written"), "{finding}");
}
