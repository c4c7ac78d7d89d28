//! The machine as a whole: memory, divergence, barriers, calls, CTAs that wait for each other.

use std::time::Duration;

use crate::common::{Argument, Shape, device, floats, kernel, load, longs, run, shape, try_run, words};
use warpwright_emulator::{FaultKind, Launch, Limit};

#[test]
fn saxpy_of_a_length_that_divides_nothing() {
    let text = ".version 8.0 .target sm_80 .address_size 64
        .visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n) {
        .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .f32 %f<4>;
        mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
        mad.lo.u32 %r3, %r0, %r1, %r2;
        ld.param.u32 %r4, [n];
        setp.ge.u32 %p, %r3, %r4;
        @%p bra done;
        ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.f32 %f0, [a];
        mul.wide.u32 %d2, %r3, 4;
        add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
        ld.global.f32 %f1, [%d0]; ld.global.f32 %f2, [%d1];
        fma.rn.f32 %f3, %f0, %f1, %f2;
        st.global.f32 [%d1], %f3;
        done: ret; }";
    let n = 1003;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let y: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
    let done = run(
        text,
        shape(8, 128),
        &[floats(x.clone()), floats(y.clone()), Argument::F32(3.0), Argument::U32(n)],
    );
    for i in 0..n as usize {
        assert_eq!(done.floats(1)[i], 3.0f32.mul_add(x[i], y[i]));
    }
    assert_eq!(done.report.ctas, 8);
}

#[test]
fn a_transpose_through_shared_memory() {
    let text = ".version 8.0 .target sm_80 .address_size 64
        .visible .entry transpose(.param .u64 a, .param .u64 b, .param .u32 n) {
        .shared .align 4 .f32 tile[1056];
        .reg .b32 %r<20>; .reg .b64 %d<6>; .reg .f32 %f<2>;
        ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u32 %r9, [n];
        mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
        mad.lo.u32 %r4, %r3, 32, %r1; mad.lo.u32 %r5, %r2, 32, %r0;
        mad.lo.u32 %r6, %r4, %r9, %r5; mad.wide.u32 %d2, %r6, 4, %d0;
        ld.global.f32 %f0, [%d2];
        mad.lo.u32 %r7, %r1, 33, %r0; shl.b32 %r7, %r7, 2; mov.u32 %r8, tile; add.u32 %r7, %r7, %r8;
        st.shared.f32 [%r7], %f0;
        bar.sync 0;
        mad.lo.u32 %r10, %r0, 33, %r1; shl.b32 %r10, %r10, 2; add.u32 %r10, %r10, %r8;
        ld.shared.f32 %f1, [%r10];
        mad.lo.u32 %r11, %r2, 32, %r1; mad.lo.u32 %r12, %r3, 32, %r0;
        mad.lo.u32 %r13, %r11, %r9, %r12; mad.wide.u32 %d3, %r13, 4, %d1;
        st.global.f32 [%d3], %f1; ret; }";
    let n = 96usize;
    let a: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
    let mut s = shape(3, 32);
    (s.grid, s.block) = ([3, 3, 1], [32, 32, 1]);
    let done = run(text, s, &[floats(a.clone()), floats(vec![0.0; n * n]), Argument::U32(n as u32)]);
    for i in 0..n {
        for j in 0..n {
            assert_eq!(done.floats(1)[j * n + i], a[i * n + j]);
        }
    }
}

#[test]
fn diverged_lanes_all_get_through_a_lock() {
    // Every lane of every CTA takes a spin lock, adds to a plain counter, and lets go.
    let text = kernel(
        2,
        "again: atom.global.acquire.gpu.cas.b32 %r0, [%p0], 0, 1;
         setp.ne.s32 %q0, %r0, 0; @%q0 bra again;
         ld.global.u32 %r1, [%p1]; add.u32 %r1, %r1, 1; st.global.u32 [%p1], %r1;
         membar.gl; atom.global.release.gpu.exch.b32 %r2, [%p0], 0;",
    );
    let done = run(&text, shape(5, 70), &[words([0]), words([0])]);
    assert_eq!(done.words(1), [350]);
}

#[test]
fn a_lane_spins_on_a_flag_that_its_neighbor_sets_later() {
    let text = kernel(
        1,
        "setp.eq.u32 %q0, %t, 0; @!%q0 bra wait;
         bra set;
         wait: ld.volatile.global.u32 %r0, [%p0]; setp.eq.u32 %q1, %r0, 0; @%q1 bra wait; bra done;
         set: st.volatile.global.u32 [%p0], 7;
         done:",
    );
    assert_eq!(run(&text, shape(1, 32), &[words([0])]).words(0), [7]);
}

