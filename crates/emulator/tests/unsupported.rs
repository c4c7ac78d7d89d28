//! Instructions that the emulator does not support fail where they are executed; errors of the
//! program are refused when the module is loaded.

use crate::common::{device, kernel, load, run, shape, try_run, words};
use warpwright_emulator::FaultKind;

/// Instructions of a later version of PTX or without support, and the reason that the emulator gives.
const UNSUPPORTED: [(&str, &str); 11] = [
    ("frobnicate.sync.b32 %r1, [%d1], {%r2, 3};", "The emulator does not know the instruction `frobnicate`."),
    ("vnew.u32.u32.u32 %r1, %r2, %r3;", "The emulator does not know the instruction `vnew`."),
    ("frobnicate;", "The emulator does not know the instruction `frobnicate`."),
    ("add.wider.f32 %f1, %f2, %f3;", "The emulator does not know the modifier `.wider` of `add`."),
    ("add.f24 %f1, %f2, %f3;", "The emulator does not know the modifier `.f24` of `add`."),
    ("cvt.rq.f16x2.f32 %r1, %f1, %f2;", "The emulator does not know the modifier `.rq` of `cvt`."),
    ("ld.global.L3::keep.u32 %r1, [%p0];", "The emulator does not know the modifier `.L3::keep` of `ld`."),
    (
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%q1, [picture, {%f5, %f6}];",
        "The emulator does not support the instruction `tex`: it has no textures and surfaces.",
    ),
    (
        "multimem.red.relaxed.sys.global.add.u32 [%p0], %r1;",
        "The emulator does not support the instruction `multimem`: it shares no memory between GPUs.",
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.f24.f24.f32 {%f1}, {%r1}, {%r2}, {%f1};",
        "The emulator does not know the modifier `.f24` of `mma`.",
    ),
    (
        "call (%r1), elsewhere, (%r2);",
        "`elsewhere` is declared but not defined in this module, and the emulator does not provide it.",
    ),
];

/// A kernel that executes the instruction if the number in the buffer is not zero, and then
/// stores 7.
fn program(instruction: &str) -> String {
    let body = format!(
        "ld.global.u32 %r9, [%p0]; setp.eq.u32 %q9, %r9, 0; @%q9 bra past;\n{instruction}\n\
         past: mov.u32 %r9, 7; st.global.u32 [%p0], %r9;"
    );
    kernel(1, &body).replace(
        ".visible",
        ".global .texref picture; .extern .func (.reg .b32 r) elsewhere (.reg .b32 a); .visible",
    )
}

/// In a module of a version of PTX after the table's.
fn newer(text: &str) -> String {
    text.replacen(".version 9.0", ".version 9.5", 1)
}

#[test]
fn unsupported_instructions_fail_where_they_are_executed() {
    for (instruction, reason) in UNSUPPORTED {
        let text = newer(&program(instruction));
        let module = load(&mut device("h200"), &text);
        let kernel = module.kernel("k").unwrap();
        let [listed] = kernel.unsupported() else { panic!("{instruction}: {:?}", kernel.unsupported()) };
        assert_eq!(listed.message, reason, "{instruction}");
        let around = run(&text, shape(1, 1), &[words([0])]);
        assert_eq!(around.words(0), [7], "{instruction}");
        let fault = try_run(&text, shape(1, 1), &[words([1])]).err().expect(instruction);
        assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Unsupported, reason));
        assert_eq!(fault.ptx_line, Some(listed.line));
        assert!(
            text.lines().nth(listed.line as usize - 1).unwrap().starts_with(instruction),
            "{instruction}"
        );
    }
}

#[test]
fn errors_of_the_program_are_refused() {
    let wrong = [
        ("frobnicate.b32 %r1, %nobody;", "`%nobody` is not declared."),
        ("frobnicate.b32 %r1, [nowhere+4];", "`nowhere` is not declared."),
        ("frobnicate.b32 %r1, %r2;", "PTX 9.0 has no instruction `frobnicate`."),
        ("add.f32 %f1, %d2, %f3;", "`%d2` is a .b64 register"),
        ("add.f32 %f1, %f2;", "The instruction takes 3 operands, and has 2."),
        ("bra nowhere;", "`nowhere` is not declared."),
        ("@%f1 bra past;", "`%f1` is not a predicate."),
        (
            "cvt.rn.u32.f32 %r1, %f1;",
            "The conversions from .f32 to .u32: `cvt(.rni|.rzi|.rmi|.rpi){.ftz}{.sat}.u32.f32`.",
        ),
        ("cvt.u32.f32 %r1, %f1;", "`cvt.u32.f32` does not exist."),
        ("cvt.sat.u32.u16 %r1, %h1;", "The conversions from .u16 to .u32: `cvt.u32.u16`."),
        ("cvt.rni.u8.bf16 %h1, %h2;", "`cvt` between bf16 and 8 bits takes a register of 8 bits."),
        (
            "cvt.rn.u8.bf16 %h1, %h2;",
            "The conversions from .bf16 to .u8: `cvt(.rni|.rzi|.rmi|.rpi).u8.bf16`.",
        ),
        ("alloca.u64 %d1, %d2, 24;", "The alignment of `alloca` is a power of two."),
        ("ld.param.pred %r1, [p0];", "`ld.param.pred` does not exist: `ld` has no modifier `.pred`."),
        ("add.wide.f32 %f1, %f2, %f3;", "`add.wide.f32` does not exist: `add` has no modifier `.wide`."),
        (
            "fma.rn.sat.s32 %r1, %r2, %r3, %r4;",
            "`fma.rn.sat.s32` does not exist: `fma` has no modifier `.s32`.",
        ),
    ];
    for (instruction, reason) in wrong {
        let module = warpwright_ptx::parse(&program(instruction)).unwrap();
        let error = device("h200").load(&module).expect_err(instruction);
        assert!(error.message.contains(reason), "{instruction}: {error}");
    }
}

