//! Registers that an instruction both reads and writes: its guard and its sources are read before any
//! of its destinations is written.

use crate::common::{kernel, run, shape, words};

/// Setup, instruction, and the values of `%r0` to `%r3` afterwards in lane 0 of a whole warp. `%q0` is
/// true and `%q1` false at the start, `%r0` to `%r3` are 10 to 13, and `%d0` is the address of the words
/// 1, 2, 3, 4 in global memory, `%r9` that of the same in shared memory.
const CASES: &[(&str, &str, [u32; 4])] = &[
    // q0 = true ^ true, q1 = false ^ true: the guard is the first destination.
    ("", "@%q0 setp.eq.xor.u32 %q0|%q1, %r0, 10, %q0; {P}", [0, 1, 12, 13]),
    ("", "@!%q1 setp.eq.xor.u32 %q0|%q1, %r0, 10, !%q1; {P}", [0, 1, 12, 13]),
    ("", "@%q0 setp.ne.u32 %q1|%q0, %r0, 5; {P}", [0, 1, 12, 13]),
    ("", "@%q1 setp.ne.u32 %q1|%q0, %r0, 5; {P}", [1, 0, 12, 13]),
    ("", "@%q0 setp.ne.or.u32 %q1|%q0, %r0, 5, %q1; {P}", [0, 1, 12, 13]),
    ("", "@%q0 setp.eq.and.f16x2 %q0|%q1, %r4, %r4, %q0; {P}", [1, 1, 12, 13]),
    ("", "@%q0 setp.ne.or.bf16x2 %q0|%q1, %r4, %r4, %q1; {P}", [0, 0, 12, 13]),
    ("", "@%q0 lop3.or.b32 %r0|%q0, %r0, %r0, %r0, 0, %q1; {P1}", [0, 0, 12, 13]),
    ("", "lop3.and.b32 %r1|%q1, %r1, %r0, %r2, 0x96, %q0; selp.u32 %r0, 1, 0, %q1;", [1, 13, 12, 13]),
    ("", "@%q0 shfl.sync.idx.b32 %r0|%q0, %r0, %r0, %r5, -1; {P1}", [10, 1, 12, 13]),
    ("", "@%q0 match.all.sync.b32 %r0|%q0, %r0, -1; {P1}", [u32::MAX, 1, 12, 13]),
    ("mov.u32 %r0, -1;", "@%q0 match.any.sync.b32 %r0, %r0, %r0;", [u32::MAX, 11, 12, 13]),
    ("mov.u32 %r0, -1;", "@%q0 elect.sync %r0|%q0, %r0; {P1}", [0, 1, 12, 13]),
    ("", "@%q0 vote.sync.all.pred %q0, !%q0, -1; {P}", [0, 0, 12, 13]),
    ("mov.u32 %r0, -1;", "redux.sync.add.u32 %r0, %r1, %r0;", [352, 11, 12, 13]),
    ("", "@%q0 bar.red.and.pred %q0, 0, %q1; {P}", [0, 0, 12, 13]),
    // What is written in parts.
    ("", "mov.v2.b32 {%r0, %r1}, {%r1, %r0};", [11, 10, 12, 13]),
    ("", "mov.v4.b32 {%r0, %r1, %r2, %r3}, {%r3, %r0, %r1, %r2};", [13, 10, 11, 12]),
    ("mov.b64 %d1, {%r1, %r0};", "mov.b64 {%r0, %r1}, %d1;", [11, 10, 12, 13]),
    ("", "ld.shared.v4.u32 {%r9, %r1, %r2, %r3}, [%r9]; mov.u32 %r0, %r9;", [1, 2, 3, 4]),
    ("mov.u64 %d1, %d0;", "ld.global.v2.u64 {%d1, %d2}, [%d1]; mov.b64 {%r0, %r1}, %d1;", [1, 2, 12, 13]),
    ("mov.u32 %r0, %r9;", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r1}, [%r0];", [1, 1, 12, 13]),
    (
        "mov.u32 %r8, 8;",
        "wmma.load.c.sync.aligned.row.m16n16k16.shared.s32
        {%r8, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%r9], %r8; mov.u32 %r0, %r8;",
        [1, 2, 0, 0],
    ),
    (
        "setp.eq.u32 %q2, %t, 0;",
        "@%q2 atom.global.add.v2.f32 {%f0, %f1}, [%d0], {%f1, %f0}; @%q2 ld.global.v2.f32 {%f2, %f3}, [%d0];
         cvt.rzi.u32.f32 %r0, %f2; cvt.rzi.u32.f32 %r1, %f3;",
        [2, 1, 12, 13],
    ),
    // Chains of carries.
    (
        "mov.u32 %r0, -1;",
        "add.cc.u32 %r0, %r0, %r0; addc.cc.u32 %r1, %r0, %r1; addc.u32 %r2, %r2, 0;",
        [u32::MAX - 1, 10, 13, 13],
    ),
    (
        "mov.u32 %r0, -1;",
        "mad.lo.cc.u32 %r0, %r0, %r0, %r0; madc.hi.u32 %r1, %r1, %r1, %r1;",
        [0, 12, 12, 13],
    ),
    (
        "",
        "mul.wide.u32 %d1, %r0, %r1; mad.wide.u32 %d1, %r0, %r1, %d1; mov.b64 {%r0, %r1}, %d1;",
        [220, 0, 12, 13],
    ),
    ("", "call (%r1, %r0), exchanged, (%r0, %r1);", [10, 11, 12, 13]),
    ("", "@%q0 call (%r0, %r1), exchanged, (%r0, %r1);", [11, 10, 12, 13]),
];

