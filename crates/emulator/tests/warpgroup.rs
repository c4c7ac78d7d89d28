//! `wgmma` in flight: what the four warps of a warpgroup have issued together, under every
//! schedule, and the faults of wrong uses.

use crate::common::{Finished, Shape, kernel, run, shape, try_run, words};
use warpwright_emulator::{Fault, FaultKind, Schedule};

const SCHEDULES: [Schedule; 5] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2), Schedule::Random(3)];

/// A kernel whose shared memory is all ones of bf16, with the descriptor of 64 (or 8) rows of 16 of
/// them in `%d0`. `%q0` is true; `%t` is the thread. Each thread stores its first accumulator
/// register, `%f0`, to word `%t` of `p0`.
fn ones(body: &str) -> String {
    let start = "
        .shared .align 1024 .b8 tile[4096];
        mov.u32 %r0, tile; and.b32 %r2, %t, 127; mad.lo.u32 %r0, %r2, 4, %r0; mov.u32 %r1, 0x3f803f80; mov.u32 %r2, 0;
        fill: st.shared.u32 [%r0], %r1; add.u32 %r0, %r0, 512; add.u32 %r2, %r2, 1;
        setp.lt.u32 %q1, %r2, 8; @%q1 bra fill;
        fence.proxy.async; bar.sync 0;
        mov.u32 %r0, tile; shr.u32 %r0, %r0, 4; and.b32 %r0, %r0, 0x3fff; cvt.u64.u32 %d0, %r0;
        or.b64 %d0, %d0, 0x0000001000080000; setp.eq.u32 %q0, 0, 0;
        mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
        mad.wide.u32 %p0, %t, 4, %p0;
        wgmma.fence.sync.aligned;";
    kernel(1, &format!("{start}\n{body}\nst.global.f32 [%p0], %f0;"))
}

const MULTIPLY: &str =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, %q0, 1, 1, 0, 0;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";

fn launch(threads: u32, schedule: Schedule) -> Shape {
    Shape { schedule, ..shape(1, threads) }
}

fn outcome(text: &str, threads: u32, schedule: Schedule) -> Result<Finished, Box<Fault>> {
    try_run(text, launch(threads, schedule), &[words((0..threads).map(|_| 7))])
}

/// What a program gives whose mistake must show in the data; the checkers' tests are about what
/// they say of it.
fn unchecked(text: &str, schedule: Schedule) -> Finished {
    run(text, Shape { checked: false, ..launch(128, schedule) }, &[words((0..128).map(|_| 7))])
}

fn fault(text: &str, threads: u32) -> Fault {
    match outcome(text, threads, Schedule::Eager) {
        Ok(_) => panic!("it ran:\n{text}"),
        Err(fault) => *fault,
    }
}

#[test]
fn what_is_waited_for_has_happened() {
    let text = ones(&format!("{MULTIPLY}\n{MULTIPLY}\n{COMMIT}\n{MULTIPLY}\n{COMMIT}\n{WAIT}"));
    for schedule in SCHEDULES {
        for threads in [128, 256, 384] {
            let finished = outcome(&text, threads, schedule).unwrap_or_else(|fault| panic!("{fault}"));
            assert!(finished.floats(0).iter().all(|&sum| sum == 48.0), "{schedule:?}");
            assert_eq!(finished.report.mma_multiply_adds, u64::from(threads / 128) * 3 * 64 * 8 * 16);
        }
    }
}

/// `wait_group 1` leaves the last group alone, which under `latest` then has not happened.
#[test]
fn a_group_that_is_not_waited_for_happens_late() {
    let text = ones(&format!(
        "{MULTIPLY}\n{COMMIT}\n{MULTIPLY}\n{COMMIT}\nwgmma.wait_group.sync.aligned 1;\nabs.f32 %f9, %f0;\n{WAIT}\nmov.f32 %f0, %f9;"
    ));
    let sums = |schedule| unchecked(&text, schedule).floats(0);
    assert!(sums(Schedule::Latest).iter().all(|&sum| sum == 16.0));
    assert!(sums(Schedule::Eager).iter().all(|&sum| sum == 32.0));
    for seed in 0..8 {
        let drawn = sums(Schedule::Random(seed));
        assert!(drawn.iter().all(|&sum| sum == 16.0 || sum == 32.0));
        assert_eq!(drawn, sums(Schedule::Random(seed)), "the same seed gives the same run");
    }
}

/// Compilers move accumulators between the commit and the wait; ptxas then puts a wait before the
/// moves (C7517).
#[test]
fn a_move_of_an_accumulator_waits() {
    let text = ones(&format!(
        "{MULTIPLY}\n{MULTIPLY}\n{COMMIT}\nmov.b32 {{%h0, %h1}}, %f0;\nmov.f32 %f9, %f1;\n{WAIT}\nmov.b32 %f0, {{%h0, %h1}}; min.f32 %f0, %f0, %f9;"
    ));
    for schedule in SCHEDULES {
        assert!(outcome(&text, 128, schedule).unwrap().floats(0).iter().all(|&sum| sum == 32.0));
    }
}

/// A missing wait, and a missing commit: the accumulator still holds what it did.
#[test]
fn a_missing_wait_shows() {
    for body in [MULTIPLY.to_owned(), format!("{MULTIPLY}\n{COMMIT}"), format!("{MULTIPLY}\n{WAIT}")] {
        let finished = unchecked(&ones(&body), Schedule::Latest);
        assert!(finished.floats(0).iter().all(|&sum| sum == 0.0), "{body}");
    }
}

