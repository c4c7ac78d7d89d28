//! Rows 8, 16, 19 and 26 of the catalog: threads of a CTA that share memory with no barrier
//! between them.

use warpwright_check::FindingKind::{Barrier, Race};
use warpwright_emulator::{FaultKind, Schedule};

use crate::checks::harness::{Grid, ONE, clean, found, run_at};

const WRITE: &str = "st.shared.u32 [%own], %tid;";
const READ_NEXT: &str = "ld.shared.u32 %r1, [%next];";

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn a_read_after_anothers_write_needs_a_barrier() {
    let finding = found(&body(&[WRITE, READ_NEXT]), ONE, Race, ["ld.shared", "st.shared"]);
    assert!(finding.notes[0].contains("no barrier") || finding.notes[0].contains("bar.warp.sync"));
    clean(&body(&[WRITE, "bar.sync 0;", READ_NEXT]), ONE);
}

#[test]
fn the_next_rounds_write_needs_a_barrier_after_the_read() {
    let round = body(&[WRITE, "bar.sync 0;", READ_NEXT]);
    found(&body(&[&round, &round]), ONE, Race, ["st.shared", "ld.shared"]);
    clean(&body(&[&round, "bar.sync 0;", &round]), ONE);
}

#[test]
fn lanes_of_a_warp_need_a_warp_barrier() {
    let one_warp = Grid { threads: 32, ..ONE };
    let neighbor =
        "xor.b32 %r2, %lane, 1; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %tile; ld.shared.u32 %r1, [%r2];";
    let finding = found(&body(&[WRITE, neighbor]), one_warp, Race, ["ld.shared", "st.shared"]);
    assert!(finding.notes[0].contains("bar.warp.sync"), "{finding}");
    clean(&body(&[WRITE, "bar.warp.sync 0xffffffff;", neighbor]), one_warp);
}

#[test]
fn a_shuffle_is_no_warp_barrier() {
    let one_warp = Grid { threads: 32, ..ONE };
    let neighbor =
        "xor.b32 %r2, %lane, 1; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %tile; ld.shared.u32 %r1, [%r2];";
    let shuffle = "shfl.sync.idx.b32 %r3, %tid, 0, 31, 0xffffffff;";
    found(&body(&[WRITE, shuffle, neighbor]), one_warp, Race, ["ld.shared", "st.shared"]);
}

#[test]
fn a_named_barrier_orders_those_that_meet_at_it() {
    // Three warps: two of them meet, the third one reads all the same.
    let three = Grid { threads: 96, ..ONE };
    let meet = "setp.lt.u32 %p1, %warp, 2; @%p1 bar.sync 1, 64;";
    let read = "ld.shared.u32 %r1, [%tile];";
    let write = "setp.eq.u32 %p2, %tid, 0; @%p2 st.shared.u32 [%tile], %tid;";
    let finding = found(&body(&[write, meet, read]), three, Race, ["ld.shared", "st.shared"]);
    assert!(finding.labels[0].text.contains("warp 2"), "{finding}");
    clean(&body(&[write, meet, "@%p1 ", read]), three);
}

#[test]
fn arriving_tells_others_and_learns_nothing() {
    // Warp 0 arrives and goes on; warp 1 waits for it. What warp 0 wrote before may be read by warp
    // 1, not the reverse.
    let split = |first: &str, second: &str| {
        format!(
            "setp.eq.u32 %p1, %warp, 0;
            @!%p1 bra consumer;
            {first}
            bra done;
            consumer:
            {second}
            done:"
        )
    };
    let write = "st.shared.u32 [%tile], %tid;";
    let read = "ld.shared.u32 %r1, [%tile];";
    let elected = "setp.eq.u32 %p3, %lane, 0;";
    clean(
        &split(&format!("{elected} @%p3 {write} bar.arrive 1, 64;"), &format!("bar.sync 1, 64; {read}")),
        ONE,
    );
    found(
        &split(&format!("bar.arrive 1, 64; {read}"), &format!("{elected} @%p3 {write} bar.sync 1, 64;")),
        ONE,
        Race,
        ["shared", "shared"],
    );
}

#[test]
fn bytes_of_one_word_are_apart() {
    let byte = "add.u32 %r2, %tile, %tid; st.shared.u8 [%r2], %tid;";
    let read =
        "and.b32 %r3, %tid, 15; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %tile; ld.shared.u32 %r1, [%r3];";
    clean(&body(&[byte, "bar.sync 0;", read]), ONE);
    let overlapping = "setp.eq.u32 %p1, %tid, 40; @%p1 st.shared.u32 [%tile+36], %tid;";
    found(&body(&[byte, overlapping]), ONE, Race, ["st.shared.u32", "st.shared.u8"]);
}

#[test]
fn writes_of_the_same_value_are_harmless() {
    clean("mov.u32 %r1, 7; st.shared.u32 [%tile], %r1;", ONE);
    found("st.shared.u32 [%tile], %warp;", ONE, Race, ["st.shared", "st.shared"]);
}

/// Both warps arrive at a barrier for both and go to it again, to wait: the first to come back
/// would complete it alone.
const TWICE: &str = "st.shared.u32 [%own], %tid; bar.arrive 1, 64;";

#[test]
fn a_warp_arrives_at_a_barrier_once_each_time_it_completes() {
    let two_warps = Grid { threads: 64, ..ONE };
    let finding =
        found(&body(&[TWICE, "bar.sync 1, 64;", READ_NEXT]), two_warps, Barrier, ["bar.sync 1, 64"]);
    assert!(finding.message.contains("a second time"), "{finding}");
    clean(&body(&[TWICE, "bar.sync 2, 64;", READ_NEXT]), two_warps);
}

/// Cooperative groups keep the barriers of tiles of several warps in the shared memory that the
/// hardware reserves. It holds something before the kernel writes it, and ends where the device
/// says.
#[test]
fn memory_of_the_system_is_written_and_reachable() {
    let reserved = "mov.u32 %r1, %reserved_smem_offset_1; mov.u32 %r2, %reserved_smem_offset_end;";
    let touch = "red.shared.and.b32 [%r1], 1; sub.u32 %r2, %r2, 4; red.shared.or.b32 [%r2], 1;";
    clean(&body(&[reserved, touch]), ONE);
    let past = run_at(&body(&[reserved, "red.shared.and.b32 [%r2], 1;"]), ONE, Schedule::Eager);
    assert_eq!(past.err().map(|fault| fault.kind), Some(FaultKind::OutOfBounds));
}
