//! Results at special points that PTX's text leaves open, as an H200 gave them.

use crate::common::{kernel, longs, run, shape, words};

/// Instructions of f32, the bits of their operands, and the bits of the result.
const SINGLES: &[(&str, &[u32], u32)] = &[
    ("sin.approx.f32", &[0x8000_0000], 0x8000_0000),
    ("sin.approx.f32", &[0], 0),
    ("sin.approx.f32", &[0x8000_0001], 0x8000_0000),
    ("sin.approx.ftz.f32", &[0x807f_ffff], 0x8000_0000),
    // Underflow is decided before rounding.
    ("rcp.rp.ftz.f32", &[0x7e80_0001], 0),
    ("rcp.rm.ftz.f32", &[0xfe80_0001], 0x8000_0000),
    ("rcp.rp.ftz.f32", &[0x7e80_0000], 0x0080_0000),
    ("fma.rn.ftz.f32", &[0x3f7f_ffff, 0x0080_0000, 0], 0),
    ("fma.rp.ftz.f32", &[0x3f7f_ffff, 0x0080_0000, 0], 0),
    ("fma.rm.ftz.f32", &[0xbf7f_ffff, 0x0080_0000, 0], 0x8000_0000),
    ("fma.rn.f32", &[0x3f7f_ffff, 0x0080_0000, 0], 0x0080_0000),
    ("div.rn.ftz.f32", &[0x0dff_ffff, 0x4d00_0000], 0),
    ("div.rp.ftz.f32", &[0x0dff_ffff, 0x4d00_0000], 0),
    ("div.rn.f32", &[0x0dff_ffff, 0x4d00_0000], 0x0080_0000),
];

#[test]
fn singles_at_special_points() {
    for &(instruction, operands, expected) in SINGLES {
        let loads: String = (0..operands.len())
            .map(|index| format!("ld.global.f32 %f{}, [%p0+{}];\n", index + 1, 4 * index))
            .collect();
        let sources: String = (0..operands.len()).map(|index| format!(", %f{}", index + 1)).collect();
        let body = format!("{loads} {instruction} %f0{sources}; st.global.f32 [%p1], %f0;");
        let found = run(&kernel(2, &body), shape(1, 1), &[words(operands.iter().copied()), words([7])]);
        assert_eq!(found.words(1), [expected], "{instruction} of {operands:x?}");
    }
}

/// Conversions to f16: the register of the operand, its bits, and the bits of the result.
const TO_HALF: &[(&str, &str, u64, u16)] = &[
    ("cvt.rn.f16.f64", "f64", 0x7fff_ffff_ffff_ffff, 0x7fff),
    ("cvt.rn.f16.f64", "f64", 0x7ff8_1234_0000_0000, 0x7e04),
    ("cvt.rn.f16.f64", "f64", 0xfff8_0000_0000_0005, 0xfe00),
    ("cvt.rm.ftz.f16.f32", "f32", 0x8000_0001, 0x8001),
    ("cvt.rp.ftz.f16.f32", "f32", 1, 1),
    ("cvt.rp.ftz.sat.f16.f32", "f32", 1, 1),
    ("cvt.rm.ftz.sat.f16.f32", "f32", 0x8000_0001, 0),
    ("cvt.rp.ftz.f16.f32", "f32", 0x3800_0001, 0x0201),
    ("cvt.rn.ftz.f16.f32", "f32", 1, 0),
    ("cvt.rn.ftz.f16.f32", "f32", 0x8000_0001, 0x8000),
];

#[test]
fn halves_at_special_points() {
    for &(instruction, ty, operand, expected) in TO_HALF {
        let source = if ty == "f64" { "%e0" } else { "%f0" };
        let body = format!(
            "ld.global.{ty} {source}, [%p0]; {instruction} %h0, {source};
             cvt.u32.u16 %r0, %h0; st.global.u32 [%p1], %r0;"
        );
        let found = run(&kernel(2, &body), shape(1, 1), &[longs([operand]), words([7])]);
        assert_eq!(found.words(1), [u32::from(expected)], "{instruction} of {operand:x}");
    }
}

#[test]
fn a_match_of_all_lanes_names_those_that_the_cta_has() {
    let body =
        "match.all.sync.b32 %r0|%q0, 5, 0xffffffff; mad.wide.u32 %d0, %t, 4, %p0; st.global.u32 [%d0], %r0;";
    let found = run(&kernel(1, body), shape(1, 10), &[words([0; 10])]);
    assert_eq!(found.words(0), [0x3ff; 10]);
}

/// A "negative" register and a positive offset: legal, and common in what nvcc writes.
#[test]
fn shared_addresses_wrap_at_32_bits() {
    let body =
        ".shared .align 4 .b32 s[64]; mov.u32 %r0, s; mad.lo.u32 %r1, %t, 4, %r0; st.shared.u32 [%r1], %t;
         sub.u32 %r2, %r1, 128; ld.shared.u32 %r3, [%r2+128];
         mad.wide.u32 %d0, %t, 4, %p0; st.global.u32 [%d0], %r3;";
    let found = run(&kernel(1, body), shape(1, 32), &[words([0; 32])]);
    assert_eq!(found.words(0), (0..32).collect::<Vec<_>>());
}

#[test]
fn constants_have_a_space_of_their_own() {
    let text = kernel(
        1,
        "mov.u64 %d0, table; cvta.const.u64 %d1, %d0; ld.u32 %r0, [%d1+4]; ld.const.u32 %r1, [table+8];
         isspacep.const %q0, %d1; isspacep.global %q1, %d1; isspacep.const %q2, %p0; isspacep.global %q3, %p0;
         selp.u32 %r2, 1, 0, %q0; selp.u32 %r3, 1, 0, %q1; selp.u32 %r4, 1, 0, %q2; selp.u32 %r5, 1, 0, %q3;
         st.global.v2.u32 [%p0], {%r0, %r1}; st.global.v4.u32 [%p0+16], {%r2, %r3, %r4, %r5};",
    );
    let text = text
        .replace(".visible .entry", ".const .align 4 .b32 table[4] = {1, 20, 300, 4000};\n.visible .entry");
    let found = run(&text, shape(1, 1), &[words([9; 8])]);
    assert_eq!(found.words(0), [20, 300, 9, 9, 1, 0, 0, 1]);
}
