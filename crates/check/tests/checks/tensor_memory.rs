//! Rows 6, 19, 21, 22 and 24 of the catalog: tensor memory.

use warpwright_check::FindingKind::{Fault, InFlight, Leak, ProxyFence, TensorFence, Uninitialized};

use warpwright_emulator::{FaultKind, Schedule};

use crate::checks::harness::{Grid, clean, found, run_at};

const FOUR_WARPS: Grid = Grid { ctas: 1, threads: 128, cluster: 1 };

fn body(parts: &[&str]) -> String {
    format!("//sm_100a\n{}", parts.join("\n"))
}

/// Warp 0 gets 64 columns, whose address all have in `%r1`; `%r2` is that of the warp's rows, `%r8`
/// an mbarrier for one arrival, with another one 16 bytes after it.
const ALLOCATE: &str = "
    mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0; setp.lt.u32 %p2, %tid, 32; add.u32 %r9, %r8, 8;
    @%p1 mbarrier.init.shared.b64 [%r8], 1; @%p1 mbarrier.init.shared.b64 [%r8+16], 1;
    @!%p2 bra allocated; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 64; allocated:
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r1, [%r9]; shl.b32 %r2, %warp, 21; add.u32 %r2, %r2, %r1;";
const FREE: &str =
    "bar.sync 0; @!%p2 bra freed; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64; freed:";
/// Zeros in the shared memory that a multiply reads, and descriptors of it.
const FILL: &str = "
    mov.u32 %r3, 0; mov.u32 %r4, %own;
    fill: st.shared.u32 [%r4], %r3; add.u32 %r4, %r4, 512; setp.lt.u32 %p3, %r4, 4096; @%p3 bra fill;
    shr.u32 %r4, %tile, 4; cvt.u64.u32 %rd1, %r4; or.b64 %rd1, %rd1, 0x0000400800400000;";
const PROXY: &str = "fence.proxy.async;";
const SYNC: &str = "bar.sync 0;";
const BEFORE: &str = "tcgen05.fence::before_thread_sync;";
const AFTER: &str = "tcgen05.fence::after_thread_sync;";
/// Rows 64, columns 16, bf16 into f32; the product replaces what is there, or is added to it.
const MULTIPLY: &str =
    "setp.eq.u32 %p4, 0, 1; @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, 0x4040490, %p4;";
const ADD: &str = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, 0x4040490, %p1;";
const COMMIT: &str = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];";
const WAIT: &str = "wait: mbarrier.try_wait.parity.shared.b64 %p5, [%r8], 0; @!%p5 bra wait;";
/// The same with another mbarrier.
const COMMIT_AGAIN: &str =
    "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8+16];";
const WAIT_AGAIN: &str = "again: mbarrier.try_wait.parity.shared.b64 %p5, [%r8+16], 0; @!%p5 bra again;";
const LOAD: &str = "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r5}, [%r2];";
const LOADED: &str = "tcgen05.wait::ld.sync.aligned;";
const STORE: &str = "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r2], {%r3};";
const STORED: &str = "tcgen05.wait::st.sync.aligned;";
const USE: &str = "st.global.u32 [%mine], %r5;";

/// A whole kernel around a part, with a product in tensor memory at its start.
fn product(parts: &[&str]) -> String {
    let start = [ALLOCATE, FILL, PROXY, SYNC, MULTIPLY, COMMIT];
    body(&[&start[..], parts, &[FREE]].concat())
}

#[test]
fn a_product_is_read_after_its_commit_and_a_fence() {
    clean(&product(&[WAIT, AFTER, LOAD, LOADED, USE]), FOUR_WARPS);
    let places = ["tcgen05.ld", "tcgen05.mma"];
    found(&product(&[WAIT, LOAD, LOADED, USE]), FOUR_WARPS, TensorFence, places);
    found(&product(&[AFTER, LOAD, LOADED, USE, WAIT]), FOUR_WARPS, InFlight, places);
    found(&product(&[SYNC, AFTER, LOAD, LOADED, USE, WAIT]), FOUR_WARPS, InFlight, places);
}

#[test]
fn a_loaded_register_is_used_after_its_wait() {
    found(&product(&[WAIT, AFTER, LOAD, USE, LOADED]), FOUR_WARPS, InFlight, ["st.global", "tcgen05.ld"]);
    found(
        &product(&[WAIT, AFTER, LOAD, "mov.u32 %r5, 0;", LOADED]),
        FOUR_WARPS,
        InFlight,
        ["mov", "tcgen05.ld"],
    );
    found(
        &product(&[WAIT, AFTER, LOAD, SYNC, USE, LOADED]),
        FOUR_WARPS,
        InFlight,
        ["st.global", "tcgen05.ld"],
    );
}

