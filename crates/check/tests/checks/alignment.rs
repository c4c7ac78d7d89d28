//! Rows 9 and 26 of the catalog: instructions that all lanes of a warp must execute together.

use warpwright_check::FindingKind::Divergence;

use crate::checks::harness::{Grid, ONE, clean, found};

/// `%p1` is true in the first 40 threads: a warp and a quarter.
const FORTY: &str = "setp.lt.u32 %p1, %tid, 40;";
const HALF: &str = "setp.lt.u32 %p1, %lane, 16;";
const ONE_WARP: Grid = Grid { threads: 32, ..ONE };

#[test]
fn a_barrier_that_part_of_a_warp_passes_by_is_found() {
    for barrier in ["bar.sync 0;", "barrier.sync.aligned 0;", "barrier.red.popc.aligned.u32 %r1, 0, %p1;"] {
        let name = barrier.split(' ').next().unwrap();
        let broken = format!("{FORTY} @!%p1 bra $past; {barrier} $past: st.global.u32 [%mine], %tid;");
        let finding = found(&broken, ONE, Divergence, [name, "st.global"]);
        assert!(finding.labels[0].text.contains("warp 1, lanes 0-7"), "{finding}");
        assert!(finding.labels[1].text.contains("warp 1, lanes 8-31"), "{finding}");
        found(
            &format!("{FORTY} @%p1 {barrier} st.global.u32 [%mine], %tid;"),
            ONE,
            Divergence,
            [name, "st.global"],
        );
        clean(&format!("{FORTY} {barrier} st.global.u32 [%mine], %tid;"), ONE);
    }
    clean(&format!("{FORTY} @%p1 barrier.sync 0; st.global.u32 [%mine], %tid;"), ONE);
}

#[test]
fn arrivals_at_aligned_barriers_concern_the_whole_warp() {
    let arrive = "bar.arrive 1, 64;";
    found(
        &format!("{FORTY} @%p1 {arrive} st.global.u32 [%mine], %tid;"),
        ONE,
        Divergence,
        ["bar.arrive", "st.global"],
    );
    let cluster = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    found(
        &format!("{FORTY} @!%p1 bra $past; {cluster} $past: st.global.u32 [%mine], %tid;"),
        ONE,
        Divergence,
        ["barrier.cluster.arrive", "st.global"],
    );
    clean(&format!("{cluster} {cluster} st.global.u32 [%mine], %tid;"), ONE);
}

/// An early return and a branch around the rest of the kernel are the same PTX.
#[test]
fn threads_that_have_exited_do_not_count() {
    let rest = "bar.sync 0; st.global.u32 [%mine], %tid; bar.sync 0;";
    clean(&format!("{FORTY} @!%p1 ret; {rest}"), ONE);
    clean(&format!("{FORTY} @!%p1 bra $end; {rest} $end:"), ONE);
    clean(&format!("{FORTY} @%p1 bra $rest; st.global.u32 [%mine], %tid; ret; $rest: {rest}"), ONE);
}

/// Lanes that a loop holds up arrive later, at the same instruction.
#[test]
fn lanes_of_a_warp_may_arrive_one_after_another() {
    let body = "
        mov.u32 %r1, 0;
        $again: add.u32 %r1, %r1, 1; ld.volatile.global.u32 %r2, [%buffer];
        mul.lo.u32 %r3, %lane, 20; setp.lt.u32 %p1, %r1, %r3; @%p1 bra $again;
        bar.sync 0; st.global.u32 [%mine+64], %r1;";
    clean(body, ONE_WARP);
}

#[test]
fn an_aligned_instruction_needs_the_whole_warp() {
    let write = "st.shared.u32 [%own], %tid; bar.warp.sync -1; and.b32 %r1, %lane, 7; shl.b32 %r1, %r1, 4; \
                 add.u32 %r1, %r1, %tile; mov.u32 %r4, 0; \
                 mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;";
    let instructions = [
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r4};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r4;",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r4, %r4}, {%r4}, {%f1, %f2, %f3, %f4};",
    ];
    for instruction in instructions {
        let name = instruction.split('.').next().unwrap();
        for (skip, reason) in [("@%p1 ", "lanes 16-31 skip it"), ("@!%p1 ret; ", "lanes 16-31 have exited")] {
            let finding = found(&format!("{write} {HALF} {skip}{instruction}"), ONE_WARP, Divergence, [name]);
            assert!(finding.labels[0].text.contains(reason), "{finding}");
        }
        let short = Grid { threads: 16, ..ONE };
        let finding = found(&format!("{write} {instruction}"), short, Divergence, [name]);
        assert!(finding.labels[0].text.contains("lanes 16-31 do not exist"), "{finding}");
        clean(&format!("{write} {instruction}"), ONE_WARP);
    }
}
