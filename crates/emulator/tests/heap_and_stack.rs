//! Memory that kernels allocate: `malloc` and `free`, `alloca` and the stack.

use crate::common::{Shape, kernel, run, shape, try_run, words};
use warpwright_emulator::FaultKind;

/// The kernel with the declarations of the heap's functions.
fn with_heap(body: &str) -> String {
    kernel(1, body).replace(
        ".visible",
        ".extern .func (.param .b64 r) malloc (.param .b64 size);
         .extern .func (.param .b64 r) __nv_aligned_device_malloc (.param .b64 size, .param .b64 alignment);
         .extern .func free (.param .b64 address);
         .visible",
    )
}

/// `%d1 = malloc(bytes)`
fn malloc(bytes: &str) -> String {
    format!(
        "{{ .param .b64 a; .param .b64 r; st.param.b64 [a], {bytes}; call (r), malloc, (a);
            ld.param.b64 %d1, [r]; }}\n"
    )
}

const FREE: &str = "{ .param .b64 a; st.param.b64 [a], %d1; call free, (a); }\n";
const STORE: &str = "mad.wide.u32 %d60, %t, 4, %p0; st.global.u32 [%d60], %r0;";

#[test]
fn threads_allocate_blocks_of_their_own() {
    // Thread t sums t + 1 numbers of a block of its own.
    let body = format!(
        "add.u32 %r1, %t, 1; mul.wide.u32 %d0, %r1, 4; {} mov.b64 %d2, %d1; mov.u32 %r2, 0;
         fill: st.u32 [%d2], %r2; add.u64 %d2, %d2, 4; add.u32 %r2, %r2, 1; setp.lt.u32 %q1, %r2, %r1; @%q1 bra fill;
         mov.b32 %r0, 0;
         sum: sub.u64 %d2, %d2, 4; ld.global.u32 %r3, [%d2]; add.u32 %r0, %r0, %r3; sub.u32 %r2, %r2, 1;
         setp.ne.u32 %q1, %r2, 0; @%q1 bra sum;
         and.b64 %d3, %d1, 15; cvt.u32.u64 %r4, %d3; add.u32 %r0, %r0, %r4;
         {FREE} mov.b64 %d1, 0; {FREE} {STORE}",
        malloc("%d0")
    );
    let done = run(&with_heap(&body), shape(1, 100), &[words([0; 100])]);
    assert_eq!(done.words(0), (0..100).map(|t| t * (t + 1) / 2).collect::<Vec<u32>>());
}

#[test]
fn a_heap_that_is_full_gives_null() {
    let body = format!("{} setp.eq.u64 %q1, %d1, 0; selp.u32 %r0, 1, 0, %q1; {STORE}", malloc("0x600000"));
    let done = run(&with_heap(&body), shape(1, 2), &[words([7, 7])]);
    assert_eq!(done.words(0).iter().sum::<u32>(), 1, "the heap of 8 MiB has one block of 6 MiB");
    let aligned =
        "{ .param .b64 a; .param .b64 b; .param .b64 r; st.param.b64 [a], 40; st.param.b64 [b], 256;
        call (r), __nv_aligned_device_malloc, (a, b); ld.param.b64 %d1, [r]; }
        and.b64 %d2, %d1, 255; cvt.u32.u64 %r0, %d2; st.u32 [%d1+36], %r0; ";
    let done = run(&with_heap(&format!("{aligned} {STORE}")), shape(1, 2), &[words([7, 7])]);
    assert_eq!(done.words(0), [0, 0]);
}

#[test]
fn misuse_of_the_heap_is_a_fault() {
    let block = malloc("40");
    let cases = [
        (
            "st.u32 [%d1+40], 0;",
            FaultKind::OutOfBounds,
            "right past the end of the 40 bytes that `malloc` returned",
        ),
        ("ld.global.u32 %r0, [%d1+-4];", FaultKind::OutOfBounds, ""),
        ("st.v2.u64 [%d1+24], {%d1, %d1};", FaultKind::Misaligned, ""),
        (
            "@@ ld.u32 %r0, [%d1+8];",
            FaultKind::UseAfterFree,
            "8 bytes into the 40 bytes that `malloc` returned",
        ),
        ("@@ @@", FaultKind::UseAfterFree, "at the beginning of the 40 bytes"),
        ("add.u64 %d1, %d1, 16; @@", FaultKind::OutOfBounds, "16 bytes into the 40 bytes"),
        ("mov.b64 %d1, %p0; @@", FaultKind::OutOfBounds, "at the beginning of the allocation of 4 bytes"),
    ];
    for (misuse, kind, note) in cases {
        let text = with_heap(&(block.clone() + &misuse.replace("@@", FREE)));
        let fault = try_run(&text, shape(1, 1), &[words([0])]).err().expect(misuse);
        assert_eq!(fault.kind, kind, "{misuse}: {fault}");
        assert!(fault.to_string().contains(note), "{misuse}: {fault}");
    }
}

