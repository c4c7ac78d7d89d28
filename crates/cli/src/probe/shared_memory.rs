//! Shared memory, barriers, mbarriers and fences.

use warpwright_arch::instructions::Class;

use super::steps::{Inputs, Quantity, Steps};

const SHARED: &str = "shared memory";
const SYNCHRONIZATION: &str = "synchronization";

/// Bytes of shared memory: 16 for each of 1024 threads.
const SHARED_BYTES: u32 = 16 << 10;

/// A name, a class, whether the next step uses its result, bytes from one thread's address to the next,
/// and the step. `$0` is the address, where the address is stored.
type SharedRow = (&'static str, Class, bool, u32, &'static str);

const SHARED_STEPS: &[SharedRow] = &[
    ("ld.shared.b32", Class::Load, true, 4, "ld.volatile.shared.b32 $0, [$0];"),
    ("ld.shared.v2.b32", Class::Load, true, 8, "ld.volatile.shared.v2.b32 {$0, $1}, [$0];"),
    ("ld.shared.v4.b32", Class::Load, true, 16, "ld.volatile.shared.v4.b32 {$0, $1, $2, $3}, [$0];"),
    ("st.shared.b32", Class::Store, false, 4, "st.volatile.shared.b32 [$0], $1;"),
    ("st.shared.v2.b32", Class::Store, false, 8, "st.volatile.shared.v2.b32 [$0], {$1, $2};"),
    ("st.shared.v4.b32", Class::Store, false, 16, "st.volatile.shared.v4.b32 [$0], {$1, $2, $3, $1};"),
    (
        "st.shared.b32 ld.shared.b32",
        Class::Load,
        true,
        4,
        "st.volatile.shared.b32 [$0], $0; ld.volatile.shared.b32 $0, [$0];",
    ),
    ("atom.shared.add.u32", Class::Atomic, true, 4, "atom.shared.add.u32 $1, [$0], $1;"),
    ("atom.shared.exch.b32", Class::Atomic, true, 4, "atom.shared.exch.b32 $1, [$0], $1;"),
    ("atom.shared.cas.b32", Class::Atomic, true, 4, "atom.shared.cas.b32 $1, [$0], $1, $c;"),
    ("red.shared.add.u32", Class::Reduction, false, 4, "red.shared.add.u32 [$0], $c;"),
];

/// `ldmatrix` and `stmatrix`: the first matrix of a warp holds the addresses of its rows, a word for each
/// lane.
const MATRIX_STEPS: &[SharedRow] = &[
    ("ldmatrix.x1", Class::MatrixLoad, true, 16, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {$0}, [$0];"),
    ("ldmatrix.x2", Class::MatrixLoad, true, 16, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {$0, $1}, [$0];"),
    (
        "ldmatrix.x4",
        Class::MatrixLoad,
        true,
        16,
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$0];",
    ),
    (
        "stmatrix.x4",
        Class::MatrixStore,
        false,
        16,
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};",
    ),
];

/// Puts the addresses of a warp's rows into its first matrix.
const MATRIX_SETUP: &str = "\
and.b32 %lane, %thread, 31;
    mul.lo.u32 %offset_of_word, %lane, 12;
    sub.u32 %offset_of_word, %address, %offset_of_word;
    st.shared.b32 [%offset_of_word], %address;
    bar.sync 0;";

/// The steps that are repeated with conflicts.
const CONFLICTING: [&str; 3] = ["ld.shared.b32", "atom.shared.add.u32", "red.shared.add.u32"];
/// The ways of bank conflicts: words from one lane's address to the next's.
const CONFLICTS: [u32; 7] = [0, 1, 2, 4, 8, 16, 32];

/// A name, a class, and the step, of any number of warps.
const BARRIER_STEPS: &[(&str, Class, &str)] = &[
    ("bar.sync", Class::CtaBarrier, "bar.sync 0;"),
    ("membar.cta", Class::Fence, "membar.cta;"),
    ("membar.gl", Class::Fence, "membar.gl;"),
    ("membar.sys", Class::Fence, "membar.sys;"),
    ("fence.acq_rel.cluster", Class::Fence, "fence.acq_rel.cluster;"),
    ("fence.sc.gpu", Class::Fence, "fence.sc.gpu;"),
    ("fence.proxy.async.shared::cta", Class::Fence, "fence.proxy.async.shared::cta;"),
    ("fence.proxy.async.global", Class::Fence, "fence.proxy.async.global;"),
    (
        "st.shared.b32 fence.proxy.async.shared::cta",
        Class::Fence,
        "st.volatile.shared.b32 [$0], $1; fence.proxy.async.shared::cta;",
    ),
    ("st.shared.b32 membar.cta", Class::Fence, "st.volatile.shared.b32 [$0], $1; membar.cta;"),
    ("st.global.b32 membar.gl", Class::Fence, "st.volatile.global.b32 [%mine], $1; membar.gl;"),
    ("wgmma.fence.sync.aligned", Class::WarpgroupSync, "wgmma.fence.sync.aligned;"),
];

