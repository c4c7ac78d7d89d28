//! Bulk copies and tensor maps: when their data moves at each schedule, and what is said of their
//! misuse.

use crate::common::{Argument, cluster_shape, kernel, run, shape, try_run, words};
use warpwright_arch::tensor_map::{Description, ElementType};
use warpwright_emulator::{FaultKind, Schedule, tensor_map};

const SCHEDULES: [Schedule; 5] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2), Schedule::Random(3)];

fn run_at(text: &str, schedule: Schedule, arguments: &[Argument]) -> Vec<u32> {
    let mut shape = shape(1, 32);
    shape.schedule = schedule;
    // The tests of the checkers cover the findings in these programs; here the data must show the
    // errors.
    shape.checked = false;
    run(text, shape, arguments).words(arguments.len() - 1)
}

/// An mbarrier at `bar` for one arrival, and 64 KB at `s`; only lane 0 goes on.
const OPENING: &str = "
    .shared .align 128 .b8 s[4096]; .shared .align 8 .b64 bar;
    mov.u32 %r0, s; mov.u32 %r1, bar; setp.ne.u32 %q0, %t, 0; @%q0 ret;
    mbarrier.init.shared.b64 [%r1], 1; st.shared.u32 [%r0], 7; st.shared.u32 [%r0+2044], 7; fence.proxy.async;";

const LOAD: &str =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%p0], 2048, [%r1];";
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 2048;";
const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared.b64 %q1, [%r1], 0; @!%q1 bra WAIT;";
const OUT: &str = "ld.shared.u32 %r2, [%r0]; ld.shared.u32 %r3, [%r0+2044]; st.global.u32 [%p1], %r2; st.global.u32 [%p1+4], %r3;";

#[test]
fn a_load_is_there_once_its_mbarrier_is_waited_for() {
    let waited = kernel(2, &format!("{OPENING} {EXPECT} {LOAD} {WAIT} {OUT}"));
    let early = kernel(2, &format!("{OPENING} {LOAD} {EXPECT} {WAIT} {OUT}"));
    let forgotten = kernel(2, &format!("{OPENING} {EXPECT} {LOAD} {OUT}"));
    let arguments = [words(100..612), words([0; 2])];
    for schedule in SCHEDULES {
        assert_eq!(run_at(&waited, schedule, &arguments), [100, 611], "{schedule:?}");
        assert_eq!(
            run_at(&early, schedule, &arguments),
            [100, 611],
            "bytes before they are expected, {schedule:?}"
        );
    }
    assert_eq!(run_at(&forgotten, Schedule::Eager, &arguments), [100, 611]);
    assert_eq!(
        run_at(&forgotten, Schedule::Latest, &arguments),
        [7, 7],
        "the latest schedule shows the missing wait"
    );
}

#[test]
fn waiting_for_one_mbarrier_does_not_bring_the_bytes_of_another() {
    let text = kernel(
        2,
        &format!(
            "{OPENING} .shared .align 8 .b64 other; mov.u32 %r4, other; mbarrier.init.shared.b64 [%r4], 1;
             mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 1024; {LOAD} {EXPECT}
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+2048], [%p0], 1024, [%r4];
             OTHER: mbarrier.try_wait.parity.shared.b64 %q1, [%r4], 0; @!%q1 bra OTHER; {OUT}"
        ),
    );
    let arguments = [words(100..612), words([0; 2])];
    assert_eq!(run_at(&text, Schedule::Eager, &arguments), [100, 611]);
    assert_eq!(run_at(&text, Schedule::Latest, &arguments), [7, 7]);
}

#[test]
fn a_store_reads_by_its_read_wait_and_writes_by_its_full_wait() {
    let store = |before: &str, after: &str| {
        kernel(
            1,
            &format!(
                "{OPENING} cp.async.bulk.global.shared::cta.bulk_group [%p0], [%r0], 16; cp.async.bulk.commit_group; {before}
                 st.shared.u32 [%r0], 9; ld.global.u32 %r2, [%p0]; {after} ld.global.u32 %r3, [%p0];
                 st.global.u32 [%p0+16], %r2; st.global.u32 [%p0+20], %r3;"
            ),
        )
    };
    let outcome = |text: &str, schedule| run_at(text, schedule, &[words([1; 8])])[4..6].to_vec();
    let right = store("cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;");
    for schedule in SCHEDULES {
        let seen = outcome(&right, schedule);
        assert!(seen[0] == 7 || seen[0] == 1, "{schedule:?}: {seen:?}");
        assert_eq!(seen[1], 7, "{schedule:?}");
    }
    assert_eq!(outcome(&right, Schedule::Latest), [1, 7], "only read by then");
    let unread = store("", "cp.async.bulk.wait_group 0;");
    assert_eq!(outcome(&unread, Schedule::Latest), [1, 9], "the source was overwritten before it was read");
    assert_eq!(outcome(&unread, Schedule::Eager), [7, 7]);
    let unwritten = store("cp.async.bulk.wait_group.read 0;", "");
    assert_eq!(outcome(&unwritten, Schedule::Latest), [1, 1], "nothing waited for the write");
}