#[test]
fn ctas_wait_for_later_ones() {
    // CTA i waits for the flag of CTA i + 1, so that the first to start is the last to end.
    let text = kernel(
        1,
        "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; sub.u32 %r1, %r1, 1;
         mul.wide.u32 %d0, %r0, 4; add.u64 %d1, %p0, %d0;
         setp.eq.u32 %q0, %r0, %r1; @%q0 bra go;
         wait: ld.acquire.gpu.global.u32 %r2, [%d1+4]; setp.eq.u32 %q1, %r2, 0; @%q1 bra wait;
         go: add.u32 %r3, %r0, 1; st.release.gpu.global.u32 [%d1], %r3;",
    );
    let done = run(&text, shape(40, 64), &[words(vec![0; 40])]);
    assert_eq!(done.words(0), (1..=40).collect::<Vec<u32>>());
}

#[test]
fn shuffles_reduce_a_warp_and_atomics_the_rest() {
    let text = kernel(
        2,
        "mad.wide.u32 %d0, %t, 4, %p0; ld.global.u32 %r0, [%d0];
         shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; add.u32 %r0, %r0, %r1;
         shfl.sync.bfly.b32 %r1, %r0, 8, 31, -1; add.u32 %r0, %r0, %r1;
         shfl.sync.bfly.b32 %r1, %r0, 4, 31, -1; add.u32 %r0, %r0, %r1;
         shfl.sync.bfly.b32 %r1, %r0, 2, 31, -1; add.u32 %r0, %r0, %r1;
         shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; add.u32 %r0, %r0, %r1;
         mov.u32 %r2, %laneid; setp.ne.u32 %q0, %r2, 0; @%q0 bra end;
         red.global.add.u32 [%p1], %r0;
         end:",
    );
    let done = run(&text, shape(1, 256), &[words(0..256), words([0])]);
    assert_eq!(done.words(1), [(0..256).sum::<u32>()]);
}

#[test]
fn an_exchange_joins_lanes_from_both_sides_of_a_branch() {
    let text = kernel(
        1,
        "and.b32 %r0, %t, 1; setp.eq.u32 %q0, %r0, 0; @%q0 bra even;
         shfl.sync.idx.b32 %r1, %t, 0, 31, -1; bra end;
         even: shfl.sync.idx.b32 %r1, %t, 31, 31, -1;
         end: mad.wide.u32 %d0, %t, 4, %p0; st.global.u32 [%d0], %r1;",
    );
    let expected: Vec<u32> = (0..32).map(|lane| if lane % 2 == 0 { 31 } else { 0 }).collect();
    // PTX lets them pair, and a checker finds that they do.
    let unchecked = Shape { checked: false, ..shape(1, 32) };
    assert_eq!(run(&text, unchecked, &[words(vec![0; 32])]).words(0), expected);
}

#[test]
fn device_functions_recursion_and_calls_through_tables() {
    let text = ".version 8.0 .target sm_80 .address_size 64
        .func (.param .b32 result) factorial(.param .b32 n);
        .func (.param .b32 result) twice(.param .b32 n) {
            .reg .b32 %r<2>; ld.param.u32 %r0, [n]; add.u32 %r1, %r0, %r0; st.param.b32 [result], %r1; ret; }
        .global .align 8 .u64 table[2] = {factorial, twice};
        .visible .entry k(.param .u64 out) {
            .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .pred %p;
            mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1;
            mul.wide.u32 %d0, %r1, 8; mov.u64 %d1, table; add.u64 %d1, %d1, %d0; ld.global.u64 %d2, [%d1];
            { .param .b32 argument; .param .b32 value;
              st.param.b32 [argument+0], %r0;
              prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
              call (value), %d2, (argument), prototype;
              ld.param.b32 %r2, [value+0]; }
            ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r0, 4; add.u64 %d3, %d3, %d4; st.global.u32 [%d3], %r2; ret; }
        .func (.param .b32 result) factorial(.param .b32 n) {
            .reg .b32 %r<8>; .reg .pred %p;
            ld.param.u32 %r0, [n]; setp.gt.u32 %p, %r0, 1; @%p bra more;
            st.param.b32 [result], 1; ret;
            more: sub.u32 %r1, %r0, 1;
            { .param .b32 argument; .param .b32 value;
              st.param.b32 [argument], %r1;
              call.uni (value), factorial, (argument);
              ld.param.b32 %r2, [value]; }
            mul.lo.u32 %r3, %r2, %r0; st.param.b32 [result], %r3; ret; }";
    let expected: Vec<u32> = (0..12u32).map(|n| if n % 2 == 1 { 2 * n } else { (1..=n).product() }).collect();
    assert_eq!(run(text, shape(1, 12), &[words(vec![0; 12])]).words(0), expected);
}

