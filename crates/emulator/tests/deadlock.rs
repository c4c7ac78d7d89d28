//! A wait that nothing can end is reported as a deadlock; a wait for what still comes is not.

use crate::common::{Shape, cluster_shape, device, kernel, load, run, shape, try_run, words};
use warpwright_emulator::{FaultKind, Launch, Limit, Schedule};

const SCHEDULES: [Schedule; 3] = [Schedule::Eager, Schedule::Latest, Schedule::Random(9)];

/// The deadlock that a kernel of one buffer of zeros ends in, at every schedule.
fn deadlock(body: &str, shape: Shape, parts: &[&str]) {
    for schedule in SCHEDULES {
        let fault = try_run(&kernel(1, body), Shape { schedule, ..shape }, &[words(vec![0; 1024])]);
        let fault = fault.err().unwrap_or_else(|| panic!("no deadlock in {body}"));
        assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
        let text = fault.to_string();
        for part in parts {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}

const INIT: &str = ".shared .align 8 .b64 bar[4]; mov.u32 %r9, bar; setp.ne.u32 %q0, %t, 0; @%q0 bra ready;
     mbarrier.init.shared.b64 [%r9], 2; mbarrier.init.shared.b64 [%r9+8], 1; ready: bar.sync 0;";

#[test]
fn a_phase_that_lacks_an_arrival() {
    // Warp 0 arrives for itself; nobody else does.
    let body = format!(
        "{INIT} setp.ge.u32 %q1, %t, 64; @%q1 exit; @!%q0 mbarrier.arrive.shared.b64 _, [%r9];
         wait: mbarrier.try_wait.parity.shared.b64 %q2, [%r9], 0; @!%q2 bra wait;"
    );
    deadlock(
        &body,
        shape(1, 128),
        &[
            "every thread of the CTA that has not exited waits, and nothing changes what it waits for",
            "warps 0-1 at PTX line",
            "waiting for phase 0 (parity 0) of the mbarrier at shared address 0x0, which lacks 1 of 2 arrivals",
            "; warp 0 arrived once at PTX line",
            "warps 2-3 have exited",
        ],
    );
}

#[test]
fn a_phase_that_lacks_bytes() {
    let body = format!(
        "{INIT} @!%q0 mbarrier.arrive.expect_tx.shared.b64 _, [%r9+8], 128;
         @!%q0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r9+8], 32;
         wait: mbarrier.test_wait.parity.shared.b64 %q2, [%r9+8], 0; @!%q2 bra wait;"
    );
    deadlock(
        &body,
        shape(3, 32),
        &[
            "has all its arrivals and lacks 96 of the bytes expected",
            "128 bytes were expected and 32 arrived",
            "2 others",
        ],
    );
}

#[test]
fn a_consumer_one_phase_ahead() {
    // The classic: the consumer starts with the parity of the producer.
    let body = format!(
        "{INIT} @!%q0 mbarrier.arrive.shared.b64 _, [%r9+8];
         wait: mbarrier.try_wait.parity.shared.b64 %q2, [%r9+8], 1; @!%q2 bra wait;"
    );
    deadlock(
        &body,
        shape(1, 64),
        &[
            "phase 1 (parity 1)",
            "lacks 1 of 1 arrivals; no thread has arrived in this phase; in the previous phase, warp 0 arrived once",
        ],
    );
}

#[test]
fn an_arrival_that_a_peer_owes() {
    let body = format!(
        "{INIT} barrier.cluster.arrive; barrier.cluster.wait;
         mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %q1, %r1, 1; @%q1 exit;
         wait: mbarrier.try_wait.parity.shared.b64 %q2, [%r9], 0; @!%q2 bra wait;"
    );
    deadlock(
        &body,
        cluster_shape(2, 2, 64),
        &["every thread of the cluster", "CTA of rank 0, warps 0-1", "CTA of rank 1, warps 0-1 have exited"],
    );
}

#[test]
fn a_flag_that_nobody_sets() {
    for load in ["ld.volatile.global.u32", "ld.acquire.gpu.global.u32", "ld.global.u32"] {
        let body =
            format!("wait: {load} %r1, [%p0+64]; setp.eq.u32 %q1, %r1, 0; nanosleep.u32 100; @%q1 bra wait;");
        deadlock(&body, shape(300, 64), &["nothing changes what it waits for"]);
    }
    deadlock(
        "wait: ld.volatile.global.u32 %r1, [%p0+64]; setp.eq.u32 %q1, %r1, 0; @%q1 bra wait;",
        shape(2, 32),
        &["polling global address", "to which nothing is stored"],
    );
}

#[test]
fn a_lock_that_nobody_releases() {
    let body = "lock: atom.cas.global.b32 %r1, [%p0], 0, 1; setp.ne.u32 %q1, %r1, 0; @%q1 bra lock;";
    deadlock(body, shape(2, 1), &["polling global address"]);
    let body = "lock: atom.exch.global.b32 %r1, [%p0], 1; setp.ne.u32 %q1, %r1, 0; @%q1 bra lock;";
    deadlock(body, shape(2, 1), &["polling global address"]);
}

#[test]
fn loops_with_states_of_their_own() {
    deadlock("round: bra round;", shape(1, 32), &["repeating a loop that changes nothing"]);
    // A turn of such a loop ends long before that of a loop that counts: 400 warps take no minute.
    deadlock("round: bra round;", shape(100, 128), &["the same holds for the 99 others"]);
    // Looks at three flags in turn, and calls a function that uses its stack.
    deadlock(
        "mov.u32 %r2, 0; wait: mad.wide.u32 %d0, %r2, 4, %p0; ld.volatile.global.u32 %r1, [%d0];
         add.u32 %r2, %r2, 1; setp.eq.u32 %q2, %r2, 3; selp.u32 %r2, 0, %r2, %q2;
         setp.eq.u32 %q1, %r1, 0; @%q1 bra wait;",
        shape(1, 40),
        &["polling"],
    );
    deadlock(
        ".local .b32 spill[2]; wait: ld.volatile.global.u32 %r1, [%p0]; st.local.u32 [spill], %r1; ld.local.u32 %r2, [spill];
         setp.eq.u32 %q1, %r2, 0; @%q1 bra wait;",
        shape(1, 32),
        &["polling"],
    );
    // Lane 0 polls for the whole warp, which waits for it.
    deadlock(
        &format!(
            "{INIT} @%q0 bra together; wait: mbarrier.try_wait.parity.shared.b64 %q2, [%r9], 0; @!%q2 bra wait;
             together: bar.warp.sync 0xffffffff;"
        ),
        shape(1, 32),
        &["its member mask is 0xffffffff, and lane 0 is elsewhere", "which lacks 2 of 2 arrivals"],
    );
}

#[test]
fn waiting_by_the_clock_is_waiting() {
    // Looks sixteen times, and then at the clock, to sleep longer and longer: as `cuda::barrier`
    // waits.
    let body = format!(
        "{INIT} @!%q0 mbarrier.arrive.shared.b64 _, [%r9]; mov.u64 %d0, %globaltimer; mov.u32 %r2, 0; bra wait;
         again: add.u32 %r2, %r2, 1;
         wait: mbarrier.try_wait.parity.shared.b64 %q2, [%r9], 0; @%q2 bra done;
         setp.lt.s32 %q1, %r2, 16; @%q1 bra again;
         mov.u64 %d1, %globaltimer; sub.u64 %d1, %d1, %d0; setp.gt.u64 %q1, %d1, 4000000; @%q1 bra long;
         shr.u64 %d1, %d1, 2; cvt.u32.u64 %r3, %d1; nanosleep.u32 %r3; bra wait;
         long: nanosleep.u32 1000000; bra wait; done:"
    );
    deadlock(&body, shape(2, 64), &["which lacks 1 of 2 arrivals", "the same holds for the 1 others"]);
    // One that gives up after a minute does so at once.
    let text = kernel(
        1,
        "mov.u64 %d0, %clock64; wait: ld.volatile.global.u32 %r1, [%p0]; mov.u64 %d1, %clock64; sub.u64 %d1, %d1, %d0;
         setp.lt.u64 %q1, %d1, 100000000000; @%q1 bra wait; trap;",
    );
    let fault = try_run(&text, shape(2, 32), &[words([0])]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Trap);
}

#[test]
fn waits_that_end_are_no_deadlocks() {
    // A thousand tries, then the kernel gives up by itself.
    let text = kernel(
        1,
        "mov.u32 %r2, 0; wait: ld.volatile.global.u32 %r1, [%p0]; add.u32 %r2, %r2, 1; setp.lt.u32 %q1, %r2, 100000;
         @%q1 bra wait; trap;",
    );
    let fault = try_run(&text, shape(2, 32), &[words([0])]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Trap);
    // The last CTA sets the flag that all others wait for, after so much time.
    let text = kernel(
        1,
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, 1; setp.ne.u32 %q0, %r1, %r2; @%q0 bra wait;
         mov.u64 %d0, %globaltimer; add.u64 %d0, %d0, 3000000;
         time: mov.u64 %d1, %globaltimer; nanosleep.u32 10; setp.lt.u64 %q1, %d1, %d0; @%q1 bra time;
         st.release.gpu.global.u32 [%p0], 1; bra end;
         wait: ld.acquire.gpu.global.u32 %r3, [%p0]; setp.eq.u32 %q1, %r3, 0; @%q1 bra wait;
         end: mad.wide.u32 %d2, %r1, 4, %p0; st.global.u32 [%d2+4], 1;",
    );
    for schedule in SCHEDULES {
        let done = run(&text, Shape { schedule, ..shape(7, 1) }, &[words(vec![0; 8])]);
        assert_eq!(done.words(0), [1; 8]);
    }
    // One CTA works long without a store, polls nothing, and then stores.
    let text = kernel(
        1,
        "mov.u32 %r1, %ctaid.x; setp.ne.u32 %q0, %r1, 1; @%q0 bra wait; mov.u32 %r2, 0;
         work: add.u32 %r2, %r2, 1; setp.lt.u32 %q1, %r2, 20000000; @%q1 bra work; st.volatile.global.u32 [%p0], %r2; bra end;
         wait: ld.volatile.global.u32 %r3, [%p0]; setp.eq.u32 %q1, %r3, 0; @%q1 bra wait;
         end: ld.volatile.global.u32 %r3, [%p0]; mad.wide.u32 %d2, %r1, 4, %p0; st.global.u32 [%d2+4], %r3;",
    );
    assert_eq!(run(&text, shape(3, 1), &[words(vec![0; 4])]).words(0), [20_000_000; 4]);
}

/// Thread 0 completes four phases, and every thread waits for each. Nothing keeps thread 0 from
/// completing two phases while another warp waits for the first.
const LAPPED: &str = "mov.u32 %r1, 0; next: and.b32 %r2, %r1, 1;
     @!%q0 mbarrier.arrive.shared.b64 _, [%r9+8];
     wait: mbarrier.try_wait.parity.shared.b64 %q2, [%r9+8], %r2; @!%q2 bra wait;
     add.u32 %r1, %r1, 1; setp.lt.u32 %q3, %r1, 4; @%q3 bra next;";

/// The same with a barrier in each of two CTAs. Thread 0 of the first completes the phases of both.
const LAPPED_PEER: &str = "mapa.shared::cluster.u32 %r5, %r9, 1; mov.u32 %r6, %cluster_ctarank;
     setp.ne.u32 %q4, %r6, 0; or.pred %q0, %q0, %q4; barrier.cluster.arrive; barrier.cluster.wait;
     mov.u32 %r1, 0; next: and.b32 %r2, %r1, 1;
     @!%q0 mbarrier.arrive.shared.b64 _, [%r9+8];
     @!%q0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5+8];
     wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q2, [%r9+8], %r2; @!%q2 bra wait;
     add.u32 %r1, %r1, 1; setp.lt.u32 %q3, %r1, 4; @%q3 bra next;
     barrier.cluster.arrive; barrier.cluster.wait;";

