//! Rows 15 and 20 of the catalog: `cp.async` and its groups.

use warpwright_check::FindingKind::{InFlight, Race};

use crate::checks::harness::{Grid, ONE, clean, found};

const COPY: &str = "cp.async.ca.shared.global [%own], [%mine], 4;";
const COPY_SECOND: &str = "cp.async.ca.shared.global [%own+1024], [%mine+1024], 4;";
const COMMIT: &str = "cp.async.commit_group;";
const READ: &str = "ld.shared.u32 %r1, [%own];";
const READ_NEXT: &str = "ld.shared.u32 %r1, [%next];";
const SYNC: &str = "bar.sync 0;";

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn a_copy_is_read_after_its_group_was_waited_for() {
    let wait = "cp.async.wait_group 0;";
    let finding = found(&body(&[COPY, COMMIT, READ, wait]), ONE, InFlight, ["ld.shared", "cp.async"]);
    assert!(finding.notes[0].contains("cp.async.wait_group"), "{finding}");
    clean(&body(&[COPY, COMMIT, wait, READ]), ONE);
    clean(&body(&[COPY, "cp.async.wait_all;", READ]), ONE);
}

#[test]
fn a_copy_that_is_in_no_group_is_not_waited_for() {
    found(
        &body(&[COPY, "cp.async.wait_group 0;", READ, "cp.async.wait_all;"]),
        ONE,
        InFlight,
        ["ld.shared", "cp.async"],
    );
}

#[test]
fn groups_are_counted_from_the_last() {
    let two = body(&[COPY, COMMIT, COPY_SECOND, COMMIT]);
    let last = "cp.async.wait_all;";
    clean(&body(&[&two, "cp.async.wait_group 1;", READ, last]), ONE);
    found(&body(&[&two, "cp.async.wait_group 2;", READ, last]), ONE, InFlight, ["ld.shared", "cp.async"]);
}

#[test]
fn other_threads_need_a_barrier_after_the_wait() {
    let wait = "cp.async.wait_group 0;";
    let finding = found(&body(&[COPY, COMMIT, wait, READ_NEXT]), ONE, InFlight, ["ld.shared", "cp.async"]);
    assert!(
        finding.notes[0].contains("has not synchronized with it since")
            || finding.notes[0].contains("by the thread")
    );
    found(&body(&[COPY, COMMIT, SYNC, READ_NEXT, wait]), ONE, InFlight, ["ld.shared", "cp.async"]);
    clean(&body(&[COPY, COMMIT, wait, SYNC, READ_NEXT]), ONE);
}

#[test]
fn a_slot_is_refilled_after_its_readers_have_left_it() {
    let round = body(&[COPY, COMMIT, "cp.async.wait_group 0;", SYNC, READ_NEXT]);
    found(&body(&[&round, COPY, COMMIT, "cp.async.wait_all;"]), ONE, Race, ["cp.async", "ld.shared"]);
    clean(&body(&[&round, SYNC, COPY, COMMIT, "cp.async.wait_all;"]), ONE);
}

#[test]
fn an_mbarrier_tells_of_copies() {
    let block = Grid { threads: 64, ..ONE };
    let start = "mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0; @%p1 mbarrier.init.shared.b64 [%r8], 64; bar.sync 0;";
    let arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r8];";
    let wait = "wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait;";
    clean(&body(&[start, COPY, arrive, wait, READ_NEXT]), block);
    found(&body(&[start, arrive, COPY, wait, READ_NEXT]), block, InFlight, ["ld.shared", "cp.async"]);
}

#[test]
fn an_arrival_after_copies_counts_when_it_takes_place() {
    // For one arrival less than there are: the last one falls into the next phase, and with it what
    // it would have told.
    let start = "mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0; @%p1 mbarrier.init.shared.b64 [%r8], 63; bar.sync 0;";
    let arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r8];";
    let wait = "wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait;";
    found(&body(&[start, COPY, arrive, wait, READ_NEXT]), ONE, InFlight, ["ld.shared", "cp.async"]);
}