#[test]
fn multiplies_of_one_thread_keep_their_order() {
    clean(&product(&[ADD, ADD, COMMIT_AGAIN, WAIT_AGAIN, AFTER, LOAD, LOADED, USE]), FOUR_WARPS);
}

#[test]
fn cells_are_read_before_they_are_written_again() {
    let read = [WAIT, AFTER, LOAD, LOADED, BEFORE, SYNC];
    let again = [MULTIPLY, COMMIT_AGAIN, WAIT_AGAIN];
    clean(&product(&[&read[..], &[AFTER], &again].concat()), FOUR_WARPS);
    let places = ["tcgen05.mma", "tcgen05.ld"];
    found(&product(&[&read[..], &again].concat()), FOUR_WARPS, TensorFence, places);
    // The first warp comes first: it issues the multiply before the others read.
    let unmet = [&[WAIT, AFTER, LOAD, LOADED], &again[..]].concat();
    found(&product(&unmet), FOUR_WARPS, InFlight, ["tcgen05.ld", "tcgen05.mma"]);
    let unloaded = [WAIT, AFTER, LOAD, BEFORE, SYNC, AFTER];
    found(&product(&[&unloaded[..], &again, &[LOADED]].concat()), FOUR_WARPS, InFlight, places);
}

#[test]
fn stores_are_waited_for() {
    let added = [BEFORE, SYNC, AFTER, ADD, COMMIT_AGAIN, WAIT_AGAIN];
    let stored = [WAIT, AFTER, STORE, STORED];
    clean(&product(&[&stored[..], &added].concat()), FOUR_WARPS);
    let places = ["tcgen05.mma", "tcgen05.st"];
    found(&product(&[&stored[..3], &added, &[STORED]].concat()), FOUR_WARPS, InFlight, places);
    clean(&product(&[WAIT, AFTER, STORE, STORED, LOAD, LOADED, USE]), FOUR_WARPS);
    found(
        &product(&[WAIT, AFTER, STORE, LOAD, LOADED, STORED]),
        FOUR_WARPS,
        InFlight,
        ["tcgen05.ld", "tcgen05.st"],
    );
}

#[test]
fn operands_are_written_through_a_fence_and_kept_until_the_commit() {
    let start =
        |fence: &[&str]| body(&[&[ALLOCATE, FILL], fence, &[SYNC, MULTIPLY, COMMIT, WAIT, FREE]].concat());
    clean(&start(&[PROXY]), FOUR_WARPS);
    found(&start(&[]), FOUR_WARPS, ProxyFence, ["tcgen05.mma", "st.shared"]);
    let write = "st.shared.u32 [%own], %tid;";
    found(&product(&[write, WAIT]), FOUR_WARPS, InFlight, ["st.shared", "tcgen05.mma"]);
    clean(&product(&[WAIT, write]), FOUR_WARPS);
}

#[test]
fn columns_hold_nothing_at_first() {
    let whole = |parts: &[&str]| body(&[&[ALLOCATE], parts, &[FREE]].concat());
    found(&whole(&[LOAD, LOADED]), FOUR_WARPS, Uninitialized, ["tcgen05.ld"]);
    let add = [FILL, PROXY, SYNC, ADD, COMMIT, WAIT];
    found(&whole(&add), FOUR_WARPS, Uninitialized, ["tcgen05.mma"]);
    clean(&whole(&[STORE, STORED, LOAD, LOADED]), FOUR_WARPS);
}

/// The product takes 16 of the 64 columns, and a load of 2 of them is of as many rows as it has.
#[test]
fn loads_reach_only_columns_that_are_written() {
    let wide = "tcgen05.ld.sync.aligned.16x64b.x16.b32
        {%r3, %r4, %r5, %r6, %r7, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %lane, %own, %next, %cta}, [%r2];";
    let finding = found(&product(&[WAIT, AFTER, wide, LOADED]), FOUR_WARPS, Uninitialized, ["tcgen05.ld"]);
    assert!(finding.message.contains("nothing has written 1024 of them"), "{finding}");
}

#[test]
fn each_operand_of_an_mma_is_written() {
    let whole =
        |parts: &[&str]| body(&[&[ALLOCATE, FILL, PROXY, SYNC], parts, &[COMMIT, WAIT, FREE]].concat());
    clean(&whole(&[MULTIPLY]), FOUR_WARPS);
    // B in the second half of the tile, which nothing has written.
    let elsewhere = "add.u64 %rd2, %rd1, 128;";
    let finding = found(
        &whole(&[elsewhere, &MULTIPLY.replace("%rd1, %rd1", "%rd1, %rd2")])
            .replace(FILL, &FILL.replace("4096", "2048")),
        FOUR_WARPS,
        Uninitialized,
        ["tcgen05.mma"],
    );
    assert!(finding.message.starts_with("an MMA reads B"), "{finding}");
    // A in the last columns of tensor memory.
    let cells = MULTIPLY.replace("[%r1], %rd1", "[%r1], [%r1+32]");
    let finding = found(&whole(&[&cells]), FOUR_WARPS, Uninitialized, ["tcgen05.mma"]);
    assert!(finding.message.starts_with("an MMA reads A"), "{finding}");
}

