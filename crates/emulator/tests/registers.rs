//! `setmaxnreg`: warpgroups hand registers to each other.

use crate::common::{Shape, kernel, run, shape, try_run, words};
use warpwright_emulator::FaultKind;

/// A kernel of three warpgroups; each branches to `first`, `second` or `third`.
fn roles(directives: &str, first: &str, second: &str, third: &str) -> String {
    kernel(
        1,
        &format!(
            "shr.u32 %r0, %t, 7; setp.eq.u32 %q0, %r0, 1; setp.eq.u32 %q1, %r0, 2; mov.u32 %r1, 1;
             @%q0 bra second; @%q1 bra third;
             {first} bra end; second: {second} bra end; third: {third}
             end: mad.wide.u32 %d0, %t, 4, %p0; st.global.u32 [%d0], %r1;"
        ),
    )
    .replace(") {", &format!(") {directives} {{"))
}

const INC: &str = "setmaxnreg.inc.sync.aligned.u32 240;";
const DEC: &str = "setmaxnreg.dec.sync.aligned.u32 24;";

fn three_warpgroups() -> Shape {
    shape(2, 384)
}

#[test]
fn consumers_get_what_the_producer_leaves() {
    // The consumers come first, and wait for the producer's registers.
    for directives in [
        ".maxntid 384, 1, 1 .minnctapersm 1",
        ".reqntid 384, 1, 1 .minnctapersm 1",
        ".maxnreg 168",
        ".maxntid 384, 1, 1",
        "",
    ] {
        let text = roles(directives, INC, INC, DEC);
        let done = run(&text, three_warpgroups(), &[words(vec![0; 384])]);
        assert_eq!(done.words(0), [1; 384], "{directives}");
    }
}

#[test]
fn registers_that_nobody_leaves_are_waited_for_in_vain() {
    let text = roles(".maxntid 384, 1, 1 .minnctapersm 1", INC, INC, "setmaxnreg.dec.sync.aligned.u32 40;");
    let fault = try_run(&text, three_warpgroups(), &[words(vec![0; 384])]).err().expect("a deadlock");
    assert_eq!(fault.kind, FaultKind::Deadlock);
    let text = fault.to_string();
    assert!(text.contains("waiting for 240 registers per thread, for which the CTA lacks"), "{text}");
}

#[test]
fn a_warpgroup_asks_as_one() {
    let uneven = "and.b32 %r2, %t, 32; setp.ne.u32 %q2, %r2, 0; @%q2 bra odd; setmaxnreg.dec.sync.aligned.u32 32; bra end;
         odd: setmaxnreg.dec.sync.aligned.u32 24;";
    let fault =
        try_run(&roles("", uneven, "", ""), three_warpgroups(), &[words(vec![0; 384])]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
    assert!(fault.message.contains("all four must request the same"), "{fault}");
    let wrong_way = roles(".maxnreg 64", "setmaxnreg.dec.sync.aligned.u32 72;", "", "");
    let fault = try_run(&wrong_way, three_warpgroups(), &[words(vec![0; 384])]).err().unwrap();
    assert!(fault.message.contains("more than the 64"), "{fault}");
}

/// As CUTLASS's attention for sm_100a does: roles that are warps of one warpgroup.
#[test]
fn warps_of_blackwell_ask_for_themselves() {
    let uneven = "and.b32 %r2, %t, 32; setp.ne.u32 %q2, %r2, 0; @%q2 bra odd; setmaxnreg.dec.sync.aligned.u32 32; bra end;
         odd: setmaxnreg.dec.sync.aligned.u32 24;";
    // 168 registers of 12 warps: the even ones of the first warpgroup leave 136, the odd ones 144.
    let (rest, too_many) = ("setmaxnreg.inc.sync.aligned.u32 232;", "setmaxnreg.inc.sync.aligned.u32 240;");
    let with = |count| {
        roles(".maxntid 384, 1, 1 .minnctapersm 1", uneven, count, count).replace("sm_90a", "sm_100a")
    };
    assert_eq!(run(&with(rest), three_warpgroups(), &[words(vec![0; 384])]).words(0), [1; 384]);
    let fault = try_run(&with(too_many), three_warpgroups(), &[words(vec![0; 384])]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Deadlock);
}

#[test]
fn counts_are_multiples_of_eight_in_range() {
    let mut device = crate::common::device("h200");
    for (count, loads) in [(16, false), (24, true), (28, false), (256, true), (264, false)] {
        let text = kernel(0, &format!("setmaxnreg.inc.sync.aligned.u32 {count};"));
        assert_eq!(device.load(&warpwright_ptx::parse(&text).unwrap()).is_ok(), loads, "{count}");
    }
}
