//! Row 26 of the catalog: exchanges between lanes that part of a warp executes elsewhere, or not at all.

use warpwright_check::FindingKind::{Divergence, Fault};
use warpwright_emulator::FaultKind::LaneMask;

use crate::checks::harness::{Grid, ONE, clean, found, recorded};

const ONE_WARP: Grid = Grid { threads: 32, ..ONE };
const HALF: &str = "mov.u32 %r1, 0; setp.lt.u32 %p1, %lane, 16; setp.eq.u32 %p2, %lane, 3;";
const STORE: &str = "st.global.u32 [%mine], %r1;";
/// Exchanges of the lanes of a mask.
const EXCHANGES: [&str; 8] = [
    "shfl.sync.bfly.b32 %r1, %tid, 1, 31, MASK;",
    "shfl.sync.up.b32 %r1|%p3, %tid, 0, 0, MASK;",
    "vote.sync.ballot.b32 %r1, %p2, MASK;",
    "vote.sync.any.pred %p3, %p2, MASK; selp.u32 %r1, 1, 0, %p3;",
    "match.any.sync.b32 %r1, %tid, MASK;",
    "match.all.sync.b32 %r1|%p3, %tid, MASK;",
    "redux.sync.add.u32 %r1, %tid, MASK;",
    "elect.sync %r1|%p3, MASK;",
];

fn name(exchange: &str) -> &str {
    exchange.split(' ').next().unwrap()
}

#[test]
fn lanes_that_skip_an_exchange_pair_with_the_next_one() {
    for exchange in EXCHANGES {
        let all = exchange.replace("MASK", "0xffffffff");
        let low = exchange.replace("MASK", "0x0000ffff");
        let name = name(exchange);
        let skipped = |first: &str| format!("{HALF} @!%p1 bra $past; {first} $past: {all} {STORE}");
        let finding = found(&skipped(&all), ONE_WARP, Divergence, [name, name]);
        assert!(finding.message.contains("two different lines"), "{finding}");
        let texts: Vec<&str> = finding.labels.iter().map(|label| label.text.as_str()).collect();
        assert!(texts[0].contains("lanes 16-31") && texts[1].contains("lanes 0-15"), "{finding}");
        clean(&skipped(&low), ONE_WARP);
        let predicated = format!("{HALF} @%p1 {all} {all} {STORE}");
        found(&predicated, ONE_WARP, Divergence, [name, name]);
        // In both branches.
        let both = format!("{HALF} @!%p1 bra $other; {all} bra $end; $other: {all} $end: {STORE}");
        found(&both, ONE_WARP, Divergence, [name, name]);
        clean(&format!("{HALF} {all} {all} {STORE}"), ONE_WARP);
    }
}

#[test]
fn lanes_that_pass_an_exchange_by_are_found() {
    for exchange in EXCHANGES.into_iter().chain(["bar.warp.sync MASK;"]) {
        let all = exchange.replace("MASK", "0xffffffff");
        let branch = format!("{HALF} mov.u32 %r1, 0; @!%p1 bra $past; {all} $past: {STORE}");
        let finding = found(&branch, ONE_WARP, Divergence, [name(exchange), "st.global"]);
        assert!(finding.labels[1].text.contains("lanes 16-31"), "{finding}");
        // As an early return is.
        clean(&format!("{HALF} @!%p1 ret; {all} {STORE}"), ONE_WARP);
        clean(&branch.replace("0xffffffff", "0xffff"), ONE_WARP);
    }
}

/// In the kernel language, a `return` is an instruction of its own.
#[test]
fn lanes_that_pass_an_exchange_by_and_end_are_found() {
    let program = |body: &str| recorded(&format!("{HALF} {body} {STORE} $past:"));
    for exchange in EXCHANGES.into_iter().chain(["bar.warp.sync MASK;", "bar.sync 0;"]) {
        let all = format!("mov.u32 %r1, 0; {}", exchange.replace("MASK", "0xffffffff"));
        let branch = format!("@!%p1 bra $past; {all}");
        let finding = found(&program(&branch), ONE_WARP, Divergence, [name(exchange)]);
        assert!(finding.labels[0].text.contains("lanes 16-31 end without it"), "{finding}");
        clean(&program(&format!("@!%p1 ret; {all}")), ONE_WARP);
        // The code of a compiler.
        clean(&program(&branch).replace("kernel.rs", "kernel.cu"), ONE_WARP);
    }
}