/// Steps of one thread with the mbarrier at `$0`, whose phase one arrival completes.
const MBARRIER_STEPS: &[(&str, bool, &str)] = &[
    ("mbarrier.arrive", false, "{ .reg .b64 %m; mbarrier.arrive.shared.b64 %m, [$0]; }"),
    (
        "mbarrier.arrive.expect_tx",
        false,
        "{ .reg .b64 %m; mbarrier.arrive.expect_tx.shared.b64 %m, [$0], 0; }",
    ),
    (
        "mbarrier.arrive mbarrier.test_wait selp.b32",
        true,
        "{ .reg .b64 %m; .reg .pred %p; mbarrier.arrive.shared.b64 %m, [$0]; \
         mbarrier.test_wait.shared.b64 %p, [$0], %m; selp.b32 $0, $0, $c, %p; }",
    ),
    (
        "mbarrier.test_wait.parity selp.b32",
        true,
        "{ .reg .pred %p; mbarrier.test_wait.parity.shared.b64 %p, [$0], 1; selp.b32 $0, $0, $c, %p; }",
    ),
    (
        "mbarrier.try_wait.parity selp.b32",
        true,
        "{ .reg .pred %p; mbarrier.try_wait.parity.shared.b64 %p, [$0], 1; selp.b32 $0, $0, $c, %p; }",
    ),
    (
        "mbarrier.test_wait.parity that fails selp.b32",
        true,
        "{ .reg .pred %p; mbarrier.test_wait.parity.shared.b64 %p, [$0], 0; selp.b32 $0, $c, $0, %p; }",
    ),
];

/// The steps of shared memory, once for their latency where the next uses the result, and once for their
/// interval.
fn shared_steps() -> Vec<Steps> {
    let mut all = Vec::new();
    let plain = SHARED_STEPS.iter().map(|row| (row, "bar.sync 0;"));
    let matrix = MATRIX_STEPS.iter().map(|row| (row, MATRIX_SETUP));
    for (&(name, class, is_dependent, stride, step), setup) in plain.chain(matrix) {
        let latency = Steps {
            inputs: Inputs::Shared { stride },
            registers: 5,
            declarations: ".reg .b32 %offset_of_word;".to_owned(),
            setup: setup.to_owned(),
            shared_bytes: SHARED_BYTES,
            ..Steps::new(SHARED, name, class, step)
        };
        all.extend(latency.interval());
        all.extend(is_dependent.then_some(latency));
    }
    all
}

/// Accesses with so many lanes at each bank, or all at one address (0 ways).
fn conflict_steps() -> Vec<Steps> {
    let mut all = Vec::new();
    for &(name, class, is_dependent, _, step) in
        SHARED_STEPS.iter().filter(|row| CONFLICTING.contains(&row.0))
    {
        for ways in CONFLICTS {
            let lanes = if ways == 0 { "one address".to_owned() } else { format!("{ways} ways") };
            let step = Steps {
                inputs: Inputs::Shared { stride: 4 * ways },
                registers: 5,
                setup: "bar.sync 0;".to_owned(),
                shared_bytes: SHARED_BYTES,
                ..Steps::new(SHARED, &format!("{name} conflict {lanes}"), class, step)
            };
            let [few, _] = step.interval();
            all.push(few);
            all.extend(is_dependent.then_some(step));
        }
    }
    all
}

fn barrier_steps() -> Vec<Steps> {
    let step = |&(name, class, step): &(&str, Class, &str)| {
        let threads = match class {
            Class::WarpgroupSync => vec![128, 256],
            _ => [1, 2, 4, 8, 16, 32].map(|warps| warps * 32).to_vec(),
        };
        Steps {
            quantity: Quantity::Latency,
            inputs: Inputs::Shared { stride: 4 },
            declarations: ".reg .b64 %mine;".to_owned(),
            setup: "mul.wide.u32 %offset, %thread, 8; add.s64 %mine, %sink, %offset; bar.sync 0;".to_owned(),
            shared_bytes: SHARED_BYTES,
            threads,
            ..Steps::new(SYNCHRONIZATION, name, class, step)
        }
    };
    BARRIER_STEPS.iter().map(step).collect()
}

fn mbarrier_steps() -> Vec<Steps> {
    let step = |&(name, is_dependent, step): &(&str, bool, &str)| Steps {
        quantity: if is_dependent { Quantity::Latency } else { Quantity::Interval },
        inputs: Inputs::Shared { stride: 8 },
        setup: "mbarrier.init.shared.b64 [%address], 1; bar.sync 0;".to_owned(),
        shared_bytes: SHARED_BYTES,
        threads: vec![1],
        ..Steps::new(SYNCHRONIZATION, name, Class::Mbarrier, step)
    };
    MBARRIER_STEPS.iter().map(step).collect()
}

/// All of them.
pub(super) fn steps() -> Vec<Steps> {
    let mut all = shared_steps();
    all.extend(conflict_steps());
    all.extend(barrier_steps());
    all.extend(mbarrier_steps());
    all
}