#[test]
fn conversions_of_later_targets_are_refused() {
    let text = program("cvt.f64.bf16 %e1, %h2;");
    load(&mut device("h200"), &text);
    let module = warpwright_ptx::parse(&text.replace("sm_90a", "sm_80")).unwrap();
    let error = device("h200").load(&module).expect_err("sm_80 has no such conversion");
    let expected =
        "`cvt.f64.bf16` exists in PTX 7.8 or later on sm_90 or later, and the module is PTX 9.0 for sm_80.";
    assert_eq!(error.message, expected);
}

#[test]
fn a_guard_that_holds_nowhere_executes_nothing() {
    let body = "setp.ge.u32 %q1, %t, 32; @%q1 frobnicate %r1; st.global.u32 [%p0], %t;";
    run(&newer(&kernel(1, body)), shape(1, 1), &[words([1])]);
}

#[test]
fn a_function_without_a_body_fails_when_it_is_called() {
    let text = ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .func elsewhere ();
        .visible .entry k(.param .u64 p0) { .reg .b64 %d<4>; .reg .b32 %r<4>; .reg .pred %q;
        ld.param.u64 %d0, [p0]; ld.global.u32 %r0, [%d0]; mov.u64 %d1, elsewhere;
        setp.eq.u32 %q, %r0, 0; @%q bra past;
        proto: .callprototype _ (); call %d1, (), proto;
        past: ret; }"
        .replace("call %d1, (), proto", "call %d1, proto");
    run(&text, shape(1, 32), &[words([0])]);
    let fault = try_run(&text, shape(1, 32), &[words([1])]).err().unwrap();
    assert!(fault.message.starts_with("`elsewhere` is declared but not defined"), "{fault}");
}

#[test]
fn a_function_with_an_unknown_directive_fails_when_it_is_executed() {
    let body = "ld.global.u32 %r1, [%p0]; st.global.u32 [%p0], %r1;";
    let text = kernel(1, body).replace("p0) {", "p0) .maxntid 32 .frobnicate 3, 4 {");
    assert!(text.contains(".frobnicate"));
    let message = "The emulator does not support the directive `.frobnicate` of a function.";
    let module = load(&mut device("h200"), &text);
    assert_eq!(module.kernel("k").unwrap().unsupported()[0].message, message);
    let fault = try_run(&text, shape(1, 1), &[words([1])]).err().unwrap();
    assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Unsupported, message));
}

/// Directives that PTX does not have, and the answer.
const UNKNOWN_DIRECTIVES: [(&str, &str); 4] = [
    (
        ".frobnicate x;",
        "line 4, column 1: expected `.entry`, `.func` or a state space such as `.global`, found `.frobnicate`",
    ),
    (
        ".visible .frobnicate x;",
        "line 4, column 10: expected `.entry`, `.func` or a state space such as `.global`, found `.frobnicate`",
    ),
    (
        ".global .frobnicate .b32 x;",
        "line 4, column 9: expected a type such as `.u32`, `.align` or `.v4`, found `.frobnicate`",
    ),
    (
        ".entry k() { .frobnicate 3; ret; }",
        "line 4, column 14: expected a statement: an instruction, a label, `.reg`, `.shared` or `.loc`, found `.frobnicate`",
    ),
];

#[test]
fn unknown_directives_are_refused() {
    for (item, answer) in UNKNOWN_DIRECTIVES {
        let text = format!(".version 9.0\n.target sm_90a\n.address_size 64\n{item}");
        let error = warpwright_ptx::parse(&text).expect_err(item).to_string();
        assert_eq!(error.lines().next(), Some(answer));
    }
}