#[test]
fn only_the_default_schedule_laps_no_warp_that_waits() {
    for (body, shape) in [(LAPPED, shape(2, 128)), (LAPPED_PEER, cluster_shape(2, 2, 64))] {
        let text = kernel(1, &format!("{INIT} {body}"));
        for schedule in SCHEDULES {
            let done = try_run(&text, Shape { schedule, ..shape }, &[words([0])]);
            match schedule {
                Schedule::Eager => assert!(done.is_ok(), "{}", done.err().unwrap()),
                Schedule::Latest | Schedule::Random(_) => {
                    let fault = done.err().unwrap_or_else(|| panic!("no deadlock under {schedule:?}"));
                    assert!(fault.to_string().contains("waiting for phase 4 (parity 0)"), "{fault}");
                }
            }
        }
    }
}

/// A loop of ordinary loads has no mark of a wait: it is proved to wait forever once registers repeat,
/// within few instructions of each warp.
#[test]
fn a_loop_that_only_loads_is_proved_to_wait_in_vain_soon() {
    let text = kernel(1, "wait: ld.global.u32 %r0, [%p0]; setp.eq.u32 %q0, %r0, 0; @%q0 bra wait;");
    let mut device = device("h200");
    let program = load(&mut device, &text);
    let memory = device.allocate(4096).expect("there is room");
    device.write(memory, &[0; 4096]).expect("it is allocated");
    let launch = Launch {
        grid: [16, 1, 1],
        block: [64, 1, 1],
        parameters: &memory.to_le_bytes(),
        limit: Some(Limit::WarpInstructions(1_000_000)),
        ..Launch::default()
    };
    let fault = device.launch(&program, program.kernels().next().unwrap(), &launch).expect_err("it waits");
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
}
