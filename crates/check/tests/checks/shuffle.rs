//! Row 26 of the catalog: shuffles that read lanes that do not take part.

use warpwright_check::FindingKind::Fault;
use warpwright_emulator::FaultKind::LaneMask;

use crate::checks::harness::{Grid, ONE, clean, found};

const ONE_WARP: Grid = Grid { threads: 32, ..ONE };
/// Twenty threads: lanes 20 to 31 do not exist.
const SHORT: Grid = Grid { threads: 20, ..ONE };
const STORE: &str = "st.global.u32 [%mine], %r1;";
/// A sum of the warp in lane 0, by halves.
const SUM: &str = "mov.u32 %r1, %tid;
    shfl.sync.down.b32 %r2, %r1, 16, 31, -1; add.u32 %r1, %r1, %r2;
    shfl.sync.down.b32 %r2, %r1, 8, 31, -1; add.u32 %r1, %r1, %r2;
    shfl.sync.down.b32 %r2, %r1, 4, 31, -1; add.u32 %r1, %r1, %r2;
    shfl.sync.down.b32 %r2, %r1, 2, 31, -1; add.u32 %r1, %r1, %r2;
    shfl.sync.down.b32 %r2, %r1, 1, 31, -1; add.u32 %r1, %r1, %r2;
    setp.eq.u32 %p1, %tid, 0; @%p1 st.global.u32 [%mine], %r1;";

fn text(body: &str, grid: Grid, places: [&str; 2]) -> String {
    found(body, grid, Fault(LaneMask), places).to_string()
}

#[test]
fn a_value_of_a_lane_that_does_not_exist_is_followed_to_its_use() {
    clean(SUM, ONE_WARP);
    let told = text(SUM, SHORT, ["shfl.sync.down.b32 %r2, %r1, 16", "st.global"]);
    assert!(told.contains("lanes 20-31, which do not exist"), "{told}");
    assert!(told.contains("used by warp 0, lane 0"), "{told}");
}

#[test]
fn a_value_of_a_lane_that_has_exited_is_undefined() {
    let body =
        format!("setp.ge.u32 %p2, %tid, 24; @%p2 ret; shfl.sync.bfly.b32 %r1, %tid, 8, 31, -1; {STORE}");
    let told = text(&body, ONE_WARP, ["shfl.sync.bfly", "st.global"]);
    assert!(
        told.contains("lanes 24-31, which have ended without executing it") && told.contains("lanes 16-23"),
        "{told}"
    );
}

#[test]
fn a_value_of_a_lane_outside_the_mask_is_undefined() {
    let low = "setp.lt.u32 %p1, %lane, 16; mov.u32 %r1, %tid; @!%p1 bra $past;";
    let shuffle = "shfl.sync.idx.b32 %r1, %tid, 20, 31, 0xffff;";
    let told = text(&format!("{low} {shuffle} $past: {STORE}"), ONE_WARP, ["shfl.sync.idx", "st.global"]);
    assert!(told.contains("lane 20, which is not in its member mask"), "{told}");
    clean(&format!("{low} {} $past: {STORE}", shuffle.replace("20, 31", "12, 31")), ONE_WARP);
}

#[test]
fn a_value_is_followed_through_the_selection_that_takes_it() {
    let shuffle = "shfl.sync.down.b32 %r1|%p3, %tid, 1, 31, -1;";
    for selection in ["%tid, %r1, %p3", "7, %r1, %p3", "%r1, %r1, %p3"] {
        let body = format!("{shuffle} selp.u32 %r2, {selection}; add.u32 %r1, %r2, 1; {STORE}");
        text(&body, SHORT, ["shfl.sync.down", "st.global"]);
    }
}

/// The function has a register of the same name.
#[test]
fn a_value_is_followed_past_calls() {
    let shuffle = "shfl.sync.down.b32 %r1, %tid, 1, 31, -1;";
    let function = "ret; } .func other() { .reg .b32 %r<4>; mov.u32 %r1, 0;";
    let body = format!("{shuffle} call other; {STORE} {function}");
    text(&body, SHORT, ["shfl.sync.down", "st.global"]);
    clean(&format!("{shuffle} call other; mov.u32 %r1, 0; {STORE} {function}"), SHORT);
}

/// As compilers pass parameters.
#[test]
fn a_value_is_followed_into_a_function_and_out_of_it() {
    let called = |body: &str| {
        format!(
            "shfl.sync.down.b32 %r1, %tid, 1, 31, -1;
            {{ .param .b32 given; .param .b32 taken; st.param.b32 [given], %r1; call (taken), other, (given);
            ld.param.b32 %r1, [taken]; }} {STORE} ret; }}
            .func (.param .b32 result) other(.param .b32 value) {{ .reg .b32 %r<4>; {body}
            st.param.b32 [result], %r3;"
        )
    };
    let body = called("ld.param.b32 %r2, [value]; add.u32 %r3, %r2, 1;");
    text(&body, SHORT, ["shfl.sync.down", "st.global"]);
    clean(&called("ld.param.b32 %r2, [value]; mov.u32 %r3, 1;"), SHORT);
}

#[test]
fn a_value_is_followed_through_local_memory() {
    let spilled = |loaded: &str| {
        format!(
            "shfl.sync.down.b32 %r1, %tid, 1, 31, -1; .local .align 8 .b32 spilled[2];
            st.local.v2.b32 [spilled], {{%r1, %tid}}; mov.u32 %r1, 0; ld.local.b32 %r1, [spilled+{loaded}]; {STORE}"
        )
    };
    text(&spilled("0"), SHORT, ["shfl.sync.down", "st.global"]);
    clean(&spilled("4"), SHORT);
}

#[test]
fn a_value_that_is_not_used_is_no_error() {
    let shuffle = "shfl.sync.down.b32 %r1|%p3, %tid, 1, 31, -1;";
    text(&format!("{shuffle} {STORE}"), SHORT, ["shfl.sync.down", "st.global"]);
    // Only where the source lane takes part, by a branch, a guard, or a selection.
    clean(&format!("{shuffle} @%p3 {STORE}"), SHORT);
    clean(&format!("{shuffle} @!%p3 bra $past; {STORE} $past:"), SHORT);
    clean(&format!("{shuffle} selp.u32 %r1, %r1, %tid, %p3; {STORE}"), SHORT);
    clean(&format!("{shuffle} selp.u32 %r1, %r1, 7, %p3; {STORE}"), SHORT);
    clean(&format!("{shuffle} @!%p3 mov.u32 %r1, 0; {STORE}"), SHORT);
    clean(&format!("{shuffle} mov.u32 %r1, %tid; {STORE}"), SHORT);
}
