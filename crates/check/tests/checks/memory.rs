//! Row 24 of the catalog: memory that nothing has written; and work in flight when a
//! kernel ends.

use warpwright_check::FindingKind::{Leak, Uninitialized};

use crate::checks::harness::{Grid, ONE, clean, found};

#[test]
fn shared_memory_is_not_zeroed() {
    let finding = found("ld.shared.u32 %r1, [%own];", ONE, Uninitialized, ["ld.shared"]);
    assert!(finding.notes[0].contains("not zeroed"), "{finding}");
    clean("st.shared.u32 [%own], %tid; ld.shared.u32 %r1, [%own];", ONE);
    found("atom.shared.add.u32 %r1, [%tile], 1;", ONE, Uninitialized, ["atom.shared"]);
}

#[test]
fn bytes_that_nothing_wrote_are_found_one_by_one() {
    let halves =
        "shl.b32 %r1, %tid, 2; add.u32 %r1, %r1, %tile; st.shared.u16 [%r1], 1;".replace(" 1;", " %h;");
    let program = |read: &str| format!(".reg .b16 %h; mov.u16 %h, 1; {halves} {read}");
    clean(&program("ld.shared.u16 %h, [%own];"), ONE);
    found(&program("ld.shared.u16 %h, [%own+2];"), ONE, Uninitialized, ["ld.shared"]);
}

#[test]
fn global_memory_is_written_by_the_host_or_by_a_kernel() {
    clean("ld.global.u32 %r1, [%mine];", ONE);
    let finding = found("ld.global.u32 %r1, [%mine+65536];", ONE, Uninitialized, ["ld.global"]);
    assert_eq!(finding.labels.len(), 1);
    clean("st.global.u32 [%mine+65536], %tid; ld.global.u32 %r1, [%mine+65536];", ONE);
}

#[test]
fn padding_of_a_vector_may_stay_unwritten() {
    let store = "shl.b32 %r1, %tid, 4; add.u32 %r1, %r1, %tile; st.shared.u32 [%r1], %tid;";
    clean(&format!("{store} ld.shared.v4.u32 {{%r2, %r3, %r4, %r5}}, [%r1];"), ONE);
}

#[test]
fn copies_may_move_what_nothing_has_written() {
    clean(
        "cp.async.ca.shared.global [%own], [%mine+65536], 4; cp.async.wait_all; ld.shared.u32 %r1, [%own];",
        ONE,
    );
}

#[test]
fn copies_are_waited_for_before_the_end() {
    let copy = "cp.async.ca.shared.global [%own], [%mine], 4; cp.async.commit_group;";
    let finding = found(copy, ONE, Leak, ["cp.async.ca"]);
    assert!(finding.help.is_some_and(|help| help.contains("cp.async.wait_all")));
    clean(&format!("{copy} cp.async.wait_group 0;"), ONE);
}

#[test]
fn bulk_stores_are_waited_for_before_the_end() {
    let one = Grid { threads: 1, ..ONE };
    let store = "st.shared.v4.u32 [%tile], {%tid, %tid, %tid, %tid}; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%buffer], [%tile], 16; cp.async.bulk.commit_group;";
    found(store, one, Leak, ["cp.async.bulk.global"]);
    clean(&format!("{store} cp.async.bulk.wait_group.read 0;"), one);
}
