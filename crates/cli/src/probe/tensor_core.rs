//! The tensor cores: `mma.sync` and `wgmma`, by shape and types.

use warpwright_arch::instructions::Class;

use super::steps::{Inputs, Quantity, Steps};

const FAMILY: &str = "tensor core";

/// Registers of an operand of `mma.sync`.
struct Mma {
    /// From the shape to the accumulator's type.
    name: &'static str,
    /// Registers of D and C, of A, and of B.
    registers: [usize; 3],
}

const MMAS: &[Mma] = &[
    Mma { name: "m16n8k8.row.col.f32.f16.f16.f32", registers: [4, 2, 1] },
    Mma { name: "m16n8k16.row.col.f32.f16.f16.f32", registers: [4, 4, 2] },
    Mma { name: "m16n8k16.row.col.f16.f16.f16.f16", registers: [2, 4, 2] },
    Mma { name: "m16n8k16.row.col.f32.bf16.bf16.f32", registers: [4, 4, 2] },
    Mma { name: "m16n8k4.row.col.f32.tf32.tf32.f32", registers: [4, 2, 1] },
    Mma { name: "m16n8k8.row.col.f32.tf32.tf32.f32", registers: [4, 4, 2] },
    Mma { name: "m16n8k16.row.col.s32.s8.s8.s32", registers: [4, 2, 1] },
    Mma { name: "m16n8k32.row.col.s32.s8.s8.s32", registers: [4, 4, 2] },
];

/// Registers in braces, of the names that begin with a prefix.
fn braced(prefix: &str, numbers: std::ops::Range<usize>) -> String {
    let names: Vec<String> = numbers.map(|number| format!("{prefix}{number}")).collect();
    format!("{{{}}}", names.join(", "))
}

fn mma_steps() -> Vec<Steps> {
    let latency = |mma: &Mma| {
        let [accumulators, a, b] = mma.registers;
        let d = braced("$", 0..accumulators);
        let (a, b) = (braced("%c", 0..a), braced("%c", a..a + b));
        Steps {
            registers: 4,
            inputs: Inputs::F16x2,
            ..Steps::new(
                FAMILY,
                &format!("mma.sync.{}", mma.name),
                Class::Mma,
                &format!("mma.sync.aligned.{} {d}, {a}, {b}, {d};", mma.name),
            )
        }
    };
    let double = Steps {
        registers: 2,
        width: 64,
        inputs: Inputs::F64,
        ..Steps::new(
            FAMILY,
            "mma.sync.m8n8k4.row.col.f64.f64.f64.f64",
            Class::Mma,
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$0, $1}, {$c}, {$d}, {$0, $1};",
        )
    };
    // A is D here: with the same A each time, the products that sm_90 makes of it as f16 leave the loop.
    let small = Steps {
        registers: 4,
        ..Steps::new(
            FAMILY,
            "mma.sync.m16n8k32.row.col.f32.e4m3.e4m3.f32",
            Class::Mma,
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {$0, $1, $2, $3}, {$0, $1, $2, $3}, \
             {%c0, %c1}, {$0, $1, $2, $3};",
        )
    };
    MMAS.iter()
        .map(latency)
        .chain([double, small])
        .flat_map(|latency| {
            let [few, many] = latency.interval();
            [latency, few, many]
        })
        .collect()
}

