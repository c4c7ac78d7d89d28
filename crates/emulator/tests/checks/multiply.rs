//! Rows 17, 18 and 19 of the catalogue: `wgmma` and the shared memory it reads.

use warpwright_emulator::FindingKind::{InFlight, ProxyFence, Race};

use crate::harness::{Grid, clean, found};

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
fn a_barrier_does_not_wait_for_a_multiply() {
    let start = body(&[FILL, FENCE, SYNC, MULTIPLY]);
    found(&body(&[&start, SYNC, OVERWRITE, DONE]), WARPGROUP, InFlight, ["st.shared", "wgmma.mma_async"]);
}

#[test]
fn one_warp_of_the_warpgroup_may_tell_others() {
    // Five warps: the first four multiply, and warp 0 alone tells the fifth that the operands may go.
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
