//! Rows 10, 13, 15, 16, 17 and 20 of the catalog: mbarriers, bulk copies, and the two proxies.

use warpwright_check::Finding;
use warpwright_check::FindingKind::{Barrier, Fault, InFlight, ProxyFence, Race};
use warpwright_emulator::{FaultKind, Schedule};

use crate::checks::harness::{Grid, ONE, clean, found, recorded, run_at};

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

const INIT: &str = "mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0; @%p1 mbarrier.init.shared.b64 [%r8], 1;";
const SYNC: &str = "bar.sync 0;";
/// Thread 0 loads 1024 bytes.
const LOAD: &str = "@!%p1 bra loaded;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%buffer], 1024, [%r8];
    loaded:";
const WAIT: &str = "wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait;";
const READ: &str = "ld.shared.u32 %r1, [%own];";
const WRITE: &str = "st.shared.u32 [%own], %tid;";
const FENCE: &str = "fence.proxy.async;";
/// Thread 0 stores 256 bytes.
const STORE: &str = "setp.eq.u32 %p1, %tid, 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%buffer], [%tile], 256;
    @%p1 cp.async.bulk.commit_group;";
const STORED: &str = "@%p1 cp.async.bulk.wait_group 0;";
const SOURCE_READ: &str = "@%p1 cp.async.bulk.wait_group.read 0;";

#[test]
fn an_mbarrier_is_initialized_before_others_use_it() {
    let wait = "mbarrier.test_wait.parity.shared.b64 %p2, [%r8], 1;";
    let finding = found(&body(&[INIT, wait]), ONE, Race, ["mbarrier.test_wait", "mbarrier.init"]);
    assert!(finding.message.contains("mbarrier"), "{finding}");
    clean(&body(&[INIT, SYNC, wait]), ONE);
}

/// Triton's kernels have no fence after it.
#[test]
fn an_initialization_is_fenced_for_copies_in_the_kernel_language() {
    let program = |fence: &str| {
        let start = "mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0; @!%p1 bra start; mbarrier.init.shared.b64 [%r8], 1;";
        body(&[start, fence, "start:", SYNC, LOAD, WAIT, READ])
    };
    let places = ["cp.async.bulk", "mbarrier.init"];
    let finding = found(&recorded(&program("")), ONE, ProxyFence, places);
    assert!(finding.help.is_some_and(|help| help.contains("fence_mbarrier_init()")));
    clean(&recorded(&program("fence.mbarrier_init.release.cluster;")), ONE);
    clean(&recorded(&program(FENCE)), ONE);
    clean(&program(""), ONE);
}

#[test]
fn an_mbarrier_is_initialized_once_unless_nothing_is_lost() {
    let initialize =
        |predicate: &str, count: u32| format!("@{predicate} mbarrier.init.shared.b64 [%r8], {count};");
    let again = initialize("%p1", 1);
    // Compilers say the same twice, with barriers between (Triton's `warp_specialize`).
    clean(&body(&[INIT, SYNC, &again, SYNC, LOAD, WAIT, READ]), ONE);
    let twice = ["mbarrier.init", "mbarrier.init"];
    found(&body(&[INIT, SYNC, &initialize("%p1", 2), SYNC]), ONE, Barrier, twice);
    let other = "setp.eq.u32 %p3, %tid, 32;";
    found(&body(&[INIT, SYNC, other, &initialize("%p3", 1), SYNC]), ONE, Barrier, twice);
    found(&body(&[INIT, SYNC, LOAD, WAIT, READ, SYNC, &again]), ONE, Barrier, twice);
}

#[test]
fn a_bulk_copy_is_read_after_its_phase() {
    found(&body(&[INIT, SYNC, LOAD, READ, WAIT]), ONE, InFlight, ["ld.shared", "cp.async.bulk"]);
    clean(&body(&[INIT, SYNC, LOAD, WAIT, READ]), ONE);
}

#[test]
fn the_wrong_parity_does_not_wait() {
    let wrong = "mbarrier.test_wait.parity.shared.b64 %p2, [%r8], 1;";
    let text = body(&[INIT, SYNC, LOAD, wrong, READ, WAIT]);
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(1)] {
        let findings = run_at(&text, ONE, schedule).expect("it runs to its end");
        let at = |finding: &Finding, label: usize| finding.labels[label].ptx_text.clone();
        let is_read = |finding: &&Finding| {
            finding.kind == InFlight
                && at(finding, 0).contains("ld.shared")
                && at(finding, 1).contains("cp.async.bulk")
        };
        let finding = findings.iter().find(is_read).expect("the read is found");
        assert!(finding.notes[0].contains("phase"), "{finding}");
        // Where the copy is complete, the test of the other parity does not succeed.
        if schedule == Schedule::Latest {
            assert!(finding.labels[2].text.contains("returned at once"), "{finding}");
        }
    }
}

