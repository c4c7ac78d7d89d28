//! Row 24 of the catalog: what becomes of values that nothing has written.
//!
//! Where a body loads `%r1` from memory, the place also loads written elements, so that the load itself is no
//! finding.

use warpwright_check::FindingKind::Uninitialized;

use crate::checks::harness::{Grid, ONE, clean, found, recorded};

const ONE_WARP: Grid = Grid { threads: 32, ..ONE };

/// Lanes 0 to 15 write their element, and all lanes load theirs.
fn half(uses: &str) -> String {
    format!(
        "setp.lt.u32 %p1, %lane, 16; @%p1 st.shared.u32 [%own], %lane; bar.warp.sync -1;
        ld.shared.u32 %r1, [%own]; {uses}"
    )
}

/// The same in local memory, whose second element is written, by a loop of two rounds.
fn local(uses: &str) -> String {
    format!(
        ".local .align 4 .b32 kept[2]; st.local.u32 [kept+4], %lane; mov.u32 %r5, 4; mov.u32 %r6, kept;
        $again: add.u32 %r7, %r6, %r5; ld.local.u32 %r1, [%r7]; sub.u32 %r5, %r5, 4;
        setp.eq.u32 %p2, %r5, 0; @%p2 bra $again; {uses}"
    )
}

const STORE: &str = "st.global.u32 [%mine], 1;";

/// Uses of `%r1`, and the instruction that is named as the use.
const USES: [(&str, &str); 20] = [
    ("st.global.u32 [%mine], %r1;", "st.global"),
    ("add.u32 %r2, %r1, 1; st.global.u32 [%mine], %r2;", "st.global"),
    ("setp.gt.u32 %p2, %r1, 5; @%p2 bra $past; st.global.u32 [%mine], 1; $past:", "bra"),
    ("setp.gt.u32 %p2, %r1, 5; @%p2 st.global.u32 [%mine], 1;", "st.global"),
    ("setp.gt.u32 %p2, %r1, 5; @!%p2 st.global.u32 [%mine], 1;", "st.global"),
    ("setp.gt.u32 %p2, %r1, 5; selp.u32 %r2, 3, 4, %p2; st.global.u32 [%mine], %r2;", "st.global"),
    (
        "setp.gt.u32 %p2, %r1, 5; mov.u32 %r2, 3; @%p2 mov.u32 %r2, 4; st.global.u32 [%mine], %r2;",
        "st.global",
    ),
    ("setp.gt.u32 %p2|%p3, %r1, 5; @%p3 st.global.u32 [%mine], 1;", "st.global"),
    ("set.gt.u32.u32 %r2, %r1, 5; st.global.u32 [%mine], %r2;", "st.global"),
    ("slct.u32.s32 %r2, 3, 4, %r1; st.global.u32 [%mine], %r2;", "st.global"),
    ("setp.gt.u32 %p2, %r1, 5; not.pred %p3, %p2; @%p3 st.global.u32 [%mine], 1;", "st.global"),
    (
        "setp.gt.u32 %p2, %r1, 5; setp.lt.u32 %p3, %lane, 17; and.pred %p4, %p2, %p3; @%p4 st.global.u32 [%mine], 1;",
        "st.global",
    ),
    (
        "setp.gt.u32 %p2, %r1, 5; setp.lt.or.u32 %p3, %lane, 15, %p2; @%p3 st.global.u32 [%mine], 1;",
        "st.global",
    ),
    (
        "setp.lt.u32 %p2, %lane, 17; setp.gt.and.u32 %p3, %r1, 5, %p2; @%p3 st.global.u32 [%mine], 1;",
        "st.global",
    ),
    (
        "setp.gt.u32 %p2, %r1, 5; vote.sync.any.pred %p3, %p2, -1; @%p3 bra $past; st.global.u32 [%mine], 1; $past:",
        "bra",
    ),
    ("setp.gt.u32 %p2, %r1, 5; vote.sync.ballot.b32 %r2, %p2, -1; st.global.u32 [%mine], %r2;", "st.global"),
    ("redux.sync.max.u32 %r2, %r1, -1; st.global.u32 [%mine], %r2;", "st.global"),
    (
        "cvt.u64.u32 %rd1, %r1; and.b64 %rd1, %rd1, 60; add.u64 %rd1, %buffer, %rd1; red.global.add.u32 [%rd1], 1;",
        "red.global",
    ),
    (
        "shl.b32 %r2, %r1, 2; and.b32 %r2, %r2, 60; add.u32 %r2, %r2, %tile; ld.shared.u32 %r3, [%r2];",
        "ld.shared.u32 %r3",
    ),
    ("setp.gt.u32 %p2, %r1, 5; @%p2 ret;", "ret"),
];

