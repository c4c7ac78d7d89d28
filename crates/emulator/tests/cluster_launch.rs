//! `clusterlaunchcontrol`: kernels whose CTAs take over the work of clusters that have not started.

use crate::common::{Shape, kernel, shape, try_run, words};
use warpwright_emulator::{FaultKind, Schedule};

const SCHEDULES: [Schedule; 5] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2), Schedule::Random(3)];

fn blackwell(body: &str) -> String {
    kernel(1, body).replace("sm_90a", "sm_100a")
}

/// A CTA counts its work, requests more, and waits for the answer, until there is none.
const PERSISTENT: &str = "
    .shared .align 16 .b8 response[16]; .shared .align 8 .b64 barrier; .reg .b128 %x;
    mov.u32 %r1, response; mov.u32 %r2, barrier; setp.eq.u32 %q1, %t, 0; mov.u32 %r6, 0;
    @%q1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; MEET
    mov.u32 %r10, %cluster_ctaid.x; mov.u32 %r11, %cluster_ctarank;
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
    work:
    mov.u32 %r7, %nctaid.x; mov.u32 %r8, %nctaid.y; mad.lo.u32 %r9, %r5, %r8, %r4; mad.lo.u32 %r9, %r9, %r7, %r3;
    mul.wide.u32 %d1, %r9, 4; add.u64 %d1, %p0, %d1; @%q1 red.global.add.u32 [%d1], 1;
    @%q1 mbarrier.arrive.expect_tx.shared.b64 %d2, [%r2], 16;
    setp.eq.and.u32 %q2, %r11, 0, %q1; @%q2 REQUEST
    wait: mbarrier.try_wait.parity.ACQUIREshared.b64 %q3, [%r2], %r6; @!%q3 bra wait;
    ld.shared.b128 %x, [%r1];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q4, %x;
    @!%q4 bra left;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r3, %r4, _, _}, %x;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r5, %x;
    add.u32 %r3, %r3, %r10; xor.b32 %r6, %r6, 1;
    fence.proxy.async.shared::cta; MEET
    bra work;
    left:";
const REQUEST: &str =
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];";
const MULTICAST: &str = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%r1], [%r2];";

fn persistent(of_cluster: bool) -> String {
    let body = match of_cluster {
        false => PERSISTENT.replace("REQUEST", REQUEST).replace("MEET", "bar.sync 0;").replace("ACQUIRE", ""),
        true => PERSISTENT
            .replace("REQUEST", MULTICAST)
            .replace("MEET", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
            .replace("ACQUIRE", "acquire.cluster."),
    };
    blackwell(&body)
}

#[test]
fn each_cta_is_worked_on_once() {
    for grid in [[1, 1, 1], [7, 1, 1], [5, 3, 2], [300, 1, 1]] {
        for schedule in SCHEDULES {
            let launch = Shape { grid, schedule, ..shape(1, 64) };
            let ctas: u32 = grid.iter().product();
            let finished = try_run(&persistent(false), launch, &[words(vec![0; ctas as usize])])
                .unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(finished.words(0), vec![1; ctas as usize], "{grid:?} {schedule:?}");
            // Those that started are fewer, if there were others to cancel.
            assert!(
                finished.report.ctas < u64::from(ctas) || ctas == 1,
                "{} of {grid:?}",
                finished.report.ctas
            );
        }
    }
}

#[test]
fn all_ctas_of_a_cluster_receive_the_response() {
    for schedule in SCHEDULES {
        let launch = Shape { grid: [8, 3, 1], cluster: [2, 1, 1], schedule, ..shape(1, 64) };
        let finished =
            try_run(&persistent(true), launch, &[words([0; 24])]).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(finished.words(0), [1; 24], "{schedule:?}");
    }
}

#[test]
fn wrong_uses_are_faults() {
    let again = "@%q1 mbarrier.arrive.expect_tx.shared.b64 %d2, [%r2], 16; @%q1 REQUEST";
    let cases = [
        (
            persistent(false).replace("left:", &format!("left: {again}").replace("REQUEST", REQUEST)),
            "found one failed",
        ),
        (
            persistent(false).replace("%r1, response;", "%r1, response; add.u32 %r1, %r1, 8;"),
            "a multiple of 16",
        ),
        (
            blackwell(
                ".reg .b128 %x; mov.b128 %x, {%d1, %d1};
                clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q4, %x;",
            ),
            "are not the response",
        ),
    ];
    for (text, reason) in cases {
        let fault = try_run(&text, shape(3, 64), &[words([0; 3])]).err().expect(reason);
        assert!(matches!(fault.kind, FaultKind::IllegalInstruction | FaultKind::Misaligned), "{fault}");
        assert!(fault.to_string().contains(reason), "{fault}");
    }
}
