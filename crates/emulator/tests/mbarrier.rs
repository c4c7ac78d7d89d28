//! mbarriers: phases, bytes, arrivals from other CTAs, and what is wrong with misuse.

use crate::common::{Shape, cluster_shape, kernel, run, shape, try_run, words};
use warpwright_emulator::{FaultKind, Schedule};

const SCHEDULES: [Schedule; 3] = [Schedule::Eager, Schedule::Latest, Schedule::Random(5)];
const SYNC: &str = "barrier.cluster.arrive; barrier.cluster.wait;";

/// A kernel of one thread with an mbarrier `bar` (its address in `%r9`) initialized for a count. It
/// stores `%r0`, ...
fn alone(count: u32, body: &str, results: usize) -> String {
    let stores: String = (0..results).map(|r| format!("st.global.u32 [%p0+{}], %r{r};", 4 * r)).collect();
    kernel(
        1,
        &format!(
            ".shared .align 8 .b64 bar; mov.u32 %r9, bar; mbarrier.init.shared::cta.b64 [%r9], {count};
             {body} {stores}"
        ),
    )
}

/// The results of such a kernel.
fn results(count: u32, body: &str, results: usize) -> Vec<u32> {
    run(&alone(count, body, results), shape(1, 1), &[words(vec![77; results])]).words(0)
}

/// What is wrong with it.
fn fault(count: u32, body: &str) -> String {
    let fault = try_run(&alone(count, body, 1), shape(1, 1), &[words([0])]).err().expect("a fault");
    assert_eq!(fault.kind, FaultKind::Barrier, "{fault}");
    fault.to_string()
}

/// Puts whether the phase of a parity has completed into `%r<to>`.
fn test(parity: u32, to: u32) -> String {
    format!("mbarrier.test_wait.parity.shared::cta.b64 %q1, [%r9], {parity}; selp.u32 %r{to}, 1, 0, %q1;")
}

#[test]
fn a_phase_waits_for_arrivals_and_bytes() {
    let body = format!(
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %d0, [%r9], 96; {}
         mbarrier.arrive.shared.b64 _, [%r9]; {}
         mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r9], 32; {}
         mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r9], 64; {} {}
         mbarrier.test_wait.acquire.cta.shared::cta.b64 %q1, [%r9], %d0; selp.u32 %r5, 1, 0, %q1;
         mbarrier.pending_count.b64 %r6, %d0;",
        test(0, 0),
        test(0, 1),
        test(0, 2),
        test(0, 3),
        test(1, 4),
    );
    assert_eq!(results(2, &body, 7), [0, 0, 0, 1, 0, 1, 2]);
}

#[test]
fn bytes_may_come_before_they_are_announced() {
    let body = format!(
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r9], 16; {}
         mbarrier.arrive.shared.b64 _, [%r9]; {}
         mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r9], 16; {}",
        test(0, 0),
        test(0, 1),
        test(0, 2)
    );
    assert_eq!(results(1, &body, 3), [0, 0, 1]);
}

#[test]
fn dropped_arrivals_are_missed_by_no_later_phase() {
    let body = format!(
        "mbarrier.arrive_drop.shared.b64 %d0, [%r9]; mbarrier.arrive.shared.b64 %d1, [%r9], 2; {}
         mbarrier.arrive.shared.b64 %d2, [%r9]; mov.b32 %r30, 0; mbarrier.arrive.noComplete.shared.b64 %d3, [%r9], %r30;",
        test(0, 0),
    );
    assert!(fault(3, &body).contains("An arrival counts 0"));
    let body = format!(
        "mbarrier.arrive_drop.shared.b64 %d0, [%r9]; mbarrier.arrive.shared.b64 %d1, [%r9], 2; {}
         mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64 %d2, [%r9], 8;
         mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%r9], 8;
         mbarrier.arrive.noComplete.shared.b64 %d3, [%r9], 1;",
        test(0, 0)
    );
    assert!(fault(3, &body).contains(".noComplete would complete"));
    let body = format!(
        "{} mbarrier.arrive.shared.b64 _, [%r9]; {}
         mbarrier.pending_count.b64 %r2, %d0; mbarrier.pending_count.b64 %r3, %d1; mbarrier.pending_count.b64 %r4, %d2;",
        body.replace("mbarrier.arrive.noComplete.shared.b64 %d3, [%r9], 1;", ""),
        test(1, 1)
    );
    assert_eq!(results(3, &body, 5), [1, 1, 3, 2, 2]);
}