/// Stores what the predicates hold.
const BOTH: &str = "selp.u32 %r0, 1, 0, %q0; selp.u32 %r1, 1, 0, %q1;";
const FIRST: &str = "selp.u32 %r1, 1, 0, %q0;";

#[test]
fn guards_and_sources_are_read_before_a_destination_is_written() {
    for (setup, instruction, expected) in CASES {
        let instruction = instruction.replace("{P}", BOTH).replace("{P1}", FIRST);
        let body = format!(
            ".shared .align 128 .b32 held[256]; .reg .b32 %lane; mov.u32 %lane, %laneid;
             mov.u64 %d0, %p0; mov.u32 %r9, held; shl.b32 %r4, %t, 2; add.u32 %r4, %r4, %r9;
             mov.u32 %r0, 0; st.shared.u32 [%r4], %r0; st.shared.u32 [%r4+128], %r0; st.shared.u32 [%r4+256], %r0;
             st.shared.u32 [%r4+384], %r0; st.shared.u32 [%r4+512], %r0; st.shared.u32 [%r4+640], %r0;
             st.shared.u32 [%r4+768], %r0; st.shared.u32 [%r4+896], %r0; bar.warp.sync -1;
             setp.eq.u32 %q2, %t, 0; @%q2 ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d0];
             @%q2 st.shared.v4.u32 [%r9], {{%r0, %r1, %r2, %r3}}; bar.warp.sync -1;
             mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000; mov.u32 %r4, 0; mov.u32 %r5, 31;
             mov.u32 %r0, 10; mov.u32 %r1, 11; mov.u32 %r2, 12; mov.u32 %r3, 13;
             setp.eq.u32 %q0, %r0, 10; setp.ne.u32 %q1, %r0, 10;
             {setup}
             {instruction}
             setp.eq.u32 %q2, %t, 0; @%q2 st.global.v4.u32 [%p1], {{%r0, %r1, %r2, %r3}};
             end:"
        );
        let function = ".func (.reg .b32 x, .reg .b32 y) exchanged(.reg .b32 a, .reg .b32 b) {
                mov.u32 x, b; mov.u32 y, a; ret; }";
        let text = kernel(2, &body).replacen(".visible", &format!("{function} .visible"), 1);
        let given = if instruction.contains(".f32 {%f0") { [0; 4] } else { [1, 2, 3, 4] };
        let done = run(&text, shape(1, 32), &[words(given), words([0; 4])]);
        assert_eq!(done.words(1), *expected, "{setup} {instruction}");
    }
}

/// D in the registers of C, in another order.
#[test]
fn an_accumulator_may_be_written_to_the_registers_of_another() {
    for (instruction, a, b) in [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "{%r8, %r8, %r8, %r8}", "{%r8, %r8}"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", "{%r8, %r8}", "{%r8}"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "{%r8, %r8, %r8, %r8}", "{%r8, %r8}"),
        ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", "{%r8, %r8}", "{%r8}"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "{%r8, %r8, %r8, %r8}", "{%r8, %r8}"),
    ] {
        // A and B are zero, so D is C.
        let (d, c, bits) = match instruction.contains("s32.s8") {
            true => ("{%r1, %r0, %r3, %r2}", "{%r0, %r1, %r2, %r3}", ""),
            false => (
                "{%f1, %f0, %f3, %f2}",
                "{%f0, %f1, %f2, %f3}",
                "mov.b32 %r0, %f0; mov.b32 %r1, %f1; mov.b32 %r2, %f2; mov.b32 %r3, %f3;",
            ),
        };
        let body = format!(
            "mov.u32 %r8, 0; mov.b32 %r0, 0x40000000; mov.b32 %r1, 0x40100000; mov.b32 %r2, 0x40200000;
             mov.b32 %r3, 0x40300000;
             mov.b32 %f0, %r0; mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
             {instruction} {d}, {a}, {b}, {c}; {bits}
             setp.eq.u32 %q2, %t, 0; @%q2 st.global.v4.u32 [%p0], {{%r0, %r1, %r2, %r3}};"
        );
        let done = run(&kernel(1, &body), shape(1, 32), &[words([0; 4])]);
        let expected = [0x4010_0000, 0x4000_0000, 0x4030_0000, 0x4020_0000];
        assert_eq!(done.words(0), expected, "{instruction}");
    }
}
