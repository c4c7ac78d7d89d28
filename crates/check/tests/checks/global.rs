//! Row 25 of the catalog: CTAs that share global memory.

use warpwright_check::FindingKind::{NonCoherent, Race};

use crate::checks::harness::{Grid, ONE, TWO, clean, found};

const WIDE: Grid = Grid { threads: 1, ..TWO };

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn two_ctas_write_one_place() {
    let finding = found("st.global.u32 [%buffer], %cta;", WIDE, Race, ["st.global", "st.global"]);
    assert!(finding.notes[0].contains("CTA"), "{finding}");
    clean("mul.wide.u32 %rd1, %cta, 4; add.u64 %rd1, %rd1, %buffer; st.global.u32 [%rd1], %cta;", WIDE);
    clean("red.global.add.u32 [%buffer], 1;", WIDE);
}

/// CTA 0 writes and raises a flag, CTA 1 waits for the flag and reads.
fn flag(publish: &str, wait: &str) -> String {
    format!(
        "setp.eq.u32 %p1, %cta, 0;
        @!%p1 bra consumer;
        st.global.u32 [%buffer+256], 7;
        {publish}
        bra done;
        consumer:
        {wait}
        setp.eq.u32 %p2, %r1, 0;
        @%p2 bra consumer;
        ld.global.u32 %r2, [%buffer+256];
        done:"
    )
}

#[test]
fn a_flag_is_published_with_release_and_acquire() {
    let release = "st.release.gpu.global.u32 [%buffer], 1;";
    let acquire = "ld.acquire.gpu.global.u32 %r1, [%buffer];";
    let places = ["ld.global.u32 %r2", "st.global.u32"];
    clean(&flag(release, acquire), WIDE);
    found(&flag("st.relaxed.gpu.global.u32 [%buffer], 1;", acquire), WIDE, Race, places);
    found(&flag(release, "ld.relaxed.gpu.global.u32 %r1, [%buffer];"), WIDE, Race, places);
    found(&flag("st.release.cta.global.u32 [%buffer], 1;", acquire), WIDE, Race, places);
}

#[test]
fn fences_publish_what_relaxed_stores_tell() {
    let publish = "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%buffer], 1;";
    let volatile = "membar.gl; st.volatile.global.u32 [%buffer], 1;";
    let wait = "ld.relaxed.gpu.global.u32 %r1, [%buffer]; fence.acq_rel.gpu;";
    clean(&flag(publish, wait), WIDE);
    clean(&flag(volatile, "ld.volatile.global.u32 %r1, [%buffer]; membar.gl;"), WIDE);
    found(
        &flag("st.relaxed.gpu.global.u32 [%buffer], 1;", wait),
        WIDE,
        Race,
        ["ld.global.u32 %r2", "st.global.u32"],
    );
}

#[test]
fn an_atomic_carries_a_release_on() {
    let publish = "red.release.gpu.global.add.u32 [%buffer], 1;";
    let acquire = "atom.acquire.gpu.global.add.u32 %r1, [%buffer], 0;";
    clean(&flag(publish, acquire), WIDE);
    found(
        &flag("red.relaxed.gpu.global.add.u32 [%buffer], 1;", acquire),
        WIDE,
        Race,
        ["ld.global.u32 %r2", "st.global.u32"],
    );
}

#[test]
fn a_cta_publishes_what_all_its_threads_did() {
    let block = Grid { threads: 64, ..TWO };
    let program = |meet: &str| {
        body(&[
            "setp.eq.u32 %p1, %cta, 0; setp.eq.u32 %p3, %tid, 0;",
            "@!%p1 bra consumer;",
            "st.global.u32 [%mine+256], %tid;",
            meet,
            "@%p3 st.release.gpu.global.u32 [%buffer], 1;",
            "bra done;",
            "consumer:",
            "ld.acquire.gpu.global.u32 %r1, [%buffer];",
            "setp.eq.u32 %p2, %r1, 0;",
            "@%p2 bra consumer;",
            "ld.global.u32 %r2, [%mine+256];",
            "done:",
        ])
    };
    clean(&program("bar.sync 0;"), block);
    found(&program(""), block, Race, ["ld.global.u32 %r2", "st.global.u32"]);
}

/// What is read first is a guess, which the atomic operation confirms or replaces.
const GUESS: &str = "ld.global.u32 %r1, [%buffer];
    again:
    add.u32 %r2, %r1, 1;
    mov.u32 %r3, %r1;
    atom.global.cas.b32 %r1, [%buffer], %r3, %r2;
    setp.ne.u32 %p1, %r1, %r3;
    @%p1 bra again;";

#[test]
fn a_guess_that_an_atomic_confirms_is_harmless() {
    clean(GUESS, WIDE);
    found(
        "setp.eq.u32 %p1, %cta, 0; @%p1 red.global.add.u32 [%buffer], 1; @!%p1 ld.global.u32 %r1, [%buffer];",
        WIDE,
        Race,
        ["", ""],
    );
}