#[test]
fn a_barrier_of_threads_does_not_wait_for_a_copy() {
    found(&body(&[INIT, SYNC, LOAD, SYNC, READ, WAIT]), ONE, InFlight, ["ld.shared", "cp.async.bulk"]);
}

#[test]
fn one_thread_may_wait_for_all() {
    let one =
        "@!%p1 bra waited; wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra wait; waited:";
    clean(&body(&[INIT, SYNC, LOAD, one, SYNC, READ]), ONE);
    found(&body(&[INIT, SYNC, LOAD, one, READ, SYNC]), ONE, InFlight, ["ld.shared", "cp.async.bulk"]);
}

#[test]
fn a_slot_is_loaded_after_its_readers_have_left_it() {
    let again = "@!%p1 bra again_loaded;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 1024;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%buffer], 1024, [%r8];
        again_loaded:";
    let last = "last: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 1; @!%p2 bra last;";
    let round = body(&[INIT, SYNC, LOAD, WAIT, SYNC, READ]);
    found(&body(&[&round, again, last]), ONE, Race, ["cp.async.bulk", "ld.shared"]);
    clean(&body(&[&round, SYNC, again, last]), ONE);
}

#[test]
fn a_bulk_store_needs_a_proxy_fence_after_ordinary_writes() {
    let finding =
        found(&body(&[WRITE, SYNC, STORE, STORED]), ONE, ProxyFence, ["cp.async.bulk.global", "st.shared"]);
    assert!(finding.notes[0].contains("fence.proxy.async"), "{finding}");
    clean(&body(&[WRITE, FENCE, SYNC, STORE, STORED]), ONE);
    // The fence is on the way from the write to the copy all the same.
    clean(&body(&[WRITE, SYNC, FENCE, STORE, STORED]), ONE);
}

#[test]
fn a_fence_before_the_write_is_none() {
    found(
        &body(&[FENCE, WRITE, SYNC, STORE, STORED]),
        ONE,
        ProxyFence,
        ["cp.async.bulk.global", "st.shared"],
    );
}

#[test]
fn a_proxy_fence_is_no_barrier() {
    found(&body(&[WRITE, FENCE, STORE, STORED]), ONE, Race, ["cp.async.bulk.global", "st.shared"]);
}

#[test]
fn the_source_of_a_bulk_store_is_overwritten_after_it_was_read() {
    let start = body(&[WRITE, FENCE, SYNC, STORE]);
    found(&body(&[&start, SYNC, WRITE, STORED]), ONE, InFlight, ["st.shared", "cp.async.bulk.global"]);
    clean(&body(&[&start, SOURCE_READ, SYNC, "st.shared.u32 [%own], %lane;", STORED]), ONE);
}

#[test]
fn the_target_of_a_bulk_store_is_read_after_it_was_written() {
    let start = body(&[WRITE, FENCE, SYNC, STORE]);
    let read = "@%p1 ld.global.u32 %r1, [%buffer];";
    found(&body(&[&start, SOURCE_READ, read, STORED]), ONE, InFlight, ["ld.global", "cp.async.bulk.global"]);
    clean(&body(&[&start, STORED, read]), ONE);
}

#[test]
fn lanes_may_all_store_the_same() {
    // CUTLASS lets a whole warp store a tile.
    let start = body(&[WRITE, FENCE, SYNC, "setp.lt.u32 %p1, %tid, 32;"]);
    let store = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%buffer], [%tile], 256;";
    let commit = "@%p1 cp.async.bulk.commit_group;";
    clean(&body(&[&start, store, commit, STORED]), ONE);
    // One after the other in two instructions, nothing tells which of them wins.
    found(&body(&[&start, store, commit, store, commit, STORED]), ONE, InFlight, ["cp.async.bulk.global"; 2]);
}

#[test]
fn a_bulk_store_that_is_in_no_group_is_not_waited_for() {
    let store = STORE.replace("@%p1 cp.async.bulk.commit_group;", "");
    found(
        &body(&[WRITE, FENCE, SYNC, &store, STORED, "@%p1 st.shared.u32 [%own], %next;"]),
        ONE,
        InFlight,
        ["st.shared", "cp.async.bulk.global"],
    );
}

