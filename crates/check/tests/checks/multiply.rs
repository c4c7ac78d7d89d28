//! Rows 17, 18 and 19 of the catalog: `wgmma`, the shared memory it reads, and its registers.

use warpwright_check::FindingKind::{InFlight, ProxyFence, Race};

use crate::checks::harness::{Grid, clean, found};

const WARPGROUP: Grid = Grid { ctas: 1, threads: 128, cluster: 1 };
/// A of 64 x 16 in the first 2048 bytes, B of 16 x 8 in the next 256, neither swizzled.
const FILL: &str = "mov.u32 %r1, 0; shl.b32 %r2, %tid, 4; add.u32 %r2, %r2, %tile;
    st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1}; st.shared.v4.u32 [%r2+2048], {%r1, %r1, %r1, %r1};";
const FENCE: &str = "fence.proxy.async;";
const SYNC: &str = "bar.sync 0;";
/// Leading offset 128, stride offset 256 bytes.
const MULTIPLY: &str = "cvt.u64.u32 %rd1, %tile; and.b64 %rd1, %rd1, 0x3ffff; shr.u64 %rd1, %rd1, 4;
    or.b64 %rd1, %rd1, 0x0000001000080000; add.u64 %rd2, %rd1, 128; setp.ne.u32 %p3, %tid, %tid;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %p3, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;";
const DONE: &str = "wgmma.wait_group.sync.aligned 0;";
const OVERWRITE: &str = "st.shared.u32 [%r2], %tid;";

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn operands_written_by_threads_need_a_proxy_fence() {
    let finding = found(&body(&[FILL, SYNC, MULTIPLY, DONE]), WARPGROUP, ProxyFence, ["wgmma", "st.shared"]);
    assert!(finding.notes[0].contains("fence.proxy.async"), "{finding}");
    clean(&body(&[FILL, FENCE, SYNC, MULTIPLY, DONE]), WARPGROUP);
}

#[test]
fn operands_written_by_others_need_a_barrier() {
    found(&body(&[FILL, FENCE, MULTIPLY, DONE]), WARPGROUP, Race, ["wgmma", "st.shared"]);
}

#[test]
fn operands_stay_until_the_multiply_was_waited_for() {
    let start = body(&[FILL, FENCE, SYNC, MULTIPLY]);
    let finding =
        found(&body(&[&start, OVERWRITE, DONE]), WARPGROUP, InFlight, ["st.shared", "wgmma.mma_async"]);
    assert!(finding.notes[0].contains("wgmma.wait_group"), "{finding}");
    clean(&body(&[&start, DONE, SYNC, OVERWRITE]), WARPGROUP);
}

#[test]
fn who_has_waited_for_a_multiply_may_overwrite_its_operands() {
    // CUTLASS lays the result over A, each warp over its own rows, with no barrier after the wait.
    clean(&body(&[FILL, FENCE, SYNC, MULTIPLY, DONE, OVERWRITE]), WARPGROUP);
}

#[test]
fn a_barrier_does_not_wait_for_a_multiply() {
    let start = body(&[FILL, FENCE, SYNC, MULTIPLY]);
    found(&body(&[&start, SYNC, OVERWRITE, DONE]), WARPGROUP, InFlight, ["st.shared", "wgmma.mma_async"]);
}

#[test]
fn one_warp_of_the_warpgroup_may_tell_others() {
    // Five warps: the first four multiply, and warp 0 alone tells the fifth that the operands may
    // go.
    let five = Grid { threads: 160, ..WARPGROUP };
    let program = |tell: &str| {
        body(&[
            "setp.lt.u32 %p4, %warp, 4; @!%p4 bra producer;",
            FILL,
            FENCE,
            "bar.sync 2, 128;",
            MULTIPLY,
            tell,
            "bra done;",
            "producer:",
            "bar.sync 1, 64;",
            "st.shared.u32 [%tile], %tid;",
            "done:",
        ])
    };
    let arrive = "setp.eq.u32 %p5, %warp, 0; @%p5 bar.arrive 1, 64;";
    clean(&program(&format!("{DONE} {arrive}")).replace("[%tile], %tid", "[%tile], %warp"), five);
    found(
        &program(&format!("{arrive} {DONE}")).replace("[%tile], %tid", "[%tile], %warp"),
        five,
        InFlight,
        ["st.shared", "wgmma.mma_async"],
    );
}

#[test]
fn one_lane_of_the_warpgroup_may_tell_others() {
    // As a pipeline's consumer releases a slot: one arrival for the whole warpgroup.
    let five = Grid { threads: 160, ..WARPGROUP };
    let program = |tell: &str| {
        body(&[
            "mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0; @%p1 mbarrier.init.shared.b64 [%r8], 1;",
            SYNC,
            "setp.lt.u32 %p4, %warp, 4; @!%p4 bra producer;",
            FILL,
            FENCE,
            "bar.sync 2, 128;",
            MULTIPLY,
            tell,
            "bra done;",
            "producer:",
            "wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait;",
            "st.shared.u32 [%tile], %warp;",
            "done:",
        ])
    };
    let arrive = "@%p1 mbarrier.arrive.shared.b64 _, [%r8];";
    clean(&program(&format!("{DONE} {arrive}")), five);
    found(&program(&format!("{arrive} {DONE}")), five, InFlight, ["st.shared", "wgmma.mma_async"]);
}

