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
fn a_copy_reads_what_something_has_written() {
    let wait = "cp.async.wait_all; ld.shared.u32 %r1, [%own];";
    let copy = |source: &str| format!("cp.async.ca.shared.global [%own], [%mine+{source}; {wait}");
    let finding = found(&copy("65536], 4"), ONE, Uninitialized, ["cp.async"]);
    assert!(finding.message.contains("4 bytes at global"), "{finding}");
    clean(&copy("0], 4"), ONE);
    // What is filled with zeros reads nothing.
    clean(&copy("65536], 4, 0"), ONE);
    clean(&format!("st.global.u32 [%mine+65536], %tid; {}", copy("65536], 4")), ONE);
    // The end of a partial vector.
    let vector = "cp.async.cg.shared.global [%tile], [%buffer+65536], 16; cp.async.wait_all;";
    let one = Grid { threads: 1, ..ONE };
    clean(&format!("st.global.u32 [%buffer+65536], %tid; {vector}"), one);
    found(vector, one, Uninitialized, ["cp.async"]);
}

#[test]
fn a_bulk_copy_reads_what_something_has_written() {
    let one = Grid { threads: 1, ..ONE };
    let start = "mov.u32 %r8, barrier; mbarrier.init.shared.b64 [%r8], 1; fence.proxy.async;";
    let wait = "mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 64;
        wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait;";
    let load = |first: u32| {
        format!(
            "{start} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%buffer+{first}], 64, [%r8];
            {wait} ld.shared.u32 %r1, [%tile];"
        )
    };
    found(&load(65536), one, Uninitialized, ["cp.async.bulk"]);
    clean(&load(65536 - 16), one);
    let peer = format!(
        "{start} cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%tile], [%tile+1024], 64, [%r8]; {wait}"
    );
    let finding = found(&peer, one, Uninitialized, ["cp.async.bulk"]);
    assert!(finding.message.contains("64 bytes at shared"), "{finding}");
    clean(&peer.replace(start, &format!("{start} st.shared.u32 [%tile+1024], 1; fence.proxy.async;")), one);
}

#[test]
fn an_asynchronous_reduction_updates_what_something_has_written() {
    let one = Grid { threads: 1, ..ONE };
    let reduce = |first: u32| {
        format!(
            "st.shared.v4.u32 [%tile], {{%tid, %tid, %tid, %tid}}; fence.proxy.async;
            cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%buffer+{first}], [%tile], 16;
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
    };
    found(&reduce(65536), one, Uninitialized, ["cp.reduce.async.bulk"]);
    clean(&reduce(0), one);
    let update = |before: &str| {
        format!(
            "mov.u32 %r8, barrier; mbarrier.init.shared.b64 [%r8], 1; {before}
            mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 4; mapa.shared::cluster.u32 %r3, %tile, 0;
            mapa.shared::cluster.u32 %r4, %r8, 0;
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r3], %tid, [%r4];
            wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait;"
        )
    };
    found(&update(""), one, Uninitialized, ["red.async"]);
    clean(&update("st.shared.u32 [%tile], 0;"), one);
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