#[test]
fn ordinary_writes_are_fenced_before_a_load_overwrites_them() {
    let zero = "mov.u32 %r2, 0; st.shared.u32 [%own], %r2;";
    found(&body(&[INIT, zero, SYNC, LOAD, WAIT, READ]), ONE, ProxyFence, ["cp.async.bulk", "st.shared"]);
    clean(&body(&[INIT, zero, FENCE, SYNC, LOAD, WAIT, READ]), ONE);
}

#[test]
fn ctas_of_a_cluster_meet_before_they_share() {
    let pair = Grid { ctas: 2, threads: 32, cluster: 2 };
    let barrier = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
    let read = "mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mapa.shared::cluster.u32 %r3, %own, %r2;
        ld.shared::cluster.u32 %r4, [%r3];";
    clean(&body(&[WRITE, barrier, read, barrier]), pair);
    let relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;";
    let finding =
        found(&body(&[WRITE, relaxed, read, barrier]), pair, Race, ["ld.shared::cluster", "st.shared"]);
    assert!(finding.notes[0].contains("CTAs"), "{finding}");
    clean(&body(&[WRITE, "fence.acq_rel.cluster;", relaxed, read, barrier]), pair);
}

/// As in CUTLASS's GEMM by pairs of CTAs, where the fence comes before the last initialization.
#[test]
fn a_peer_uses_an_mbarrier_after_its_initialization() {
    let pair = Grid { ctas: 2, threads: 32, cluster: 2 };
    let barrier = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
    let relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;";
    let fence = "fence.mbarrier_init.release.cluster;";
    let arrive = "mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mapa.shared::cluster.u32 %r3, %r8, %r2;
        @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r3];";
    let late = body(&[fence, INIT, relaxed, arrive, barrier]);
    let finding = found(&late, pair, Race, ["mbarrier.arrive", "mbarrier.init"]);
    assert!(finding.notes[0].contains("only what a fence precedes"), "{finding}");
    clean(&body(&[INIT, fence, relaxed, arrive, barrier]), pair);
}

#[test]
fn a_cta_stays_while_its_peers_use_its_memory() {
    let pair = Grid { ctas: 2, threads: 32, cluster: 2 };
    let barrier = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
    let relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;";
    // One reads what the other has; the other goes on for so long that it is there in this run.
    let read = "mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mapa.shared::cluster.u32 %r3, %own, %r2;
        setp.eq.u32 %p3, %r2, 0; mov.u32 %r5, 0; @%p3 bra busy;
        ld.shared::cluster.u32 %r4, [%r3]; bra read;
        busy: add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 100000; @%p4 bra busy;
        read:";
    let early = Fault(FaultKind::PeerNotResident);
    let finding = found(&body(&[WRITE, barrier, read]), pair, early, ["ld.shared::cluster"]);
    assert!(finding.message.contains("may have exited"), "{finding}");
    clean(&body(&[WRITE, barrier, read, barrier]), pair);
    // To have met is enough for that, ordered or not.
    clean(&body(&[WRITE, barrier, read, relaxed]), pair);
}

/// Rank 1 has started when rank 0 uses its memory, because of a flag, which orders nothing.
#[test]
fn a_cta_has_started_before_its_peers_use_its_memory() {
    let pair = Grid { ctas: 2, threads: 64, cluster: 2 };
    let barrier = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
    let relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;";
    let flag = "setp.eq.u32 %p1, %tid, 0; mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %p3, %r2, 0;
        and.pred %p2, %p3, %p1; @%p2 st.relaxed.gpu.global.u32 [%buffer], 1; @%p3 bra seen;
        again: ld.relaxed.gpu.global.u32 %r5, [%buffer]; setp.eq.u32 %p4, %r5, 0; @%p4 bra again; seen:";
    let peer =
        "mov.u32 %r2, 1; mapa.shared::cluster.u32 %r3, %own, %r2; mapa.shared::cluster.u32 %r4, %r8, %r2;
        @%p3 bra past;";
    let accesses = [
        ("st.shared::cluster", "st.shared::cluster.u32 [%r3], %tid;"),
        ("ld.shared::cluster", "ld.shared::cluster.u32 %r5, [%r3];"),
        ("atom.shared::cluster", "atom.shared::cluster.add.u32 %r5, [%r3], 1;"),
        ("st.async", "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %tid, [%r4];"),
        ("mbarrier.arrive", "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];"),
        (
            "cp.async.bulk",
            "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%buffer], 16, [%r4];",
        ),
    ];
    let early = |findings: &[Finding], place: &str| {
        let of_start = |finding: &&Finding| finding.message.contains("may not have started");
        let found = findings.iter().find(of_start);
        found.is_some_and(|finding| {
            finding.kind == Fault(FaultKind::PeerNotResident) && finding.labels[0].ptx_text.contains(place)
        })
    };
    for (place, access) in accesses {
        for chain in [flag, &format!("bar.sync 0; {flag}"), &format!("{flag} fence.acq_rel.cluster;")] {
            let body = body(&[INIT, chain, peer, access, "past:", barrier]);
            let findings = run_at(&body, pair, Schedule::Eager).unwrap_or_else(|fault| panic!("{fault}"));
            assert!(early(&findings, place), "{findings:?}\n{body}");
        }
    }
    // The peer has published something, or every thread of the cluster has arrived.
    let ordered = flag.replace("st.relaxed", "st.release").replace("ld.relaxed", "ld.acquire");
    for chain in [&ordered, &format!("{flag} {barrier}"), &format!("{flag} {relaxed}")] {
        clean(&body(&[chain, peer, accesses[0].1, "past:", barrier]), pair);
    }
}