#[test]
fn columns_are_given_back_when_all_are_done() {
    let parts = [ALLOCATE, FILL, PROXY, SYNC, MULTIPLY, COMMIT, WAIT, AFTER, LOAD, LOADED];
    let finding = found(&body(&parts), FOUR_WARPS, Leak, ["tcgen05.alloc"]);
    assert!(finding.message.contains("64 tensor-memory columns"), "{finding}");
    let early = "@!%p2 bra freed; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64; freed:";
    let late = [&parts[..7], &[early]].concat();
    clean(&body(&late), FOUR_WARPS);
    let unwaited = [&parts[..6], &[early, WAIT]].concat();
    found(&body(&unwaited), FOUR_WARPS, InFlight, ["tcgen05.dealloc", "tcgen05.mma"]);
    let uncommitted = [ALLOCATE, FILL, PROXY, SYNC, MULTIPLY];
    found(&body(&uncommitted), FOUR_WARPS, Leak, ["tcgen05.mma"]);
}

/// Eight columns, which every part of [`USERS`] reads or writes.
const STORE_EIGHT: &str =
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r2+32], {%r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3};";
/// Work of the tensor core that uses these columns: scales, metadata of a sparse A, A, D of an MMA whose
/// B is stationary, cells that are shifted, cells that are copied to.
const USERS: [(&str, &str); 6] = [
    (
        "tcgen05.mma",
        "@%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r1], %rd1, %rd1, 0x8840000, [%r1+32], [%r1+36], %p4;",
    ),
    (
        "tcgen05.mma",
        "@%p1 tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd1, [%r1+32], 0x8040494, %p4;",
    ),
    ("tcgen05.mma", "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r1+32], %rd1, 0x8040490, %p4;"),
    ("tcgen05.mma", "@%p1 tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd1, 0x8100490, %p4;"),
    ("tcgen05.shift", "@%p1 tcgen05.shift.cta_group::1.down [%r1+32];"),
    ("tcgen05.cp", "@%p1 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r1+32], %rd1;"),
];

#[test]
fn cells_are_kept_until_the_commit_of_their_user() {
    for (name, user) in USERS {
        let columns = "setp.eq.u32 %p4, 0, 1;";
        let start = [ALLOCATE, FILL, PROXY, STORE_EIGHT, STORED, BEFORE, SYNC, AFTER, columns, user, COMMIT];
        let whole = |parts: &[&str]| body(&[&start[..], parts, &[FREE]].concat());
        clean(&whole(&[WAIT, AFTER, STORE_EIGHT, STORED, BEFORE]), FOUR_WARPS);
        let places = ["tcgen05.st", name];
        found(&whole(&[BEFORE, SYNC, AFTER, STORE_EIGHT, STORED, WAIT]), FOUR_WARPS, InFlight, places);
        found(&whole(&[WAIT, STORE_EIGHT, STORED]), FOUR_WARPS, TensorFence, places);
    }
}

/// What `tcgen05.cp` reads, such as scales in a stage, is kept until its commit.
#[test]
fn copied_scales_are_kept_until_the_commit() {
    let (_, copy) = USERS[5];
    let start = [ALLOCATE, FILL, PROXY, SYNC, copy, COMMIT];
    let whole = |parts: &[&str]| body(&[&start[..], parts, &[FREE]].concat());
    let write = "st.shared.u32 [%own], %tid;";
    clean(&whole(&[WAIT, write]), FOUR_WARPS);
    found(&whole(&[write, WAIT]), FOUR_WARPS, InFlight, ["st.shared", "tcgen05.cp"]);
}

/// All rows of the first sixteen columns.
const WRITE_ALL: &str = "mov.u32 %r3, 0; tcgen05.st.sync.aligned.32x32b.x16.b32
    [%r2], {%r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3};";