#[test]
fn unbounded_recursion_is_a_fault() {
    let text = ".version 8.0 .target sm_80 .address_size 64
        .func down() { call.uni down, (); ret; }
        .visible .entry k() { call.uni down, (); ret; }";
    let fault = try_run(text, shape(1, 32), &[]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::StackOverflow);
}

#[test]
fn printf_follows_c() {
    let text = ".version 8.0 .target sm_80 .address_size 64
        .extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
        .global .align 1 .b8 text[26] = {37,100,32,91,37,53,46,50,102,93,32,37,45,52,120,124,32,37,115,32,37,108,108,117,10,0};
        .global .align 1 .b8 word[3] = {104,105,0};
        .visible .entry k() {
            .local .align 8 .b8 depot[40]; .reg .b64 %d<8>; .reg .b32 %r<4>; .reg .f64 %f;
            mov.u64 %d0, depot; cvta.local.u64 %d1, %d0;
            mov.u32 %r0, %tid.x; st.local.u32 [%d0], %r0;
            cvt.rn.f64.u32 %f, %r0; add.rn.f64 %f, %f, 0d3FE0000000000000; st.local.f64 [%d0+8], %f;
            st.local.u32 [%d0+16], 255; st.local.u64 [%d0+32], 12345678901234; mov.u64 %d2, word; cvta.global.u64 %d2, %d2; st.local.u64 [%d0+24], %d2;
            mov.u64 %d3, text; cvta.global.u64 %d3, %d3;
            { .param .b64 p0; .param .b64 p1; .param .b32 r0;
              st.param.b64 [p0], %d3; st.param.b64 [p1], %d1;
              call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r1, [r0]; }
            ret; }";
    let done = run(text, shape(1, 2), &[]);
    assert_eq!(done.report.output, "0 [ 0.50] ff  | hi 12345678901234\n1 [ 1.50] ff  | hi 12345678901234\n");
}