/// The multiply of [`MULTIPLY`] without what belongs around it, with A in shared memory or in
/// registers.
const BARE: &str =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %p3, 1, 1, 0, 0;";
const OF_REGISTERS: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, %rd2, %p3, 1, 1, 0;";
const WGMMA_FENCE: &str = "wgmma.fence.sync.aligned;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const ZEROS: &str = "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;";
const FRAGMENT: &str = "mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;";

/// The tiles, their descriptors, and nothing else.
fn prepared() -> String {
    let descriptors = MULTIPLY.split("mov.f32").next().expect("they come first");
    body(&[FILL, FENCE, SYNC, descriptors])
}

#[test]
fn registers_are_fenced_after_they_are_written() {
    let start = prepared();
    clean(&body(&[&start, ZEROS, WGMMA_FENCE, BARE, COMMIT, DONE]), WARPGROUP);
    let finding = found(
        &body(&[&start, ZEROS, BARE, COMMIT, DONE]),
        WARPGROUP,
        InFlight,
        ["wgmma.mma_async", "mov.f32"],
    );
    assert!(finding.message.contains("after the last wgmma.fence"), "{finding}");
    found(
        &body(&[&start, WGMMA_FENCE, ZEROS, BARE, COMMIT, DONE]),
        WARPGROUP,
        InFlight,
        ["wgmma.mma_async", "mov.f32"],
    );
    // Before the first multiply there is a fence even where no register was written.
    found(&body(&[&start, BARE, COMMIT, DONE]), WARPGROUP, InFlight, ["wgmma.mma_async"]);
    // Multiplies of the same accumulators follow each other without.
    clean(&body(&[&start, ZEROS, WGMMA_FENCE, BARE, BARE, COMMIT, BARE, COMMIT, DONE]), WARPGROUP);
    // Written after the wait, they need another fence.
    let again = body(&[&start, ZEROS, WGMMA_FENCE, BARE, COMMIT, DONE, ZEROS]);
    found(&body(&[&again, BARE, COMMIT, DONE]), WARPGROUP, InFlight, ["wgmma.mma_async", "mov.f32"]);
    clean(&body(&[&again, WGMMA_FENCE, BARE, COMMIT, DONE]), WARPGROUP);
}

#[test]
fn fragments_in_registers_are_fenced_and_left_alone() {
    let start = body(&[&prepared(), ZEROS]);
    clean(&body(&[&start, FRAGMENT, WGMMA_FENCE, OF_REGISTERS, COMMIT, DONE, FRAGMENT]), WARPGROUP);
    let finding = found(
        &body(&[&start, WGMMA_FENCE, FRAGMENT, OF_REGISTERS, COMMIT, DONE]),
        WARPGROUP,
        InFlight,
        ["wgmma.mma_async", "mov.u32"],
    );
    assert!(finding.message.contains("fragments of A"), "{finding}");
    let issued = body(&[&start, FRAGMENT, WGMMA_FENCE, OF_REGISTERS, COMMIT]);
    found(
        &body(&[&issued, "add.u32 %r6, %r6, 1;", DONE]),
        WARPGROUP,
        InFlight,
        ["add.u32", "wgmma.mma_async"],
    );
    clean(&body(&[&issued, "add.u32 %r8, %r6, 1;", DONE]), WARPGROUP);
}

#[test]
fn accumulators_are_left_alone_until_the_wait() {
    let issued = body(&[&prepared(), ZEROS, WGMMA_FENCE, BARE, COMMIT]);
    let read = "add.f32 %f7, %f2, %f2;";
    clean(&body(&[&issued, DONE, read]), WARPGROUP);
    found(&body(&[&issued, read, DONE]), WARPGROUP, InFlight, ["add.f32", "wgmma.mma_async"]);
    found(&body(&[&issued, SYNC, read, DONE]), WARPGROUP, InFlight, ["add.f32", "wgmma.mma_async"]);
    found(
        &body(&[&issued, "mov.f32 %f1, 0f00000000;", DONE]),
        WARPGROUP,
        InFlight,
        ["mov.f32", "wgmma.mma_async"],
    );
    found(
        &body(&[&issued, "st.shared.f32 [%tile+3072], %f0;", DONE]),
        WARPGROUP,
        InFlight,
        ["st.shared", "wgmma.mma_async"],
    );
    // A batch of other registers is waited for by the count.
    let other = BARE.replace("{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}");
    let two = body(&[
        &prepared(),
        ZEROS,
        "mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;",
        WGMMA_FENCE,
        BARE,
        COMMIT,
        &other,
        COMMIT,
        "wgmma.wait_group.sync.aligned 1;",
    ]);
    clean(&body(&[&two, "add.f32 %f0, %f0, %f1;", DONE]), WARPGROUP);
    found(
        &body(&[&two, "add.f32 %f4, %f4, %f5;", DONE]),
        WARPGROUP,
        InFlight,
        ["add.f32", "wgmma.mma_async"],
    );
    // Without a commit there is nothing to wait for.
    found(
        &body(&[&prepared(), ZEROS, WGMMA_FENCE, BARE, DONE, read, COMMIT, DONE]),
        WARPGROUP,
        InFlight,
        ["add.f32", "wgmma.mma_async"],
    );
}
