//! Rows 8, 16, 19 and 26 of the catalog: threads of a CTA that share memory with no barrier
//! between them.

use warpwright_check::FindingKind::{Barrier, Race};
use warpwright_emulator::{FaultKind, Schedule};

use crate::checks::harness::{Grid, ONE, clean, found, recorded, run_at};

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

#[test]
fn lanes_of_one_store_write_the_same_value_or_apart() {
    let one_warp = Grid { threads: 32, ..ONE };
    let store = |space: &str, address: &str| {
        format!(
            "and.b32 %r2, %tid, 1; shl.b32 %r2, %r2, 2; cvt.u64.u32 %rd2, %r2; add.u32 %r2, %r2, %tile;
            add.u64 %rd2, %rd2, %buffer; st.{space}.u32 [{address}], %tid;"
        )
    };
    for (space, address) in [("shared", "%r2"), ("global", "%rd2"), ("shared", "%tile")] {
        let finding =
            found(&recorded(&store(space, address)), one_warp, Race, [&format!("st.{space}")[..]; 2]);
        let notes = finding.notes.join(" ");
        assert!(notes.contains("different values with the same instruction"), "{finding}");
    }
    clean(&recorded(&store("relaxed.gpu.global", "%rd2")), one_warp);
    clean(&recorded(&store("shared", "%own")), one_warp);
    // Other compilers let any lane win on purpose.
    clean(&store("shared", "%r2"), one_warp);
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

const EIGHT_WARPS: Grid = Grid { threads: 256, ..ONE };
const HALVES: &str = "setp.lt.u32 %p1, %warp, 4; setp.eq.u32 %p2, %lane, 0; shr.u32 %r4, %warp, 2;";

/// Each half of the warps executes one of two texts.
fn halves(first: &str, second: &str) -> String {
    format!("{HALVES} @!%p1 bra $second; {first} bra $done; $second: {second} $done:")
}

#[test]
fn a_barrier_belongs_to_one_group_of_warps_at_a_time() {
    for name in ["bar.sync", "barrier.sync", "barrier.sync.aligned"] {
        let sync = |barrier: &str, count: u32| format!("{name} {barrier}, {count};");
        let first = sync("1", 128);
        let finding = found(&halves(&first, &first), EIGHT_WARPS, Barrier, [name, name]);
        assert!(finding.message.contains("two groups of warps use barrier 1"), "{finding}");
        assert_ne!(finding.labels[0].ptx_line, 0, "{finding}");
        clean(&halves(&first, &sync("2", 128)), EIGHT_WARPS);
        // One after the other.
        clean(&halves(&format!("{first} bar.sync 0;"), &format!("bar.sync 0; {first}")), EIGHT_WARPS);
        // All of them.
        clean(&halves(&sync("1", 256), &sync("1", 256)), EIGHT_WARPS);
        // One instruction, with a number that is the same for both halves, or not.
        found(&first, EIGHT_WARPS, Barrier, [name, name]);
        clean(&format!("{HALVES} add.u32 %r5, %r4, 1; {}", sync("%r5", 128)), EIGHT_WARPS);
        found(
            &format!("{HALVES} shr.u32 %r5, %r4, 1; {}", sync("%r5", 128)),
            EIGHT_WARPS,
            Barrier,
            [name; 2],
        );
        // Each warp alone.
        clean(&sync("1", 32), EIGHT_WARPS);
    }
}

#[test]
fn groups_of_a_barrier_that_do_not_wait_may_come_in_any_order() {
    // The first half waits for two warps of the second, then for the other two.
    let consumer = "bar.sync 1, 192; bar.sync 2, 192;";
    let producer =
        "and.b32 %r5, %warp, 2; setp.eq.u32 %p3, %r5, 0; @%p3 bar.arrive 1, 192; @!%p3 bar.arrive 2, 192;";
    clean(&halves(consumer, producer), EIGHT_WARPS);
    clean(&halves(&consumer.replace("2, 192", "1, 192"), &producer.replace("2, 192", "1, 192")), EIGHT_WARPS);
}

#[test]
fn a_ring_of_two_barriers_is_clean_and_one_without_the_way_back_is_not() {
    let rounds = |body: &str, label: &str| {
        format!(
            "mov.u32 %r1, 0; {label}: {body} add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 4; @%p4 bra {label};"
        )
    };
    let ring = |empty: &str, full: &str| {
        halves(
            &rounds(&format!("{empty} st.shared.u32 [%own], %r1; bar.arrive 1, 256;"), "$fill"),
            &format!("bar.arrive 2, 256; {}", rounds(&format!("bar.sync 1, 256; {full}"), "$drain")),
        )
    };
    clean(&ring("bar.sync 2, 256;", "ld.shared.u32 %r5, [%own+-512]; bar.arrive 2, 256;"), EIGHT_WARPS);
    let finding = found(&ring("", "ld.shared.u32 %r5, [%own+-512];"), EIGHT_WARPS, Barrier, ["bar.arrive 1"]);
    assert!(finding.message.contains("a second time"), "{finding}");
}

#[test]
fn a_reduction_and_another_use_of_a_barrier_do_not_mix() {
    let reduce = "bar.red.popc.u32 %r1, 1, 256, %p2;";
    for other in ["bar.sync 1, 256;", "bar.arrive 1, 256;", "bar.red.and.pred %p3, 1, 256, %p2;"] {
        let name = other.split(' ').next().unwrap();
        found(&halves(other, reduce), EIGHT_WARPS, Barrier, ["bar.red.popc", name]);
        found(&halves(reduce, other), EIGHT_WARPS, Barrier, [name, "bar.red.popc"]);
    }
    clean(&halves(reduce, reduce), EIGHT_WARPS);
    clean(&halves(&reduce.replace("256", "128"), "bar.sync 2, 128;"), EIGHT_WARPS);
}

#[test]
fn the_blocks_barrier_and_one_of_a_role_do_not_mix() {
    let body = halves("bar.sync 0, 128; bar.sync 0;", "bar.sync 0;");
    let findings = run_at(&body, EIGHT_WARPS, Schedule::Eager).unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("use barrier 0 at the same time")));
    clean(&body.replace("0, 128", "1, 128"), EIGHT_WARPS);
}