/// CTAs run on several threads of the host, and the checkers must see what orders them in the order
/// in which it took place.
#[test]
fn many_ctas_at_once_are_seen_in_their_order() {
    let many = Grid { ctas: 500, ..WIDE };
    for _ in 0..24 {
        clean(
            &body(&[
                GUESS,
                "atom.global.add.u32 %r1, [%buffer+64], 1; setp.ne.u32 %p1, %r1, 499;",
                "@!%p1 st.global.u32 [%buffer+64], 0;",
            ]),
            many,
        );
    }
}

/// Each CTA writes its part and counts itself; the last one adds up the parts, as `__threadfence`
/// is explained with.
fn parts(fence: &str, use_of_part: &str) -> String {
    format!(
        "mul.wide.u32 %rd1, %cta, 4; add.u64 %rd1, %rd1, %buffer;
        st.volatile.global.u32 [%rd1+256], 7;
        {fence}
        atom.global.add.u32 %r1, [%buffer], 1;
        setp.ne.u32 %p1, %r1, 1;
        @%p1 bra done;
        again:
        ld.volatile.global.u32 %r2, [%buffer+256];
        ld.volatile.global.u32 %r3, [%buffer+260];
        {use_of_part}
        done:"
    )
}

#[test]
fn volatile_parts_are_fenced_before_they_are_counted() {
    let sum = "add.u32 %r2, %r2, %r3; st.global.u32 [%buffer+512], %r2;";
    let places = ["ld.volatile", "st.volatile"];
    clean(&parts("membar.gl;", sum), WIDE);
    clean(&parts("fence.acq_rel.gpu;", sum), WIDE);
    let finding = found(&parts("", sum), WIDE, Race, places);
    assert!(finding.notes[0].contains("no fence between"), "{finding}");
    found(&parts("membar.cta;", sum), WIDE, Race, places);
    // Who looks until the part is there needs no order.
    let poll = "mul.lo.u32 %r2, %r2, %r3; setp.ne.u32 %p2, %r2, 49; @%p2 bra again;";
    clean(&parts("", poll), WIDE);
}

#[test]
fn who_waits_for_a_flag_fences_after_it_in_every_round() {
    // A barrier of the grid in two rounds: what is learnt in the first must not stand for the
    // second.
    let program = |after: &str| {
        format!(
            "xor.b32 %r5, %cta, 1;
            mul.wide.u32 %rd1, %cta, 4; add.u64 %rd1, %rd1, %buffer;
            mul.wide.u32 %rd2, %r5, 4; add.u64 %rd2, %rd2, %buffer;
            mov.u32 %r4, 0;
            round:
            st.global.u32 [%rd1+256], %r4;
            membar.gl;
            atom.global.add.u32 %r1, [%buffer], 1;
            add.u32 %r4, %r4, 2;
            wait: ld.volatile.global.u32 %r1, [%buffer]; setp.lt.u32 %p1, %r1, %r4; @%p1 bra wait;
            {after}
            ld.global.u32 %r2, [%rd2+256];
            add.u64 %rd1, %rd1, 64; add.u64 %rd2, %rd2, 64;
            setp.lt.u32 %p2, %r4, 6;
            @%p2 bra round;"
        )
    };
    clean(&program("membar.gl;"), WIDE);
    found(&program(""), WIDE, Race, ["ld.global.u32 %r2", "st.global.u32"]);
}

#[test]
fn the_last_to_count_may_count_anew() {
    // Of atomic operations on one place, the last comes after all others.
    clean(
        "atom.global.add.u32 %r1, [%buffer], 1; setp.ne.u32 %p1, %r1, 1; @!%p1 st.global.u32 [%buffer], 0;",
        WIDE,
    );
    found(
        "atom.global.add.u32 %r1, [%buffer], 1; setp.ne.u32 %p1, %r1, 0; @!%p1 st.global.u32 [%buffer], 7;",
        WIDE,
        Race,
        ["", ""],
    );
}

#[test]
fn a_ticket_taken_after_a_fence_acquires() {
    // NVIDIA's reduction in one pass: the fence stands before the ticket, and none after it.
    let program = |fence: &str| {
        format!(
            "mul.wide.u32 %rd1, %cta, 4; add.u64 %rd1, %rd1, %buffer;
            st.global.u32 [%rd1+256], 7;
            {fence}
            atom.global.inc.u32 %r1, [%buffer], 2; setp.ne.u32 %p1, %r1, 1; @%p1 bra done;
            ld.global.u32 %r2, [%buffer+256]; ld.global.u32 %r3, [%buffer+260];
            st.global.u32 [%buffer], 0;
            done:"
        )
    };
    clean(&program("membar.gl;"), WIDE);
    found(&program(""), WIDE, Race, ["ld.global", "st.global"]);
}

#[test]
fn loads_through_the_read_only_path_see_no_write_of_the_kernel() {
    let after = |load: &str| format!("st.global.u32 [%buffer], 7; membar.gl; {load} %r2, [%buffer];");
    let one = Grid { threads: 1, ..ONE };
    found(&after("ld.global.nc.u32"), one, NonCoherent, ["ld.global.nc", "st.global"]);
    clean(&after("ld.global.u32"), one);
    clean("ld.global.nc.u32 %r2, [%buffer+256];", WIDE);
}