#[test]
fn a_barrier_that_some_never_reach_is_a_deadlock_with_names() {
    let text = kernel(
        0,
        "setp.lt.u32 %q0, %t, 32; @%q0 bra other; bar.sync 1, 64; bra end; other: bar.sync 2, 64; end:",
    );
    let fault = try_run(&text, shape(1, 64), &[]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    let message = fault.to_string();
    assert!(message.contains("barrier 1, where 32 of 64 threads have arrived"), "{message}");
    assert!(message.contains("barrier 2, where 32 of 64 threads have arrived"), "{message}");
}

#[test]
fn bad_accesses_name_the_lane_and_the_allocation() {
    let store =
        |offset: &str| kernel(1, &format!("mad.wide.u32 %d0, %t, 4, %p0; st.global.u32 [%d0+{offset}], %t;"));
    let fault = try_run(&store("4"), shape(1, 32), &[words(vec![0; 32])]).err().unwrap();
    assert_eq!((fault.kind, fault.lanes), (FaultKind::OutOfBounds, 1 << 31));
    assert!(fault.to_string().contains("right past the end of the allocation of 128 bytes"), "{fault}");
    let fault = try_run(&store("2"), shape(1, 32), &[words(vec![0; 32])]).err().unwrap();
    assert_eq!((fault.kind, fault.lanes), (FaultKind::Misaligned, u32::MAX));
    let shared =
        kernel(0, ".shared .b32 s[4]; mov.u32 %r0, s; mad.lo.u32 %r0, %t, 4, %r0; st.shared.u32 [%r0], %t;");
    let fault = try_run(&shared, shape(1, 8), &[]).err().unwrap();
    assert_eq!((fault.kind, fault.lanes), (FaultKind::OutOfBounds, 0xf0));
    assert_eq!(fault.ptx_text.as_deref(), Some("st.shared.u32 [%r0], %t;"));
}

#[test]
fn generic_addresses_reach_every_space() {
    // Even lanes write shared memory, odd ones global, through one generic store; then all read
    // local through generic.
    let text = kernel(
        1,
        ".shared .align 8 .b64 s[32]; .local .align 8 .b64 l[2];
         mul.wide.u32 %d0, %t, 8; mov.u64 %d1, s; cvta.shared.u64 %d1, %d1; add.u64 %d1, %d1, %d0;
         add.u64 %d2, %p0, %d0; and.b32 %r0, %t, 1; setp.eq.u32 %q0, %r0, 0; selp.b64 %d3, %d1, %d2, %q0;
         cvt.u64.u32 %d4, %t; add.u64 %d4, %d4, 100; st.u64 [%d3], %d4;
         isspacep.shared %q1, %d3; selp.u64 %d5, 1000, 0, %q1;
         ld.u64 %d6, [%d3]; add.u64 %d6, %d6, %d5;
         mov.u64 %a0, l; cvta.local.u64 %a1, %a0; st.local.u64 [%a0+8], %d6; ld.u64 %d7, [%a1+8];
         st.global.u64 [%d2], %d7;",
    );
    let expected: Vec<u64> = (0..32).map(|lane| 100 + lane + if lane % 2 == 0 { 1000 } else { 0 }).collect();
    assert_eq!(run(&text, shape(1, 32), &[longs(vec![0; 32])]).longs(0), expected);
}

#[test]
fn launches_the_device_does_not_allow_are_refused() {
    let text = kernel(0, "");
    for (grid, block, needle) in [(1, 1025, "from 1 to 1024"), (0, 32, "grid"), (1, 0, "block")] {
        let fault = try_run(&text, shape(grid, block), &[]).err().unwrap();
        assert_eq!(fault.kind, FaultKind::BadLaunch);
        assert!(fault.to_string().contains(needle), "{fault}");
    }
    let mut s = shape(1, 32);
    s.shared = 228 * 1024;
    assert_eq!(try_run(&text, s, &[]).err().unwrap().kind, FaultKind::BadLaunch);
    let bounded = text.replace("k() {", "k() .reqntid 64, 1, 1 {");
    assert_eq!(try_run(&bounded, shape(1, 32), &[]).err().unwrap().kind, FaultKind::BadLaunch);
}

#[test]
fn cooperative_groups_find_the_barrier_of_their_grid() {
    // As `grid.sync()` does it: the CTAs count down to the highest bit's change, and the first
    // brings what lacks.
    let text = ".version 8.0 .target sm_80 .address_size 64
        .visible .entry exchange(.param .u64 values, .param .u64 seen) {
        .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<8>;
        mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x;
        ld.param.u64 %d0, [values]; ld.param.u64 %d1, [seen];
        mul.wide.u32 %d2, %r0, 4; add.u64 %d3, %d0, %d2;
        add.u32 %r2, %r0, 100; st.global.u32 [%d3], %r2;
        mov.u32 %r3, %envreg1; mov.u32 %r4, %envreg2; mov.b64 %d4, {%r4, %r3};
        sub.u32 %r5, 0x80000001, %r1; setp.eq.u32 %p, %r0, 0; selp.u32 %r5, %r5, 1, %p;
        membar.gl; atom.global.add.u32 %r6, [%d4+4], %r5;
        wait: ld.acquire.gpu.global.u32 %r7, [%d4+4]; xor.b32 %r7, %r7, %r6;
        setp.ge.s32 %p, %r7, 0; @%p bra wait;
        add.u32 %r8, %r0, 1; rem.u32 %r8, %r8, %r1; mul.wide.u32 %d5, %r8, 4; add.u64 %d5, %d0, %d5;
        ld.global.u32 %r9, [%d5]; add.u64 %d6, %d1, %d2; st.global.u32 [%d6], %r9; ret; }";
    let done = run(text, shape(6, 1), &[words([0; 6]), words([0; 6])]);
    assert_eq!(done.words(1), [101, 102, 103, 104, 105, 100]);
}

#[test]
fn a_launch_ends_at_its_limit_and_says_where_it_was() {
    let text = kernel(1, "mov.u64 %d0, 0;\nround: add.u64 %d0, %d0, 1;\nbra round;");
    let mut device = device("h200");
    let program = load(&mut device, &text);
    let name = program.kernels().next().unwrap();
    for limit in [Limit::WarpInstructions(1_000_000), Limit::Time(Duration::from_millis(20))] {
        let launch = Launch {
            grid: [4, 1, 1],
            block: [64, 1, 1],
            parameters: &[0; 8],
            limit: Some(limit),
            ..Launch::default()
        };
        let fault = device.launch(&program, name, &launch).expect_err("it never ends");
        assert_eq!(fault.kind, FaultKind::Limit, "{fault}");
        let message = fault.to_string();
        assert!(message.contains(&format!("reached its limit of {limit}")), "{message}");
        assert!(message.contains("add.u64") || message.contains("bra"), "{message}");
    }
    let ended = kernel(1, "mov.u64 %d0, 0;");
    let program = load(&mut device, &ended);
    let launch =
        Launch { parameters: &[0; 8], limit: Some(Limit::WarpInstructions(1_000)), ..Launch::default() };
    device.launch(&program, program.kernels().next().unwrap(), &launch).expect("it ends before its limit");
}