/// Uses in the lanes, or of the results, that do not depend on `%r1`.
const NO_USES: [&str; 12] = [
    "",
    "st.shared.u32 [%own+256], %r1;",
    "add.u32 %r2, %r1, 1; setp.gt.u32 %p2, %r2, 5; selp.u32 %r3, 1, 2, %p2;",
    "@%p1 st.global.u32 [%mine], %r1;",
    "setp.gt.u32 %p2, %r1, 5; and.pred %p3, %p2, %p1; @%p3 st.global.u32 [%mine], 1;",
    "setp.gt.u32 %p2, %r1, 5; and.pred %p3, %p1, %p2; @%p3 bra $past; st.global.u32 [%mine], 1; $past:",
    "setp.gt.u32 %p2, %r1, 5; or.pred %p3, %p2, !%p1; @%p3 st.global.u32 [%mine], 1;",
    "setp.gt.and.u32 %p3, %r1, 5, %p1; @%p3 st.global.u32 [%mine], 1;",
    "setp.gt.or.u32 %p3, %r1, 5, !%p1; @%p3 st.global.u32 [%mine], 1;",
    "setp.gt.u32 %p2, %r1, 5; and.pred %p3, %p2, %p1; vote.sync.any.pred %p4, %p3, -1; @%p4 st.global.u32 [%mine], 1;",
    "selp.u32 %r2, %r1, %tid, %p1; st.global.u32 [%mine], %r2;",
    "setp.gt.u32 %p2, %r1, 5; @!%p1 setp.ge.u32 %p2, %lane, 40; @%p2 st.global.u32 [%mine], 1;",
];

#[test]
fn an_unwritten_value_is_found_where_it_decides_or_leaves_the_cta() {
    for (uses, place) in USES {
        let finding = found(&half(uses), ONE_WARP, Uninitialized, ["ld.shared.u32 %r1", place]);
        assert!(finding.labels[1].text.contains("its value"), "{finding}");
    }
}

#[test]
fn an_unwritten_value_that_decides_nothing_is_no_error() {
    NO_USES.iter().for_each(|uses| clean(&half(uses), ONE_WARP));
}

#[test]
fn an_unwritten_value_of_local_memory_is_followed_as_well() {
    clean(&local(STORE), ONE_WARP);
    for uses in ["st.global.u32 [%mine], %r1;", "setp.gt.u32 %p3, %r1, 5; @%p3 st.global.u32 [%mine], 1;"] {
        found(&local(uses), ONE_WARP, Uninitialized, ["ld.local.u32 %r1", "st.global"]);
    }
}

#[test]
fn a_register_that_nothing_has_written_is_found_where_it_is_used() {
    let start = "setp.lt.u32 %p1, %lane, 16; st.shared.u32 [%own], %lane; bar.warp.sync -1;";
    for (uses, place) in USES {
        let finding = found(&recorded(&format!("{start} {uses}")), ONE_WARP, Uninitialized, [place]);
        assert!(finding.message.contains("register"), "{finding}");
        // In half of the lanes, by a guard or by a branch.
        let set = ["@%p1 mov.u32 %r1, %lane;", "@!%p1 bra $set; mov.u32 %r1, %lane; $set:"];
        for set in set {
            found(&recorded(&format!("{start} {set} {uses}")), ONE_WARP, Uninitialized, [place]);
        }
        clean(&recorded(&format!("{start} mov.u32 %r1, %lane; {uses}")), ONE_WARP);
    }
    let copies = |uses: &&&str| uses.starts_with("st.shared");
    for uses in NO_USES.iter().filter(|uses| !copies(uses)) {
        clean(&recorded(&format!("{start} @%p1 mov.u32 %r1, %lane; {uses}")), ONE_WARP);
    }
}