#[test]
fn waits_may_give_a_time_and_name_generic_addresses() {
    let body = "cvt.u64.u32 %d5, %r9; cvta.shared.u64 %d5, %d5;
        mbarrier.arrive.b64 %d0, [%d5];
        mbarrier.try_wait.b64 %q1, [%d5], %d0, 20; selp.u32 %r0, 1, 0, %q1;
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [bar], 1, %r9; selp.u32 %r1, 1, 0, %q1;
        mbarrier.try_wait.parity.relaxed.cta.b64 %q1, [%d5], 0; selp.u32 %r2, 1, 0, %q1;
        mbarrier.arrive.release.cluster.b64 _, [%d5], 1; mbarrier.test_wait.b64 %q1, [%d5], %d0; selp.u32 %r3, 1, 0, %q1;";
    // After two phases the parity is that of the state again, which is no longer one that may be
    // asked for.
    assert_eq!(results(1, body, 4), [1, 0, 1, 0]);
}

#[test]
fn misuse_is_reported() {
    let text = fault(1, "mbarrier.arrive.shared.b64 _, [%r9], 2;");
    assert!(text.contains("takes 1 arrival: 0 have arrived, and 2 more arrive"), "{text}");
    let text =
        fault(1, "mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 64; mbarrier.arrive.shared.b64 _, [%r9];");
    assert!(text.contains("takes 1 arrival: 1 has arrived, and 1 more arrives"), "{text}");
    let text = fault(1, "mbarrier.inval.shared.b64 [%r9]; mbarrier.arrive.shared.b64 _, [%r9];");
    assert!(text.contains("has no initialized mbarrier"), "{text}");
    let text = fault(1, "st.shared.u64 [%r9], 0; mbarrier.arrive.shared.b64 _, [%r9];");
    assert!(text.contains("was overwritten by something else"), "{text}");
    let text = fault(
        1,
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r9], 1048575; mbarrier.expect_tx.relaxed.cta.shared.b64 [%r9], 1;",
    );
    assert!(text.contains("waits for 1048575 bytes in this phase, and 1 more are expected"), "{text}");
    let text = fault(
        1,
        "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r9], 1048575; mbarrier.complete_tx.relaxed.cta.shared.b64 [%r9], 1;",
    );
    assert!(text.contains("has 1048575 unexpected bytes in this phase, and 1 more arrive"), "{text}");
    let text = fault(1, "mbarrier.init.shared.b64 [%r9], 0;");
    assert!(text.contains("initialized for 0 arrivals"), "{text}");
    let text = fault(1048575, "mbarrier.arrive_drop.shared.b64 _, [%r9], 1048576;");
    assert!(text.contains("An arrival counts 1048576"), "{text}");
}

#[test]
fn forms_that_do_not_exist_do_not_load() {
    let mut device = crate::common::device("h200");
    for line in [
        "mbarrier.init.shared::cluster.b64 [%r9], 1;",
        "mbarrier.arrive.shared::cluster.b64 %d0, [%r9];",
        "mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r9], 1;",
        "mbarrier.test_wait.parity.shared::cluster.b64 %q1, [%r9], 0;",
        "mbarrier.test_wait.parity.shared.b64 %q1, [%r9], 0, 10;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r9];",
    ] {
        let module = warpwright_ptx::parse(&alone(1, line, 0)).unwrap();
        assert!(device.load(&module).is_err(), "{line}");
    }
}

