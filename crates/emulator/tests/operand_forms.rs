//! The forms that operands and declarations take.

use crate::common::{device, kernel, load, run, shape, words};

/// Bodies of a kernel of 32 threads that leave a word in `%r0`, with the word of lanes 0 and 1.
const FORMS: [(&str, [u32; 2]); 38] = [
    // Negated predicates as sources: `%q1` holds in lane 0 alone.
    ("selp.u32 %r0, 7, 9, !%q1;", [9, 7]),
    ("selp.f32 %f0, 0f00000001, 0f00000002, !%q1; mov.b32 %r0, %f0;", [2, 1]),
    ("and.pred %q2, !%q1, !%q1; selp.u32 %r0, 1, 0, %q2;", [0, 1]),
    ("or.pred %q2, %q1, !%q1; selp.u32 %r0, 1, 0, %q2;", [1, 1]),
    ("xor.pred %q2, !%q1, %q1; selp.u32 %r0, 1, 0, %q2;", [1, 1]),
    ("not.pred %q2, !%q1; selp.u32 %r0, 1, 0, %q2;", [1, 0]),
    ("mov.pred %q2, !%q1; selp.u32 %r0, 1, 0, %q2;", [0, 1]),
    ("@%q1 mov.pred %q1, !%q1; selp.u32 %r0, 1, 0, %q1;", [0, 0]),
    ("setp.eq.and.u32 %q2|%q3, %t, %t, !%q1; selp.u32 %r0, 2, 0, %q2; @%q3 add.u32 %r0, %r0, 1;", [0, 2]),
    ("set.eq.and.u32.u32 %r0, %t, %t, !%q1;", [0, u32::MAX]),
    ("vote.sync.ballot.b32 %r0, !%q1, -1;", [!1, !1]),
    ("bar.red.popc.u32 %r0, 0, !%q1;", [31, 31]),
    ("lop3.or.b32 %r0|%q2, 0, 0, 0, 0x80, !%q1; selp.u32 %r0, 1, 0, %q2;", [0, 1]),
    // A register plus a number.
    ("mov.u32 %r0, %t+5;", [5, 6]),
    ("mov.b32 %r0, %t+-1;", [u32::MAX, 0]),
    ("mul.lo.u32 %r0, %t+2, %t+3;", [6, 12]),
    ("mov.b16 %h1, 0xffff; mov.b16 %h2, %h1+2; cvt.u32.u16 %r0, %h2;", [1, 1]),
    ("mov.b16 %h1, 0xffff; cvt.u32.u16 %r0, %h1+2;", [1, 1]),
    ("mov.b64 %d1, 0xffffffff; mov.b64 %d2, %d1+1; mov.b64 {_, %r0}, %d2;", [1, 1]),
    ("setp.eq.u32 %q2, %t+1, 1; selp.u32 %r0, %t+8, 0, %q2;", [8, 0]),
    ("shfl.sync.idx.b32 %r0, %t+3, %t+1, 31, -1;", [4, 5]),
    // Vectors of registers, in braces and by name.
    ("mov.v4.u32 v, %tid; add.u32 %r0, v.x, v.w;", [0, 1]),
    ("mov.v4.u32 {_, %r0, _, _}, %ntid;", [1, 1]),
    ("mov.v4.b32 {%r1, %r2, %r3, %r4}, {1, 2, 3, 4};
      mov.v4.b32 {%r2, %r1, %r4, %r3}, {%r1, %r2, %r3, %r4}; mad.lo.u32 %r0, %r1, 10, %r4;", [23, 23]),
    ("mov.v2.b32 w, {%t, 6}; mov.v2.b32 w, {w.y, w.x}; sub.u32 %r0, w.x, w.g;", [6, 5]),
    ("mov.b32 v.r, 1; mov.b32 v.g, 2; mov.b32 v.b, 3; mov.b32 v.a, 4; sub.u32 %r0, v.w, v.x;", [3, 3]),
    ("mov.b32 s1, 0x00020001; mov.b16 s3.y, s1.x; mov.b16 s3.x, s1.y; mov.b32 %r0, s3;", [0x10002; 2]),
    ("st.shared.v4.b32 [tile], {5, 6, 7, 8}; ld.shared.v4.b32 v, [tile]; mov.v4.b32 u, v;
      st.shared.v4.b32 [tile], u; ld.shared.v2.b32 {_, %r0}, [tile+8];", [8, 8]),
    // Bytes, and words of 128 bits, in braces; blanks before a modifier.
    (".reg .b8 b<4>; mov.b32 {b0, b1, b2, b3}, 0x04030201; mov.b32 %r0, {b3, b2, b1, b0};", [0x0102_0304; 2]),
    (".reg .b128 q; mov.b128 q, {1, 2, %t, 4}; mov.b128 {_, _, %r0, _}, q;", [0, 1]),
    ("mov .u32 %r1, %gridid; add .u32 %r0, %r1, %t;", [0, 1]),
    ("mov.v2.b32 w, {%t, 9}; call (w), swap, (w); mov.b32 %r0, w.x;", [9, 9]),
    ("mov.v2.b32 w, {%t, 9}; mov.b32 %r0, 4; call (_), swap, (w);", [4, 4]),
    ("mov.b32 %r0, 4; call (_), same, (9); call (%r0), same, (%r0);", [4, 4]),
    // Variables in the bodies of functions.
    (".global .b32 g[2] = {3, 4}; .const .b32 c = 5; .global .u64 at = g; { .global .b32 g = 6; ld.global.b32 %r1, [g]; }
      ld.global.u64 %d1, [at]; ld.b32 %r2, [%d1+4]; ld.const.b32 %r3, [c];
      mad.lo.u32 %r0, %r1, 10, %r2; mad.lo.u32 %r0, %r0, 10, %r3;", [645, 645]),
    ("call (%r0), kept, (40); call (%r0), kept, (2);", [42, 42]),
    // Results that are ignored.
    ("mov.b32 %r0, 3; atom.shared.add.u32 _, [tile], 1; shfl.sync.idx.b32 %r0|_, %t, 1, 31, -1;", [1, 1]),
    ("setp.eq.u32 _|%q2, %t, 0; selp.u32 %r0, 1, 0, %q2;", [0, 1]),
];

/// A kernel that runs a body in a warp and stores `%r0` of each lane.
fn form(body: &str) -> String {
    let functions = ".func (.reg .v2 .b32 r) swap (.reg .v2 .b32 a) { mov.v2.b32 r, {a.y, a.x}; ret; }
         .func (.param .b32 r) same (.param .b32 a)
         .func (.param .b32 r) same (.param .b32 a) {
            .reg .b32 x; ld.param.b32 x, [a]; st.param.b32 [r], x; ret; }
         .func (.reg .b32 r) kept (.reg .b32 a) {
            .global .b32 sum; .reg .pred p; .reg .b32 lane; mov.u32 lane, %laneid; setp.eq.u32 p, lane, 0;
            @p red.global.add.u32 [sum], a; bar.warp.sync -1; ld.global.b32 r, [sum]; bar.warp.sync -1; ret; }
         .visible";
    let declared = ".reg .v4 .b32 v, u; .reg .v2 .b32 w; .reg .v2 .b16 s<4>; .shared .align 16 .b8 tile[16];
         setp.eq.u32 %q1, %t, 0;";
    let stored = "mad.wide.u32 %d60, %t, 4, %p0; st.global.u32 [%d60], %r0;";
    kernel(1, &format!("{declared}\n{body}\n{stored}")).replace(".visible", functions)
}

#[test]
fn operands_take_every_form_of_the_assembler() {
    for (body, expected) in FORMS {
        let unchecked = crate::common::Shape { checked: !body.contains("tile"), ..shape(1, 32) };
        let done = run(&form(body), unchecked, &[words([77; 32])]);
        assert_eq!(done.words(0)[..2], expected, "{body}");
    }
}

#[test]
fn operands_that_the_assembler_refuses_are_refused() {
    let wrong = [
        ("mov.u32 %r0, %tid.x+4;", "`%tid.x` is not declared."),
        ("mov.v2.b32 w, v;", "`v` is not a vector of 2 registers."),
        ("mov.v2.u32 w, %tid;", "`%tid` is not a vector of 2 registers."),
        ("mov.b32 %r0, w.z;", "`w.z` is not declared."),
        ("mov.pred %q2, %q1+1;", "A number cannot be added to a .pred register."),
        ("call (w), swap, (v);", "has 4 elements, and the function's parameter 2."),
        ("call (w), swap, (%r1);", "`%r1` has 1 elements, and the function's parameter 2."),
        ("vadd.s32.s32.s32 %r0.b2, %r1, %r2;", "needs the register that it is merged into"),
        ("vadd.s32.s32.s32.add %r0.b2, %r1, %r2, %r3;", "excludes a second operation"),
        ("vadd.s32.s32.s32 %r0.b2, %r1, %r2, %r3, %r4;", "and has 5."),
        ("vadd.s32.s32.s32 %r0.b2, %r1, %r2, %f1;", "%f1"),
        ("vmad.s32.s32.s32 %r0.b1, %r1, %r2, %r3;", "A part of the destination"),
        ("add.u32 %r0, !%q1, 1;", "`!%q1` is not a register of type .u32"),
    ];
    for (body, reason) in wrong {
        let module = warpwright_ptx::parse(&form(body)).unwrap();
        let error = device("h200").load(&module).expect_err(body);
        assert!(error.message.contains(reason), "{body}: {error}");
    }
}

/// Modules for targets before sm_70 exchange values without `.sync`, between the lanes of one path.
#[test]
fn exchanges_without_sync_are_between_the_lanes_of_a_path() {
    let text = ".version 6.0 .target sm_60 .address_size 64
        .visible .entry k(.param .u64 p0) {
        .reg .pred %q<9>; .reg .b32 %r<9>; .reg .b64 %d<3>;
        ld.param.u64 %d0, [p0]; mov.u32 %r0, %tid.x; mad.wide.u32 %d0, %r0, 4, %d0;
        setp.lt.u32 %q1, %r0, 8; setp.eq.u32 %q2, %r0, 3;
        vote.ballot.b32 %r1, %q1;
        shfl.down.b32 %r2|%q3, %r0, 1, 31;
        @!%q1 bra high;
        vote.any.pred %q4, %q2; vote.ballot.b32 %r3, !%q2; vote.uni.pred %q5, %q1;
        bra join;
        high: vote.any.pred %q4, %q2; vote.ballot.b32 %r3, !%q2; vote.all.pred %q5, %q1;
        join: @%q4 add.u32 %r3, %r3, 1000; @%q5 add.u32 %r3, %r3, 2000;
        xor.b32 %r1, %r1, %r3; mad.lo.u32 %r1, %r2, 65536, %r1;
        st.global.u32 [%d0], %r1; ret; }";
    let done = run(text, shape(1, 32), &[words([0; 32])]);
    let expected = |lane: u32| {
        let here: u32 = if lane < 8 { (0xff & !8) + 3000 } else { 0xffff_ff00 };
        let next = if lane < 31 { lane + 1 } else { lane };
        (0xff ^ here).wrapping_add(next << 16)
    };
    assert_eq!(done.words(0), (0..32).map(expected).collect::<Vec<u32>>());
}

/// Before PTX 3.0, registers and local variables of the module are of each thread.
#[test]
fn old_modules_have_registers_and_local_variables() {
    let text = ".version 2.3 .target sm_20 .address_size 64
        .local .align 8 .b64 wide; .local .b32 part[2]; .reg .u32 %m<3>;
        .func put (.reg .u32 a) { st.local.u32 [part+4], a; ret; }
        .visible .entry k(.param .u64 p0) {
        .reg .b32 %r<9>; .reg .b64 %d<9>; .local .b32 own;
        ld.param.u64 %d0, [p0]; mov.u32 %m1, %tid.x; mad.wide.u32 %d0, %m1, 4, %d0;
        cvt.u64.u32 %d1, %m1; st.local.u64 [wide], %d1; st.local.u32 [own], 5;
        mov.u32 %m2, part; st.local.u32 [%m2], 7; add.u32 %r1, %m1, 100;
        call put, (%r1);
        ld.local.u32 %r2, [wide]; ld.local.v2.u32 {%r3, %r4}, [part]; ld.local.u32 %r5, [own];
        mad.lo.u32 %r2, %r2, 1000, %r4; mad.lo.u32 %r3, %r3, 10, %r5; mad.lo.u32 %r2, %r3, 1000000, %r2;
        st.global.u32 [%d0], %r2; ret; }";
    let done = run(text, shape(1, 32), &[words([0; 32])]);
    let expected: Vec<u32> = (0..32).map(|lane| 75_000_000 + lane * 1000 + 100 + lane).collect();
    assert_eq!(done.words(0), expected);
    let in_function = text.replace("st.local.u32 [part+4], a;", "mov.u32 %m0, a;");
    let module = load(&mut device("h200"), &in_function);
    let [listed] = module.kernel("k").unwrap().unsupported() else { panic!() };
    assert_eq!(
        listed.message,
        "The emulator does not support the register `%m0` of the module in a function."
    );
}

#[test]
fn the_address_of_a_kernel_is_a_value() {
    let other = ".visible .entry other(.param .u32 n) { .reg .b32 %r; ld.param.u32 %r, [n]; ret; }
         .global .u64 kernels[1] = {other};";
    let body = "mov.u64 %d1, other; ld.global.u64 %d2, [kernels]; setp.eq.u64 %q1, %d1, %d2;
         proto: .callprototype _ (); setp.eq.u32 %q2, %t, 99; @%q2 call %d1, proto;
         selp.u32 %r0, 1, 0, %q1; st.global.u32 [%p0], %r0;";
    let text = kernel(1, body) + other;
    let done = run(&text, shape(1, 1), &[words([7])]);
    assert_eq!(done.words(0), [1]);
}

#[test]
fn a_report_shows_a_vector_as_it_is_written() {
    let text = form("mov.v4.b32 v, {1, 2, 3, 4}; tex.1d.v4.b32.s32 v, [%d1, {%r1}];");
    let module = load(&mut device("h200"), &text);
    let [listed] = module.kernel("k").unwrap().unsupported() else { panic!("one instruction") };
    assert_eq!(listed.text, "tex.1d.v4.b32.s32 v, [%d1, {%r1}];");
}

#[test]
fn eight_bits_are_converted_from_and_to_bf16() {
    let values = [0.0f32, 1.5, 2.5, -1.5, 127.5, 200.0, 300.0, -300.0, f32::NAN, 254.5];
    let bits: Vec<u32> = values.iter().map(|value| value.to_bits() >> 16).collect();
    let text = |instruction: &str| {
        kernel(
            1,
            &format!(
                ".reg .b8 %b<4>; mad.wide.u32 %d1, %t, 4, %p0; ld.global.b16 %h1, [%d1]; {instruction}
                 st.global.b16 [%d1], %h2; st.global.b16 [%d1+2], %h3;"
            ),
        )
    };
    let convert = |instruction: &str| {
        let done = run(&text(instruction), shape(1, values.len() as u32), &[words(bits.clone())]);
        done.words(0).iter().map(|word| (*word as u16, (word >> 16) as i16)).collect::<Vec<_>>()
    };
    let integers = convert(
        "cvt.rzi.u8.bf16 %b1, %h1; cvt.u16.u8 %h2, %b1; cvt.rni.s8.bf16 %b2, %h1; cvt.s16.s8 %h3, %b2;",
    );
    let rounded = |value: f32| f32::from_bits(value.to_bits() & 0xffff_0000);
    let expected = values.map(|value| {
        let value = rounded(value);
        (u16::from(value as u8), i16::from(value.round_ties_even() as i8))
    });
    assert_eq!(integers, expected);
    let halves = convert(
        "cvt.u8.u16 %b1, %h1; cvt.rn.bf16.u8 %h2, %b1; cvt.s8.s16 %b2, %h1; cvt.rz.bf16.s8 %h3, %b2;",
    );
    let of = |value: f32| (value.to_bits() >> 16) as u16;
    for (bits, halves) in bits.iter().zip(halves) {
        let expected = (of(f32::from(*bits as u8)), of(f32::from(*bits as i8)) as i16);
        assert_eq!(halves, expected, "{bits:#x}");
    }
}