/// The last warp of a sum, as it was written before lanes of a warp could diverge.
#[test]
fn volatile_does_not_order_lanes() {
    let one_warp = Grid { threads: 32, ..ONE };
    let next = "xor.b32 %r2, %lane, 1; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %tile;";
    for (store, load) in [
        ("st.volatile.shared.u32", "ld.volatile.shared.u32"),
        ("st.relaxed.cta.shared.u32", "ld.relaxed.cta.shared.u32"),
        ("st.volatile.shared.u32", "ld.relaxed.cta.shared.u32"),
        ("st.shared.u32", "ld.volatile.shared.u32"),
    ] {
        let body = |between: &str| {
            format!("{next} {store} [%own], %tid; {between} {load} %r1, [%r2]; st.global.u32 [%mine], %r1;")
        };
        let finding = found(&body(""), one_warp, Race, [load, store]);
        assert!(finding.notes[0].contains("bar.warp.sync"), "{finding}");
        clean(&body("bar.warp.sync -1;"), one_warp);
        // The value is compared, and the larger one stored.
        let largest = format!(
            "{next} {store} [%own], %tid; {load} %r1, [%r2]; setp.lt.u32 %p1, %r1, %tid; @%p1 bra $past;
            {store} [%own], %r1; $past:"
        );
        // A relaxed load may take any value that is then tested.
        match load.contains("volatile") {
            true => drop(found(&largest, one_warp, Race, [load, store])),
            false => clean(&largest, one_warp),
        }
        // A lane writes what another has read.
        let shift =
            format!("{store} [%own], %tid; bar.warp.sync -1; {load} %r1, [%r2]; {store} [%own], %r1;");
        found(&format!("{next} {shift}"), one_warp, Race, [store, load]);
    }
}

#[test]
fn a_loop_that_waits_for_a_strong_value_is_no_race() {
    let one_warp = Grid { threads: 32, ..ONE };
    for (store, load) in [
        ("st.volatile.shared.u32", "ld.volatile.shared.u32"),
        ("st.relaxed.cta.shared.u32", "ld.relaxed.cta.shared.u32"),
    ] {
        let begin = format!("setp.eq.u32 %p1, %tid, 0; @%p1 {store} [%tile], 0; bar.sync 0;");
        let poll = format!("$again: {load} %r1, [%tile]; setp.eq.u32 %p2, %r1, 0; @%p2 bra $again;");
        let exit = format!(
            "$again: {load} %r1, [%tile]; setp.ne.u32 %p2, %r1, 0; @%p2 bra $out; nanosleep.u32 20; bra $again; $out:"
        );
        let spilled = format!(
            ".local .align 4 .b32 kept; $again: {load} %r1, [%tile]; st.local.u32 [kept], %r1; ld.local.u32 %r2, [kept];
            setp.eq.u32 %p2, %r2, 0; @%p2 bra $again;"
        );
        for wait in [poll, exit, spilled] {
            let body = format!("{begin} @%p1 bra $set; {wait} bra $end; $set: {store} [%tile], 1; $end:");
            clean(&body, one_warp);
            clean(&body, ONE);
        }
    }
}

#[test]
fn a_volatile_value_of_another_warp_is_waited_for_or_tested() {
    let write = "setp.eq.u32 %p1, %tid, 0; @%p1 st.volatile.shared.u32 [%tile], %tid;";
    let read = "ld.volatile.shared.u32 %r1, [%tile]; setp.ge.u32 %p2, %tid, 32;";
    let start = "@%p1 st.shared.u32 [%tile], 5; bar.sync 0;";
    let body = |read: &str, last: &str| {
        format!(
            "setp.eq.u32 %p1, %tid, 0; {start} @!%p1 bra $past; {write} bra $end; $past: {read} {last} $end:"
        )
    };
    // Lanes of one warp race in any case, so only the second warp reads.
    let second = "setp.ge.u32 %p2, %tid, 32; @!%p2 bra $end;";
    let use_it = "@%p2 st.global.u32 [%mine], %r1;";
    found(&body(&format!("{second} {read}"), use_it), ONE, Race, ["volatile", "volatile"]);
    let test = "setp.eq.u32 %p3, %r1, 7; @%p3 bra $end;";
    clean(&body(&format!("{second} {read}"), &format!("{test} {use_it}")), ONE);
    let relaxed = body(&format!("{second} {read}"), use_it).replace(".volatile", ".relaxed.cta");
    clean(&relaxed, ONE);
}