/// Shared memory is read when the multiply happens: a tile overwritten too early shows.
#[test]
fn an_overwritten_tile_shows() {
    let overwrite =
        "mov.u32 %r0, tile; mad.lo.u32 %r0, %t, 4, %r0; mov.u32 %r1, 0x40004000; st.shared.u32 [%r0], %r1;
        st.shared.u32 [%r0+512], %r1; st.shared.u32 [%r0+1024], %r1; st.shared.u32 [%r0+1536], %r1;";
    let text = ones(&format!("{MULTIPLY}\n{COMMIT}\n{overwrite}\n{WAIT}"));
    let sums = |schedule| unchecked(&text, schedule).floats(0);
    assert!(sums(Schedule::Eager).iter().all(|&sum| sum == 16.0));
    assert!(sums(Schedule::Latest).iter().all(|&sum| sum == 64.0));
}

/// A warp's wait is over only when all four warps have issued: here three of them issue after a
/// barrier that the first only reaches when its own turn is over.
#[test]
fn the_four_warps_need_not_come_together() {
    let text = ones(&format!(
        "setp.lt.u32 %q2, %t, 32; @%q2 bra first;
         bar.sync 1, 128; {MULTIPLY}\n{COMMIT}\n{WAIT}\n bra done;
         first: bar.sync 1, 128;\n bra together; together: {MULTIPLY}\n{COMMIT}\n{WAIT}\n done:"
    ));
    // The first warp's instruction is another one, though of the same text.
    let fault = fault(&text, 128);
    assert_eq!(fault.kind, FaultKind::Warpgroup);
    assert!(fault.message.contains("another instruction"), "{fault}");
    let text = ones(&format!(
        "setp.lt.u32 %q2, %t, 32; @%q2 bra multiply; nanosleep.u32 20; multiply: {MULTIPLY}\n{COMMIT}\n{WAIT}"
    ));
    for schedule in SCHEDULES {
        assert!(outcome(&text, 128, schedule).unwrap().floats(0).iter().all(|&sum| sum == 16.0));
    }
}

#[test]
fn a_warp_that_does_not_come_is_named() {
    let text = ones(&format!("setp.ge.u32 %q2, %t, 96; @%q2 bra done; {MULTIPLY}\n{COMMIT}\n{WAIT}\ndone:"));
    let fault = fault(&text, 128);
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(fault.notes.iter().any(|note| note.contains("warp 3")), "{fault}");
    assert!(fault.notes.iter().any(|note| note.contains("wgmma.wait_group")), "{fault}");
}

#[test]
fn wrong_uses_are_faults() {
    let wrong: [(&str, u32, FaultKind, &str); 6] = [
        ("", 96, FaultKind::Warpgroup, "the CTA has 3 warps"),
        ("setp.lt.u32 %q0, %t, 5;", 128, FaultKind::Warpgroup, "scale-d"),
        ("setp.lt.u32 %q0, %t, 64;", 128, FaultKind::Warpgroup, "has scale-d"),
        ("cvt.u64.u32 %d1, %t; add.u64 %d0, %d0, %d1;", 128, FaultKind::Warpgroup, "the same in all lanes"),
        (
            "shr.u32 %r3, %t, 5; cvt.u64.u32 %d1, %r3; add.u64 %d0, %d0, %d1;",
            128,
            FaultKind::Warpgroup,
            "has the descriptor",
        ),
        ("add.u64 %d0, %d0, 255;", 128, FaultKind::OutOfBounds, "of 4096 bytes"),
    ];
    for (change, threads, kind, words) in wrong {
        let fault = fault(&ones(&format!("{change}\n{MULTIPLY}\n{COMMIT}\n{WAIT}")), threads);
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(fault.message.contains(words), "{fault}");
    }
    let guarded = ones(&format!("setp.lt.u32 %q2, %t, 16; @%q2 {MULTIPLY}\n{COMMIT}\n{WAIT}"));
    assert!(fault(&guarded, 128).message.contains("all 32 lanes"));
}

/// What PTX does not have is refused when it is loaded, with the reason.
#[test]
fn what_does_not_exist_does_not_load() {
    let wrong = [
        ("m64n12k16.f32.bf16.bf16 {%f0, %f1}, %d0, %d0, %q0, 1, 1, 0, 0;", "a multiple of 8"),
        (
            "m64n8k16.f16.bf16.bf16 {%r0, %r1}, %d0, %d0, %q0, 1, 1, 0, 0;",
            "`wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16` does not exist",
        ),
        ("m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2}, %d0, %d0, %q0, 1, 1, 0, 0;", "has 3 elements, not 4"),
        ("m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, %q0, 2, 1, 0, 0;", "1 or -1"),
        (
            "m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, %q0, 1, 1, 0;",
            "`%d0` is not a vector of 4 registers",
        ),
        ("m64n40k32.s32.s8.s8 {%r0}, %d0, %d0, %q0;", "does not exist. PTX has"),
    ];
    for (rest, words) in wrong {
        let text = ones(&format!("wgmma.mma_async.sync.aligned.{rest}"));
        let module = warpwright_ptx::parse(&text).unwrap();
        let error = crate::common::device("h200").load(&module).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// A multiply of registers reads them when it happens.
#[test]
fn registers_of_a_are_read_late() {
    let from_registers = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, %d0, %q0, 1, 1, 0;";
    let set = |bits: &str| (4..8).map(|r| format!("mov.u32 %r{r}, {bits};\n")).collect::<String>();
    let text = ones(&format!("{}{from_registers}\n{COMMIT}\n{}{WAIT}", set("0x3f803f80"), set("0x40404040")));
    let sums = |schedule| unchecked(&text, schedule).floats(0);
    assert!(sums(Schedule::Eager).iter().all(|&sum| sum == 16.0));
    assert!(sums(Schedule::Latest).iter().all(|&sum| sum == 48.0));
}