/// Every CTA fills the next one's buffer and arrives at its mbarrier: a ring of as many rounds as
/// asked for.
fn ring(arrive: &str, rounds: u32) -> String {
    kernel(
        1,
        &format!(
            ".shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .b32 box[32];
             mov.u32 %r10, full; mov.u32 %r11, empty; setp.ne.u32 %q0, %t, 0; @%q0 bra ready;
             mbarrier.init.shared.b64 [%r10], 32; mbarrier.init.shared.b64 [%r11], 32; fence.mbarrier_init.release.cluster;
             ready: {SYNC}
             mov.u32 %r12, %cluster_ctarank; mov.u32 %r13, %cluster_nctarank;
             add.u32 %r14, %r12, 1; rem.u32 %r14, %r14, %r13;
             add.u32 %r15, %r12, %r13; sub.u32 %r15, %r15, 1; rem.u32 %r15, %r15, %r13;
             mapa.shared::cluster.u32 %r16, %r10, %r14; mapa.shared::cluster.u32 %r17, %r11, %r15;
             mov.u32 %r18, box; mad.lo.u32 %r18, %t, 4, %r18; mapa.shared::cluster.u32 %r19, %r18, %r14;
             mov.u32 %r20, 0; mov.u32 %r30, 0;
             round:
             and.b32 %r21, %r20, 1; xor.b32 %r22, %r21, 1;
             free: mbarrier.try_wait.parity.shared.b64 %q1, [%r11], %r22; @!%q1 bra free;
             mad.lo.u32 %r23, %r12, 100, %r20; add.u32 %r23, %r23, %t;
             st.shared::cluster.u32 [%r19], %r23;
             {arrive}
             here: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [%r10], %r21, 1000; @!%q1 bra here;
             ld.shared.u32 %r24, [%r18]; add.u32 %r30, %r30, %r24;
             mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r17];
             add.u32 %r20, %r20, 1; setp.lt.u32 %q2, %r20, {rounds}; @%q2 bra round;
             {SYNC}
             mad.lo.u32 %r25, %r12, 32, %t; mad.wide.u32 %d0, %r25, 4, %p0; st.global.u32 [%d0], %r30;"
        ),
    )
}

#[test]
fn peers_hand_work_round_a_ring() {
    let plain = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r16];";
    let generic = "cvt.u64.u32 %d5, %r16; cvta.shared::cluster.u64 %d5, %d5; mbarrier.arrive.release.cluster.b64 _, [%d5], 1;";
    let bytes = "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r16], 4;
                 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r16], 4;";
    for (arrive, rounds) in [(plain, 9), (generic, 4), (bytes, 5)] {
        for ctas in [2, 5, 16] {
            for schedule in SCHEDULES {
                let shape = Shape { schedule, ..cluster_shape(1, ctas, 32) };
                let done = run(&ring(arrive, rounds), shape, &[words(vec![0; 32 * ctas as usize])]);
                for (thread, &sum) in done.words(0).iter().enumerate() {
                    let (rank, lane) = (thread as u32 / 32, thread as u32 % 32);
                    let before = (rank + ctas - 1) % ctas;
                    let expected: u32 = (0..rounds).map(|round| before * 100 + round + lane).sum();
                    assert_eq!(sum, expected, "{arrive} {ctas} {schedule:?}");
                }
            }
        }
    }
}

#[test]
fn arrivals_at_peers_that_are_gone_are_reported() {
    let body = |action: &str| {
        format!(
            ".shared .align 8 .b64 bar; mov.u32 %r9, bar; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %q0, %r1, 1;
             mbarrier.init.shared.b64 [%r9], 1; {SYNC} @%q0 exit;
             mov.u32 %r2, 0; wait: add.u32 %r2, %r2, 1; setp.lt.u32 %q1, %r2, 500000; @%q1 bra wait;
             mapa.shared::cluster.u32 %r3, %r9, 1; {action}"
        )
    };
    let told = |action: &str, kind: FaultKind, part: &str| {
        let fault = try_run(&kernel(0, &body(action)), cluster_shape(1, 2, 1), &[]).err().expect("a fault");
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(fault.to_string().contains(part), "{part}: {fault}");
    };
    let gone = FaultKind::PeerNotResident;
    told("mbarrier.arrive.shared::cluster.b64 _, [%r3];", gone, "the CTA of rank 1, which has exited");
    told("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r3], 4;", gone, "which has exited");
    told(
        "mbarrier.arrive.shared.b64 _, [%r3];",
        FaultKind::OutOfBounds,
        "needs an mbarrier of the CTA itself",
    );
    told(
        "add.u32 %r3, %r3, 0x1000000; mbarrier.arrive.shared::cluster.b64 _, [%r3];",
        FaultKind::OutOfBounds,
        "no CTA of rank 2",
    );
}