#[test]
fn one_lane_of_each_warp_is_enough_for_the_end_of_an_mbarrier() {
    let wait = "setp.lt.u32 %p4, %lane, 4; @%p4 mbarrier.test_wait.parity.shared.b64 %p2, [%r8], 1;";
    let end = "@%p1 mbarrier.inval.shared.b64 [%r8];";
    clean(&body(&[INIT, SYNC, wait, end]), Grid { threads: 32, ..ONE });
    found(&body(&[INIT, SYNC, wait, end]), ONE, Race, ["mbarrier.inval", "mbarrier.test_wait"]);
    clean(&body(&[INIT, SYNC, wait, SYNC, end]), ONE);
}

#[test]
fn an_mbarrier_is_invalidated_before_its_memory_holds_data() {
    let uses: [(&str, &str); 5] = [
        ("st.shared", "@%p1 st.shared.u32 [%r8+4], %tid;"),
        ("st.volatile.shared", "@%p1 st.volatile.shared.u8 [%r8+7], %tid;"),
        ("atom.shared", "@%p1 atom.shared.add.u32 %r2, [%r8], 1;"),
        ("cp.async.ca", "@%p1 cp.async.ca.shared.global [%r8], [%buffer], 16; cp.async.wait_all;"),
        (
            "cp.async.bulk",
            "setp.eq.u32 %p4, %tid, 0; @!%p4 bra skip; mov.u32 %r9, barrier; add.u32 %r9, %r9, 16;
            mbarrier.init.shared.b64 [%r9], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 16;
            cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%buffer], 16, [%r9];
            again: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 0; @!%p2 bra again; skip:",
        ),
    ];
    let arrive = "@%p1 mbarrier.arrive.shared.b64 %rd3, [%r8];";
    let invalidate = "@%p1 mbarrier.inval.shared.b64 [%r8]; fence.proxy.async;";
    for (name, reuse) in uses {
        let finding = found(&body(&[INIT, arrive, SYNC, reuse]), ONE, Barrier, [name, "mbarrier.init"]);
        assert!(finding.message.contains("has not been invalidated"), "{finding}");
        clean(&body(&[INIT, arrive, SYNC, invalidate, reuse]), ONE);
        // One that is never used.
        clean(&body(&[INIT, SYNC, FENCE, reuse]), ONE);
        let beside = reuse.replace("[%r8", "[%r7");
        clean(&body(&[INIT, SYNC, "mov.u32 %r7, tile; @%p1 st.shared.u32 [%r7], 0;", FENCE, &beside]), ONE);
    }
    clean(&body(&[INIT, arrive, SYNC]), ONE);
    // A peer's.
    let pair = Grid { ctas: 2, cluster: 2, ..ONE };
    let meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    let remote = "xor.b32 %r3, %cta, 1; mapa.shared::cluster.u32 %r3, %r8, %r3; @%p1 st.shared::cluster.u32 [%r3], %tid;";
    found(&body(&[INIT, arrive, meet, remote, meet]), pair, Barrier, ["st.shared::cluster", "mbarrier.init"]);
    clean(&body(&[INIT, arrive, "@%p1 mbarrier.inval.shared.b64 [%r8];", meet, remote, meet]), pair);
}