#[test]
fn accumulators_that_nothing_has_written_are_found() {
    let product = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r4, %r4}, {%r4}, {%f1, %f2, %f3, %f4};";
    let set = "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1;";
    let body = |set: &str| recorded(&format!("mov.u32 %r4, 0; {set} {product} st.global.f32 [%mine], %f1;"));
    found(&body(""), ONE_WARP, Uninitialized, ["mma.sync"]);
    found(&body(set), ONE_WARP, Uninitialized, ["mma.sync"]);
    clean(&body(&format!("{set} mov.f32 %f4, %f1;")), ONE_WARP);
}

/// Rows 0 to 3 of 8 by 8 elements of 16 bits are written; `ldmatrix` loads all of them to `%r1`.
fn matrix(transposed: &str, uses: &str) -> String {
    format!(
        "setp.lt.u32 %p1, %lane, 16; @%p1 st.shared.u32 [%own], 0; bar.warp.sync -1; mov.u32 %r4, 0;
        mov.f32 %f5, 0f00000000; and.b32 %r2, %lane, 3; setp.lt.u32 %p2, %r2, 2;
        and.b32 %r2, %lane, 7; shl.b32 %r2, %r2, 4; add.u32 %r2, %r2, %tile;
        ldmatrix.sync.aligned.m8n8.x1{transposed}.shared.b16 {{%r1}}, [%r2]; {uses}"
    )
}

/// PTX ISA, "Matrix Fragments for mma.m16n8k8": lanes 4 i to 4 i + 3 have rows i and i + 8, and columns by twos.
#[test]
fn unwritten_rows_of_a_matrix_are_followed_through_products() {
    let product = |a, b, c| {
        format!(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{{a}, {a}}}, {{{b}}}, {{{c}, {c}, {c}, {c}}};"
        )
    };
    let of_a = product("%r1", "%r4", "%f5");
    let of_b = product("%r4", "%r1", "%f5");
    let twice = format!("{of_a} {}", product("%r4", "%r4", "%f4"));
    // The lanes whose results are of rows 0 to 3 or of columns 0 to 3.
    let cases = [
        ("", "", "%r1", "%p1"),
        (".trans", "", "%r1", "%p2"),
        ("", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r1;", "%r1", "%p2"),
        ("", &of_a, "%f1", "%p1"),
        ("", &of_a, "%f4", "%p1"),
        ("", &of_b, "%f1", "%p2"),
        ("", &of_b, "%f4", "%p2"),
        ("", &twice, "%f2", "%p1"),
    ];
    for (transposed, uses, result, defined) in cases {
        let store = format!("st.global.b32 [%mine], {result};");
        clean(&matrix(transposed, uses), ONE_WARP);
        clean(&matrix(transposed, &format!("{uses} @{defined} {store}")), ONE_WARP);
        let body = matrix(transposed, &format!("{uses} @!{defined} {store}"));
        found(&body, ONE_WARP, Uninitialized, ["ldmatrix", "st.global"]);
    }
}

/// What a thread does with `%r1`, by way of shared memory from `%own+256` on, and the instruction that uses the
/// value.
const THROUGH_SHARED: [(&str, &str); 9] = [
    ("st.shared.u32 [%own+256], %r1; ld.shared.u32 %r2, [%own+256]; st.global.u32 [%mine], %r2;", "st.global"),
    // Another thread reads it.
    (
        "st.shared.u32 [%own+256], %r1; bar.warp.sync -1; ld.shared.u32 %r2, [%other+256]; st.global.u32 [%mine], %r2;",
        "st.global",
    ),
    (
        "st.shared.u32 [%own+256], %r1; bar.warp.sync -1; ld.shared.u32 %r2, [%other+256]; setp.eq.u32 %p2, %r2, 3; @%p2 bra $past; $past:",
        "bra",
    ),
    (
        "add.u32 %r2, %r1, 1; st.shared.u32 [%own+256], %r2; ld.shared.u32 %r3, [%own+256]; st.global.u32 [%mine], %r3;",
        "st.global",
    ),
    (
        "shl.b32 %r2, %lane, 3; add.u32 %r2, %r2, %tile; st.shared.v2.u32 [%r2+256], {%tid, %r1};
        ld.shared.u32 %r3, [%r2+260]; st.global.u32 [%mine], %r3;",
        "st.global",
    ),
    (
        "st.shared.u32 [%own+256], %r1; bar.warp.sync -1; and.b32 %r2, %lane, 24; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %tile;
        ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2+256]; st.global.u32 [%mine], %r6;",
        "st.global",
    ),
    (
        "st.shared.u32 [%own+256], %r1; atom.shared.add.u32 %r2, [%own+256], 1; st.global.u32 [%mine], %r2;",
        "st.global",
    ),
    (
        "mov.u32 %r2, 0; st.shared.u32 [%own+256], %r2; red.shared.add.u32 [%own+256], %r1; ld.shared.u32 %r3, [%own+256];
        st.global.u32 [%mine], %r3;",
        "st.global",
    ),
    (
        "shl.b32 %r2, %lane, 4; add.u32 %r2, %r2, %tile; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2+512], {%r1};
        bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r3}, [%r2+512];
        movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r3; st.global.u32 [%mine], %r4;",
        "st.global",
    ),
];