#[test]
fn bytes_of_the_heap_are_not_initialized() {
    let body = format!("{} ld.u32 %r0, [%d1]; {STORE}", malloc("4"));
    let done = run(&with_heap(&body), shape(1, 1), &[words([0])]);
    assert_eq!(done.words(0), [u32::MAX]);
}

/// A kernel with a function that doubles the numbers 1 to n on its stack and sums them.
fn with_stack(body: &str) -> String {
    kernel(1, body).replace(
        ".visible",
        ".func (.reg .b32 r) sum (.reg .b32 n) {
            .reg .b64 d<5>; .reg .b32 x<3>; .reg .pred p;
            mul.wide.u32 d0, n, 4; alloca.u64 d1, d0, 16; cvta.local.u64 d2, d1; mov.b32 x0, 0;
            fill: add.u32 x0, x0, 1; add.u32 x1, x0, x0; mul.wide.u32 d3, x0, 4; add.u64 d3, d3, d2; st.u32 [d3+-4], x1;
            setp.lt.u32 p, x0, n; @p bra fill;
            mov.b32 r, 0;
            add: mul.wide.u32 d3, x0, 4; add.u64 d3, d3, d1; ld.local.u32 x2, [d3+-4]; add.u32 r, r, x2;
            sub.u32 x0, x0, 1; setp.ne.u32 p, x0, 0; @p bra add;
            setp.eq.u32 p, r, 2; @p ret;
            ret; }
         .visible",
    )
}

#[test]
fn functions_allocate_on_the_stack() {
    // Again and again, so that memory which a return does not free runs out.
    let body = format!(
        "and.b32 %r1, %t, 7; add.u32 %r1, %r1, 1; mov.b32 %r5, 0;
         again: call (%r0), sum, (%r1); add.u32 %r5, %r5, 1; setp.lt.u32 %q1, %r5, 20000; @%q1 bra again; {STORE}"
    );
    let done = run(&with_stack(&body), shape(1, 32), &[words([0; 32])]);
    let expected = |t: u32| (t % 8 + 1) * (t % 8 + 2);
    assert_eq!(done.words(0), (0..32).map(expected).collect::<Vec<u32>>());
}

#[test]
fn the_top_of_the_stack_is_saved_and_restored() {
    let body = format!(
        "stacksave.u64 %d1; alloca.u64 %d2, 24; st.local.u32 [%d2+20], 5; stackrestore.u64 %d1;
         alloca.u64 %d3, 24; sub.u64 %d4, %d3, %d2; cvt.u32.u64 %r0, %d4;
         alloca.u64 %d5, 1; alloca.u64 %d6, 8; and.b64 %d6, %d6, 7; cvt.u32.u64 %r1, %d6; add.u32 %r0, %r0, %r1;
         stacksave.u32 %r2; alloca.u32 %r3, 64, 64; and.b32 %r3, %r3, 63; add.u32 %r0, %r0, %r3; stackrestore.u32 %r2; {STORE}"
    );
    assert_eq!(run(&kernel(1, &body), shape(1, 2), &[words([7, 7])]).words(0), [0, 0]);
}

#[test]
fn misuse_of_the_stack_is_a_fault() {
    let cases = [
        ("alloca.u64 %d1, 16; ld.local.u32 %r0, [%d1+16];", FaultKind::OutOfBounds),
        (
            "stacksave.u64 %d2; alloca.u64 %d1, 16; stackrestore.u64 %d2; ld.local.u32 %r0, [%d1];",
            FaultKind::OutOfBounds,
        ),
        (
            "mul.wide.u32 %d0, %t, 16; alloca.u64 %d1, %d0; @%q1 ld.local.u32 %r0, [%d1+16];",
            FaultKind::OutOfBounds,
        ),
        ("mov.b64 %d0, 0x80001; alloca.u64 %d1, %d0;", FaultKind::StackOverflow),
        ("mov.b64 %d0, -1; alloca.u64 %d1, %d0;", FaultKind::StackOverflow),
        ("stacksave.u64 %d2; add.u64 %d2, %d2, 8; stackrestore.u64 %d2;", FaultKind::IllegalInstruction),
        ("mov.b64 %d2, 0; stackrestore.u64 %d2;", FaultKind::IllegalInstruction),
    ];
    for (misuse, kind) in cases {
        let text = kernel(1, &format!("setp.eq.u32 %q1, %t, 1; {misuse}"));
        let fault = try_run(&text, shape(1, 2), &[words([0])]).err().expect(misuse);
        assert_eq!(fault.kind, kind, "{misuse}: {fault}");
    }
    let unwritten = kernel(1, "alloca.u64 %d1, 16; ld.local.u32 %r0, [%d1]; st.global.u32 [%p0], %r0;");
    let checked = std::panic::catch_unwind(|| run(&unwritten, shape(1, 1), &[words([0])]));
    assert!(checked.is_err(), "the checkers report a read of memory that nothing has written");
    let done = run(&unwritten, Shape { checked: false, ..shape(1, 1) }, &[words([0])]);
    assert_eq!(done.words(0), [u32::MAX]);
}
