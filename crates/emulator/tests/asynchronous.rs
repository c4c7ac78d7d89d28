//! `cp.async`, mbarriers and the matrix copies, at every schedule.

use crate::common::{Finished, kernel, run, shape, try_run, words};
use warpwright_emulator::{FaultKind, Schedule};

const SCHEDULES: [Schedule; 5] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2), Schedule::Random(3)];

/// Runs a kernel that is broken on purpose.
fn run_broken(text: &str, schedule: Schedule, arguments: &[crate::common::Argument]) -> Finished {
    run(text, crate::common::Shape { schedule, checked: false, ..shape(1, 32) }, arguments)
}

fn run_at(text: &str, schedule: Schedule, arguments: &[crate::common::Argument]) -> Finished {
    let mut s = shape(1, 32);
    s.schedule = schedule;
    run(text, s, arguments)
}

/// Two copies of 16 bytes a lane in groups of their own; what is read after each wait goes out.
fn two_groups(first_wait: &str) -> String {
    kernel(
        2,
        &format!(
            ".shared .align 16 .b8 s[1024];
             mul.lo.u32 %r0, %t, 16; mov.u32 %r1, s; add.u32 %r2, %r1, %r0; mad.wide.u32 %d0, %t, 16, %p0;
             cp.async.cg.shared.global [%r2], [%d0], 16; cp.async.commit_group;
             cp.async.ca.shared.global [%r2+512], [%d0+512], 16; cp.async.commit_group;
             {first_wait}
             ld.shared.u32 %r3, [%r2]; ld.shared.u32 %r4, [%r2+512];
             cp.async.wait_all;
             ld.shared.u32 %r5, [%r2+512];
             mad.wide.u32 %d1, %t, 12, %p1;
             st.global.u32 [%d1], %r3; st.global.u32 [%d1+4], %r4; st.global.u32 [%d1+8], %r5;"
        ),
    )
}

#[test]
fn a_waited_for_group_is_there_and_a_later_one_may_not_be() {
    let input = || words(0..256);
    for schedule in SCHEDULES {
        let done =
            run_broken(&two_groups("cp.async.wait_group 1;"), schedule, &[input(), words(vec![0; 96])]);
        for (lane, row) in done.words(1).chunks(3).enumerate() {
            assert_eq!((row[0], row[2]), (4 * lane as u32, 128 + 4 * lane as u32), "{schedule:?}");
        }
    }
    let early =
        run_broken(&two_groups("cp.async.wait_group 1;"), Schedule::Latest, &[input(), words(vec![0; 96])]);
    assert!(
        early.words(1).chunks(3).all(|row| row[1] == u32::MAX),
        "the latest schedule shows the missing wait"
    );
    let eager = run_broken(&two_groups(""), Schedule::Eager, &[input(), words(vec![0; 96])]);
    assert!(eager.words(1).chunks(3).all(|row| row[1] == row[2]));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let text = two_groups("");
    let outcome =
        |seed| run_broken(&text, Schedule::Random(seed), &[words(0..256), words(vec![0; 96])]).words(1);
    assert_eq!(outcome(7), outcome(7));
    assert!((0..20).any(|seed| outcome(seed) != outcome(7)), "seeds differ");
}

#[test]
fn short_sources_are_filled_with_zeros_and_not_read_past() {
    let text = kernel(
        2,
        ".shared .align 16 .b8 s[512];
         mul.lo.u32 %r0, %t, 16; mov.u32 %r1, s; add.u32 %r2, %r1, %r0; mad.wide.u32 %d0, %t, 16, %p0;
         and.b32 %r3, %t, 3; mul.lo.u32 %r3, %r3, 4;
         cp.async.cg.shared.global [%r2], [%d0], 16, %r3; cp.async.wait_all;
         ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2];
         mad.wide.u32 %d1, %t, 16, %p1; st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};",
    );
    for schedule in SCHEDULES {
        // The last lane reads 12 of its 16 bytes: the buffer ends there.
        let done = run_at(&text, schedule, &[words(1..128), words(vec![9; 128])]);
        for (index, &word) in done.words(1).iter().enumerate() {
            let (lane, element) = (index / 4, index % 4);
            let expected = if element < lane % 4 { index as u32 + 1 } else { 0 };
            assert_eq!(word, expected, "lane {lane}, word {element}, {schedule:?}");
        }
    }
}

#[test]
fn a_copy_outside_its_buffer_is_a_fault_when_it_is_issued() {
    let text = kernel(
        1,
        ".shared .align 16 .b8 s[512];
         mul.lo.u32 %r0, %t, 16; mov.u32 %r1, s; add.u32 %r2, %r1, %r0; mad.wide.u32 %d0, %t, 16, %p0;
         cp.async.cg.shared.global [%r2], [%d0], 16;",
    );
    for schedule in SCHEDULES {
        let mut s = shape(1, 32);
        s.schedule = schedule;
        let fault = try_run(&text, s, &[words(0..124)]).err().unwrap();
        assert_eq!((fault.kind, fault.lanes), (FaultKind::OutOfBounds, 1 << 31));
    }
}