/// The registers of a load in each shape, and the cells of a store.
#[test]
fn every_shape_is_waited_for() {
    let shapes = [
        ("32x32b.x2", "{%r5, %r6}", ""),
        ("16x64b.x2", "{%r5, %r6}", ""),
        ("16x128b.x1", "{%r5, %r6}", ""),
        ("16x256b.x1", "{%r5, %r6, %r7, %r9}", ""),
        ("16x32bx2.x2", "{%r5, %r6}", ", 4"),
    ];
    let use_last = |registers: &str| {
        let last = registers.rsplit(' ').next().expect("registers").trim_end_matches('}');
        format!("st.global.u32 [%mine], {last};")
    };
    let add = [BEFORE, SYNC, AFTER, ADD, COMMIT_AGAIN, WAIT_AGAIN];
    for (shape, registers, apart) in shapes {
        for (pack, unpack) in [("", ""), (".pack::16b", ".unpack::16b")] {
            let load = format!("tcgen05.ld.sync.aligned.{shape}{pack}.b32 {registers}, [%r2]{apart};");
            let used = use_last(registers);
            let whole =
                |parts: [&str; 3]| body(&[&[ALLOCATE, WRITE_ALL, STORED], &parts[..], &[FREE]].concat());
            clean(&whole([&load, LOADED, &used]), FOUR_WARPS);
            let places = ["st.global", "tcgen05.ld"];
            found(&whole([&load, &used, LOADED]), FOUR_WARPS, InFlight, places);
            let zeros = "mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r9, 0;";
            let store = format!("tcgen05.st.sync.aligned.{shape}{unpack}.b32 [%r2]{apart}, {registers};");
            let stored = [WAIT, AFTER, zeros, &store, STORED];
            clean(&product(&[&stored[..], &add].concat()), FOUR_WARPS);
            let places = ["tcgen05.mma", "tcgen05.st"];
            found(&product(&[&stored[..4], &add, &[STORED]].concat()), FOUR_WARPS, InFlight, places);
        }
    }
}

/// The reduced register, too (sm_103a).
#[test]
fn a_reduced_load_is_waited_for() {
    let load = "tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {%r5, %r6}, %r7, [%r2];";
    let used = "st.global.u32 [%mine], %r7;";
    let whole = |parts: [&str; 3]| {
        body(&[&[ALLOCATE, WRITE_ALL, STORED], &parts[..], &[FREE]].concat())
            .replace("//sm_100a", "//sm_103a")
    };
    clean(&whole([load, LOADED, used]), FOUR_WARPS);
    found(&whole([load, used, LOADED]), FOUR_WARPS, InFlight, ["st.global", "tcgen05.ld"]);
}

/// Of each 16 bytes of A and B, eight are elements of 4 bits and the rest padding.
#[test]
fn padding_of_small_elements_need_not_be_written() {
    let half = FILL.replace(
        "fill: st.shared",
        "and.b32 %r4, %tid, 2; setp.eq.u32 %p6, %r4, 0; mov.u32 %r4, %own; fill: @%p6 st.shared",
    );
    let whole = |multiply: &str| body(&[ALLOCATE, &half, PROXY, SYNC, multiply, COMMIT, WAIT, FREE]);
    let small = MULTIPLY.replace("f16", "f8f6f4").replace("0x4040490", "0x4041690");
    clean(&whole(&small), FOUR_WARPS);
    found(&whole(MULTIPLY), FOUR_WARPS, Uninitialized, ["tcgen05.mma"]);
}

/// A pair multiplies, and waits for it in the first CTA. The second one waits for the first, or ends
/// early.
fn pair(second: &str) -> String {
    let of_pair = |part: &str| {
        part.replace("cta_group::1", "cta_group::2")
            // Shared addresses of the second CTA begin later.
            .replace("setp.lt.u32 %p3, %r4, 4096", "and.b32 %r7, %r4, 0xffff; setp.lt.u32 %p3, %r7, 4096")
            .replace(SYNC, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    };
    let first = "setp.eq.and.u32 %p1, %cta, 0, %p1; setp.ne.u32 %p7, %cta, 0;";
    // 128 rows in both CTAs, and 32 columns.
    let multiply = MULTIPLY.replace("0x4040490", "0x8080490");
    let wait = format!("@%p7 bra over; {WAIT} over:");
    let parts = [ALLOCATE, FILL, PROXY, SYNC, first, &multiply, COMMIT, second, &wait, FREE];
    body(&parts.map(of_pair).each_ref().map(String::as_str))
}

#[test]
fn no_cta_of_a_pair_ends_before_the_other_is_done() {
    let grid = Grid { ctas: 2, threads: 128, cluster: 2 };
    clean(&pair(""), grid);
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(1)] {
        // It may have ended, or has.
        let kinds = match run_at(&pair("@%p7 ret;"), grid, schedule) {
            Ok(findings) => findings.into_iter().map(|finding| finding.kind).collect(),
            Err(fault) => vec![Fault(fault.kind)],
        };
        assert!(kinds.contains(&Fault(FaultKind::PeerNotResident)), "{schedule:?}: {kinds:?}");
    }
}