/// An instruction of `wgmma`: its k, its types, and what follows the predicate of the accumulators.
struct Wgmma {
    k: u32,
    types: &'static str,
    /// The signs of A and B, and with descriptors the transpositions of both.
    flags: [&'static str; 2],
}

const WGMMAS: &[Wgmma] = &[
    Wgmma { k: 16, types: "f32.bf16.bf16", flags: ["1, 1, 0, 0", "1, 1, 0"] },
    Wgmma { k: 8, types: "f32.tf32.tf32", flags: ["1, 1", "1, 1"] },
    Wgmma { k: 32, types: "f32.e4m3.e4m3", flags: ["1, 1", "1, 1"] },
];

/// Where A's tiles of 64 rows of 128 bytes, one for each warpgroup, end, and B's begins.
const B_OFFSET: u32 = 16 << 10;
/// With B's tile of 256 rows.
const WGMMA_SHARED_BYTES: u32 = 48 << 10;

/// Fills shared memory with numbers from 0.5 to 1 as bf16, and makes the descriptors of the warpgroup's A
/// and of B: 128-byte swizzle (1 in bits 62 and 63), and 1024 bytes from eight rows to the next eight (64,
/// in units of 16 bytes, in bits 32 to 45).
fn wgmma_setup() -> String {
    format!(
        "
    mov.u32 %base, bytes;
    mov.u32 %word, %thread;
FILL:
    .pragma \"nounroll\";
    mul.lo.u32 %value, %word, 0x9E3779B1;
    shr.u32 %value, %value, 7;
    and.b32 %value, %value, 0x007F007F;
    or.b32 %value, %value, 0x3F003F00;
    mad.lo.u32 %address, %word, 4, %base;
    st.shared.b32 [%address], %value;
    add.u32 %word, %word, %threads;
    setp.lt.u32 %more, %word, {words};
    @%more bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %word, %thread, 7;
    shfl.sync.idx.b32 %word, %word, 0, 31, -1;
    mad.lo.u32 %address, %word, 8192, %base;
    shr.u32 %address, %address, 4;
    cvt.u64.u32 %a, %address;
    or.b64 %a, %a, 0x4000004000000000;
    add.u32 %address, %base, {B_OFFSET};
    shr.u32 %address, %address, 4;
    cvt.u64.u32 %b, %address;
    or.b64 %b, %b, 0x4000004000000000;",
        words = WGMMA_SHARED_BYTES / 4,
    )
}

/// One instruction, awaited each time for its latency, and many of a group for its interval.
fn wgmma_steps_of(wgmma: &Wgmma, n: u32, from_registers: bool) -> [Steps; 2] {
    let Wgmma { k, types, flags } = wgmma;
    let accumulators = (n / 2) as usize;
    let a = if from_registers { "{%c0, %c1, %c2, %c3}" } else { "%a" };
    let mma = format!(
        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {}, {a}, %b, %accumulate, {};",
        braced("%x", 0..accumulators),
        flags[usize::from(from_registers)],
    );
    let wait = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";
    let operands = if from_registers { "RS" } else { "SS" };
    let latency = Steps {
        registers: accumulators,
        inputs: Inputs::Bf16x2,
        declarations: ".reg .pred %accumulate; .reg .b32 %base, %word, %value, %threads; .reg .b64 %a, %b;"
            .to_owned(),
        setup: format!("mov.u32 %threads, %ntid.x; setp.ne.u32 %accumulate, %trips, 0;{}", wgmma_setup()),
        shared_bytes: WGMMA_SHARED_BYTES,
        counts: [4, 12],
        threads: vec![128],
        ..Steps::new(
            FAMILY,
            &format!("wgmma.m64n{n}k{k}.{types} {operands}"),
            Class::WarpgroupMma,
            &format!("wgmma.fence.sync.aligned; {mma} {wait}"),
        )
    };
    let interval = Steps {
        quantity: Quantity::Interval,
        step: mma,
        begin: "wgmma.fence.sync.aligned;",
        end: wait,
        threads: vec![128, 256],
        counts: [8, 24],
        trips: [64, 64],
        ..latency.clone()
    };
    [latency, interval]
}

fn wgmma_steps() -> Vec<Steps> {
    let mut all = Vec::new();
    for (index, wgmma) in WGMMAS.iter().enumerate() {
        let widths: &[u32] = if index == 0 { &[8, 16, 32, 64, 128, 192, 256] } else { &[64, 128, 256] };
        for &n in widths {
            for from_registers in [false, true] {
                all.extend(wgmma_steps_of(wgmma, n, from_registers));
            }
        }
    }
    all
}

/// All of them.
pub(super) fn steps() -> Vec<Steps> {
    let mut all = mma_steps();
    all.extend(wgmma_steps());
    all
}