/// Branches that a compiler has duplicated keep their line.
#[test]
fn one_line_that_a_compiler_repeats_is_one_exchange() {
    for exchange in EXCHANGES {
        let all = exchange.replace("MASK", "-1");
        let twice = |second: &str| {
            format!(
                "{HALF} @!%p1 bra $other; .loc 1 5 3
                {all} bra $end; $other: .loc 1 {second}
                {all} $end: {STORE} ret; }} .file 1 \"kernel.cu\" .func rest() {{"
            )
        };
        clean(&twice("5 3"), ONE_WARP);
        found(&twice("6 3"), ONE_WARP, Divergence, [name(exchange); 2]);
        // A function that is inlined at two lines.
        let inlined = twice("5 3, function_name $L__info_string0, inlined_at 1 9 1");
        found(&inlined, ONE_WARP, Divergence, [name(exchange); 2]);
    }
}

#[test]
fn a_function_that_is_called_at_two_lines_exchanges_at_both() {
    let body = |mask: &str| {
        format!(
            "{HALF} mov.u32 %r1, %tid; @!%p1 bra $past; call (%r1), sum, (%tid, {mask});
            $past: call (%r1), sum, (%r1, -1); {STORE} ret; }}
            .func (.reg .b32 y) sum(.reg .b32 x, .reg .b32 mask) {{ redux.sync.add.u32 y, x, mask;"
        )
    };
    found(&body("-1"), ONE_WARP, Divergence, ["call (%r1), sum, (%r1", "call (%r1), sum, (%tid"]);
    clean(&body("0xffff"), ONE_WARP);
}

#[test]
fn lanes_may_synchronize_in_both_branches_and_not_in_one() {
    let sync = "bar.warp.sync 0xffffffff;";
    clean(&format!("{HALF} @!%p1 bra $other; {sync} bra $end; $other: {sync} $end: {STORE}"), ONE_WARP);
    let skipped = format!("{HALF} mov.u32 %r1, 0; @!%p1 bra $past; {sync} $past: {sync} {STORE}");
    let finding = found(&skipped, ONE_WARP, Divergence, ["bar.warp.sync", "bar.warp.sync"]);
    assert!(finding.labels[0].text.contains("lanes 16-31"), "{finding}");
    // Halves that take turns.
    let turns = format!(
        "mov.u32 %r1, 0; shr.u32 %r2, %lane, 4;
        $again: xor.b32 %r3, %r1, %r2; and.b32 %r3, %r3, 1; setp.eq.u32 %p1, %r3, 0; @!%p1 bra $other;
        {sync} bra $next; $other: {sync}
        $next: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 5; @%p2 bra $again; {STORE}"
    );
    clean(&turns, ONE_WARP);
}

#[test]
fn lanes_of_one_exchange_have_one_mask() {
    for exchange in EXCHANGES.into_iter().chain(["bar.warp.sync MASK;"]) {
        let body = |high: &str, low: &str| {
            format!("{HALF} selp.u32 %r2, {low}, {high}, %p1; {} {STORE}", exchange.replace("MASK", "%r2"))
        };
        let low = "mov.u32 %r1, 0;";
        let finding = found(
            &format!("{low} {}", body("0xffff0000", "-1")),
            ONE_WARP,
            Fault(LaneMask),
            [name(exchange)],
        );
        assert!(finding.labels[0].text.contains("by warp 0, lanes 0-15"), "{finding}");
        clean(&format!("{low} {}", body("0xffff0000", "0xffff")), ONE_WARP);
    }
}

/// Lanes that a loop holds up reach the exchange later.
#[test]
fn lanes_may_reach_an_exchange_one_after_another() {
    for exchange in EXCHANGES {
        let body = format!(
            "{HALF} mov.u32 %r3, 0;
            $again: add.u32 %r3, %r3, 1; ld.volatile.global.u32 %r2, [%buffer];
            mul.lo.u32 %r4, %lane, 20; setp.lt.u32 %p4, %r3, %r4; @%p4 bra $again;
            {} st.global.u32 [%mine+64], %r1;",
            exchange.replace("MASK", "-1")
        );
        clean(&body, ONE_WARP);
    }
}