#[test]
fn groups_count_from_the_latest() {
    let text = kernel(
        1,
        &format!(
            "{OPENING} st.shared.u32 [%r0+16], 8;
             cp.async.bulk.global.shared::cta.bulk_group [%p0], [%r0], 16; cp.async.bulk.commit_group;
             cp.async.bulk.global.shared::cta.bulk_group [%p0+16], [%r0+16], 16; cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 1; ld.global.u32 %r2, [%p0]; ld.global.u32 %r3, [%p0+16];
             st.global.u32 [%p0+32], %r2; st.global.u32 [%p0+36], %r3;"
        ),
    );
    for schedule in SCHEDULES {
        assert_eq!(run_at(&text, schedule, &[words([1; 16])])[8], 7, "{schedule:?}");
    }
    assert_eq!(run_at(&text, Schedule::Latest, &[words([1; 16])])[9], 1);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let text = kernel(
        2,
        &format!("{OPENING} {EXPECT} {LOAD} mbarrier.test_wait.parity.shared.b64 %q1, [%r1], 0; {OUT}"),
    );
    let outcome = |seed| run_at(&text, Schedule::Random(seed), &[words(100..612), words([0; 2])]);
    assert_eq!(outcome(3), outcome(3));
    assert!((0..30).any(|seed| outcome(seed) != outcome(3)), "seeds differ");
}

fn fault_of(text: &str, arguments: &[Argument], kind: FaultKind, words: &str) {
    for schedule in SCHEDULES {
        let mut shape = shape(1, 32);
        shape.schedule = schedule;
        let fault = try_run(text, shape, arguments).map(drop).expect_err(words);
        assert_eq!(fault.kind, kind, "{schedule:?}: {fault}");
        assert!(fault.to_string().contains(words), "{schedule:?}: {fault}");
    }
}

#[test]
fn bulk_copies_are_held_to_their_rules() {
    let body = |copy: &str| kernel(2, &format!("{OPENING} {EXPECT} {copy}"));
    let arguments = [words(0..512), words([0; 2])];
    let load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    let cases = [
        (
            format!("{load} [%r0], [%p0+8], 16, [%r1];"),
            FaultKind::Misaligned,
            "source address of a bulk copy",
        ),
        (
            format!("{load} [%r0+8], [%p0], 16, [%r1];"),
            FaultKind::Misaligned,
            "target address of a bulk copy",
        ),
        (format!("{load} [%r0], [%p0], 24, [%r1];"), FaultKind::Misaligned, "size of a bulk copy is 0x18"),
        (
            format!("{load} [%r0], [%p0+16], 2048, [%r1];"),
            FaultKind::OutOfBounds,
            "not all inside an allocation",
        ),
        (format!("{load} [%r0+4096], [%p0], 2048, [%r1];"), FaultKind::OutOfBounds, "from offset 0x1000 on"),
        (
            format!("mov.b16 %h0, 6; {load}.multicast::cluster [%r0], [%p0], 16, [%r1], %h0;"),
            FaultKind::OutOfBounds,
            "mask 0x6, and the cluster has 1 CTAs",
        ),
    ];
    for (copy, kind, words) in cases {
        fault_of(&body(&copy), &arguments, kind, words);
    }
    // No thread of a cluster may send to a CTA that has exited.
    let text = kernel(
        2,
        &format!(
            "mov.u32 %r9, %cluster_ctarank; {OPENING} setp.ne.u32 %q2, %r9, 0; barrier.cluster.arrive; barrier.cluster.wait;
             @%q2 ret; mov.u32 %r8, 0; SPIN: add.u32 %r8, %r8, 1; nanosleep.u32 20; setp.lt.u32 %q3, %r8, 2000; @%q3 bra SPIN;
             mov.b16 %h0, 2; {load}.multicast::cluster [%r0], [%p0], 16, [%r1], %h0;"
        ),
    );
    let fault = try_run(&text, cluster_shape(1, 2, 1), &arguments).map(drop).expect_err("the peer is gone");
    assert_eq!(fault.kind, FaultKind::PeerNotResident, "{fault}");
}

#[test]
fn what_is_no_tensor_map_is_reported() {
    let load = |map: &str| {
        kernel(
            2,
            &format!(
                "{OPENING} {map} cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
                 [%r0], [%d0, {{%r5}}], [%r1];"
            ),
        )
    };
    let arguments = [words(0..512), words([0; 2])];
    fault_of(
        &load("mov.u32 %r5, 0; mov.b64 %d0, %p0;"),
        &arguments,
        FaultKind::IllegalInstruction,
        "are not a tensor map",
    );
    fault_of(
        &load("mov.u32 %r5, 0; add.u64 %d0, %p0, 32;"),
        &arguments,
        FaultKind::Misaligned,
        "must be at a multiple of 64",
    );
    fault_of(
        &load("mov.u32 %r5, 0; mov.b64 %d0, 64;"),
        &arguments,
        FaultKind::OutOfBounds,
        "No tensor map exists",
    );
    // A map whose rank is not the copy's; one that was changed into nonsense; one whose buffer is
    // gone.
    let map =
        |rank: usize| Description::row_major(ElementType::U32, 0x1000, &vec![16; rank], &vec![16; rank]);
    let placed = |map: &Description| [Argument::Buffer(tensor_map::encode(map).to_vec()), words([0; 2])];
    fault_of(
        &load("mov.u32 %r5, 0; mov.b64 %d0, %p0;"),
        &placed(&map(2)),
        FaultKind::IllegalInstruction,
        "The copy is of 1 axes, and its tensor map of 2",
    );
    fault_of(
        &load("mov.u32 %r5, 0; mov.b64 %d0, %p0;"),
        &placed(&map(1)),
        FaultKind::OutOfBounds,
        "the tensor map's address, extents and strides",
    );
    fault_of(
        &load(
            "mov.u32 %r5, 0; mov.b64 %d0, %p0; tensormap.replace.tile.box_dim.global.b1024.b32 [%d0], 0, 300;",
        ),
        &placed(&map(1)),
        FaultKind::IllegalInstruction,
        "an extent of 300 along axis 0; it must be from 1 to 256",
    );
    let replace = kernel(2, "tensormap.replace.tile.rank.global.b1024.b32 [%p0], 1;");
    fault_of(&replace, &arguments, FaultKind::IllegalInstruction, "are not a tensor map");
}