const UNUSED_IN_SHARED: [&str; 6] = [
    "st.shared.u32 [%own+256], %r1; ld.shared.u32 %r2, [%own+256]; add.u32 %r2, %r2, 1;",
    // In the lanes that do not use it, or as the defined element of a vector.
    "st.shared.u32 [%own+256], %r1; ld.shared.u32 %r2, [%own+256]; @%p1 st.global.u32 [%mine], %r2;",
    "shl.b32 %r2, %lane, 3; add.u32 %r2, %r2, %tile; st.shared.v2.u32 [%r2+256], {%tid, %r1};
    ld.shared.v2.u32 {%r3, %r4}, [%r2+256]; st.global.u32 [%mine], %r3;",
    // Overwritten, by this thread and by another.
    "st.shared.u32 [%own+256], %r1; st.shared.u32 [%own+256], %lane; ld.shared.u32 %r2, [%own+256]; st.global.u32 [%mine], %r2;",
    "st.shared.u32 [%own+256], %r1; bar.warp.sync -1; st.shared.u32 [%other+256], %lane; ld.shared.u32 %r2, [%other+256];
    st.global.u32 [%mine], %r2;",
    "shl.b32 %r2, %lane, 4; add.u32 %r2, %r2, %tile; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2+512], {%r1};
    bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2+512]; @%p1 st.global.u32 [%mine], %r3;",
];

#[test]
fn an_unwritten_value_is_followed_through_shared_memory() {
    let body = |uses: &str| half(&format!(".reg .b32 %other; xor.b32 %other, %own, 4; {uses}"));
    for (uses, place) in THROUGH_SHARED {
        let finding = found(&body(uses), ONE_WARP, Uninitialized, ["ld.shared.u32 %r1", place]);
        assert!(finding.labels[1].text.contains("its value"), "{finding}");
    }
    UNUSED_IN_SHARED.iter().for_each(|uses| clean(&body(uses), ONE_WARP));
}

#[test]
fn an_unwritten_element_of_a_vector_is_found_where_it_is_used() {
    let shared = |uses: &str| {
        format!(
            "shl.b32 %r9, %lane, 3; add.u32 %r9, %r9, %tile; st.shared.u32 [%r9], %lane;
            ld.shared.v2.u32 {{%r1, %r2}}, [%r9]; {uses}"
        )
    };
    // The first half of each pair behind the zeros is written.
    let global = |uses: &str| {
        format!(
            "mul.wide.u32 %rd1, %lane, 8; add.u64 %rd1, %rd1, %buffer; add.u64 %rd1, %rd1, 65536; st.global.u32 [%rd1], %lane;
            ld.global.v2.u32 {{%r1, %r2}}, [%rd1]; {uses}"
        )
    };
    for (body, load) in [(shared as fn(&str) -> String, "ld.shared.v2"), (global, "ld.global.v2")] {
        clean(&body("st.global.u32 [%mine], %r1;"), ONE_WARP);
        clean(&body("st.shared.u32 [%own+512], %r2;"), ONE_WARP);
        found(&body("st.global.u32 [%mine], %r2;"), ONE_WARP, Uninitialized, [load, "st.global"]);
        let through =
            "st.shared.u32 [%own+512], %r2; ld.shared.u32 %r3, [%own+512]; st.global.u32 [%mine], %r3;";
        found(&body(through), ONE_WARP, Uninitialized, [load, "st.global"]);
    }
}