#[test]
fn an_mbarrier_tells_when_copies_have_arrived() {
    // Warp 0 copies, warp 1 waits on the mbarrier and reads.
    let text = kernel(
        2,
        ".shared .align 16 .b8 s[512]; .shared .align 8 .b64 bar;
         mov.u32 %r9, bar; setp.ne.u32 %q0, %t, 0; @%q0 bra ready; mbarrier.init.shared.b64 [%r9], 32;
         ready: bar.sync 0;
         and.b32 %r10, %t, 31; mul.lo.u32 %r0, %r10, 16; mov.u32 %r1, s; add.u32 %r2, %r1, %r0;
         setp.ge.u32 %q1, %t, 32; @%q1 bra consumer;
         mad.wide.u32 %d0, %r10, 16, %p0;
         cp.async.cg.shared.global [%r2], [%d0], 16;
         cp.async.mbarrier.arrive.noinc.shared.b64 [%r9];
         bra end;
         consumer:
         mbarrier.test_wait.parity.shared.b64 %q2, [%r9], 0; @!%q2 bra consumer;
         ld.shared.u32 %r3, [%r2]; mad.wide.u32 %d1, %r10, 4, %p1; st.global.u32 [%d1], %r3;
         end:",
    );
    for schedule in SCHEDULES {
        let mut s = shape(1, 64);
        s.schedule = schedule;
        let done = run(&text, s, &[words(0..128), words(vec![0; 32])]);
        assert_eq!(done.words(1), (0..32).map(|lane| 4 * lane).collect::<Vec<u32>>(), "{schedule:?}");
    }
}

#[test]
fn mbarrier_states_phases_and_misuse() {
    let text = kernel(
        1,
        ".shared .align 8 .b64 bar; mov.u32 %r9, bar;
         setp.ne.u32 %q0, %t, 0; @%q0 bra ready; mbarrier.init.shared.b64 [%r9], 32; ready: bar.sync 0;
         mov.u32 %r0, 0;
         again: mbarrier.arrive.shared.b64 %d0, [%r9];
         wait: mbarrier.test_wait.shared.b64 %q1, [%r9], %d0; @!%q1 bra wait;
         add.u32 %r0, %r0, 1; setp.lt.u32 %q2, %r0, 5; @%q2 bra again;
         mbarrier.pending_count.b64 %r1, %d0;
         mad.wide.u32 %d1, %t, 8, %p0; st.global.u32 [%d1], %r0; st.global.u32 [%d1+4], %r1;",
    );
    let done = run(&text, shape(1, 32), &[words(vec![0; 64])]);
    assert!(done.words(0).chunks(2).all(|row| row[0] == 5));
    let counts: Vec<u32> = done.words(0).chunks(2).map(|row| row[1]).collect();
    assert_eq!(counts.iter().max(), Some(&32));
    assert_eq!(counts.iter().min(), Some(&1));
    let uninitialized = text.replace("mbarrier.init.shared.b64 [%r9], 32;", "mov.u32 %r5, 0;");
    let fault = try_run(&uninitialized, shape(1, 32), &[words(vec![0; 64])]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Barrier);
    let crowded = text
        .replace("[%r9], 32;", "[%r9], 16;")
        .replace("mov.u32 %r0, 0;", "mbarrier.arrive.noComplete.shared.b64 %d5, [%r9], 16;");
    assert_eq!(
        try_run(&crowded, shape(1, 32), &[words(vec![0; 64])]).err().unwrap().kind,
        FaultKind::Barrier
    );
}

#[test]
fn matrices_go_to_registers_and_back() {
    for (trans, transposed) in [("", false), (".trans", true)] {
        let text = kernel(
            2,
            &format!(
                ".shared .align 16 .b8 s[1024];
                 mad.wide.u32 %d0, %t, 16, %p0; ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d0];
                 mov.u32 %r4, s; mad.lo.u32 %r5, %t, 16, %r4; st.shared.v4.u32 [%r5], {{%r0, %r1, %r2, %r3}};
                 bar.sync 0;
                 ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r6, %r7, %r8, %r9}}, [%r5];
                 stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5+512], {{%r6, %r7, %r8, %r9}};
                 movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r6;
                 bar.sync 0;
                 ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [%r5+512];
                 mad.wide.u32 %d1, %t, 20, %p1; st.global.u32 [%d1], %r0; st.global.u32 [%d1+4], %r1;
                 st.global.u32 [%d1+8], %r2; st.global.u32 [%d1+12], %r3; st.global.u32 [%d1+16], %r10;"
            ),
        );
        let element = |matrix: usize, row: usize, column: usize| (matrix * 64 + row * 8 + column) as u16;
        let input = (0..128u32).map(|word| (2 * word) | (2 * word + 1) << 16);
        let done = run(&text, shape(1, 32), &[words(input), words(vec![0; 160])]);
        let out = done.words(1);
        for lane in 0..32 {
            let (matrix, row) = (lane / 8, lane % 8);
            for column in 0..8 {
                let word = out[5 * lane + column / 2];
                let found = (word >> (16 * (column % 2))) as u16;
                let expected =
                    if transposed { element(matrix, column, row) } else { element(matrix, row, column) };
                assert_eq!(found, expected, "matrix {matrix}, row {row}, column {column}{trans}");
            }
            // The first matrix as `ldmatrix` gave it, transposed once more.
            let (outer, inner) = (lane / 4, 2 * (lane % 4));
            let pair = out[5 * lane + 4];
            let expect = |k: usize| {
                if transposed { element(0, outer, inner + k) } else { element(0, inner + k, outer) }
            };
            assert_eq!((pair as u16, (pair >> 16) as u16), (expect(0), expect(1)));
        }
    }
}

#[test]
fn aligned_instructions_refuse_part_of_a_warp() {
    let text = kernel(
        0,
        ".shared .align 16 .b8 s[512]; mov.u32 %r4, s; setp.lt.u32 %q0, %t, 16; @%q0 bra end;
         ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r4]; end: bar.sync 0;",
    );
    let fault = try_run(&text, shape(1, 32), &[]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(fault.to_string().contains("needs the whole warp"), "{fault}");
}
