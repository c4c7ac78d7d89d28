//! Latencies, issue intervals and bandwidths: what a timing model needs to know of a GPU.

use crate::arch::Arch;
use crate::instructions::{Class, Form};

/// A figure and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value; the field says its unit.
    pub value: f64,
    /// The measurement or the publication that it is from.
    pub source: &'static str,
}

/// The execution of an instruction by one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Instructions of the hardware that ptxas makes of it. 0: none, as of most moves.
    pub instructions: u32,
    /// Cycles for which each occupies the pipe of its SM partition.
    pub interval: u32,
    /// Cycles from its issue to the issue of an instruction that reads its result, without accesses to
    /// memory.
    pub latency: u32,
}

/// A row of the table below.
struct Row {
    class: Class,
    /// The name has one of these words; empty: any name.
    words: &'static [&'static str],
    execution: Execution,
}

const fn row(
    class: Class,
    words: &'static [&'static str],
    [instructions, interval, latency]: [u32; 3],
) -> Row {
    Row { class, words, execution: Execution { instructions, interval, latency } }
}

const LONG: &[&str] = &["u64", "s64", "b64"];

/// Instructions, interval and latency by class; the first row whose words fit counts.
///
/// Sources: intervals are 32 lanes by the lanes of a partition for compute capability 9.0 (CUDA C++
/// Programming Guide, "Throughput of Native Arithmetic Instructions"); latencies and the sequences of
/// instructions are measured on an H200 (docs/results/2026-11-28-probe-h200.json) and read in the SASS
/// that ptxas 13.0 makes for sm_90a.
const EXECUTIONS: &[Row] = &[
    row(Class::Integer, LONG, [2, 1, 4]),
    row(Class::Integer, &["min", "max"], [1, 2, 4]),
    row(Class::Integer, &[], [1, 1, 4]),
    row(Class::IntegerMultiply, &["wide"], [1, 4, 6]),
    row(Class::IntegerMultiply, LONG, [4, 2, 14]),
    row(Class::IntegerMultiply, &["hi"], [1, 4, 9]),
    row(Class::IntegerMultiply, &[], [1, 2, 4]),
    row(Class::IntegerDivide, LONG, [70, 2, 280]),
    row(Class::IntegerDivide, &[], [34, 1, 130]),
    row(Class::Logic, LONG, [2, 2, 6]),
    row(Class::Logic, &["bfe"], [2, 2, 8]),
    row(Class::Logic, &["bfi"], [3, 3, 10]),
    row(Class::Logic, &[], [1, 2, 4]),
    row(Class::BitCount, &[], [1, 8, 17]),
    row(Class::Compare, &["f64"], [1, 2, 8]),
    row(Class::Compare, LONG, [2, 2, 6]),
    row(Class::Compare, &[], [1, 2, 4]),
    row(Class::Select, LONG, [2, 2, 6]),
    row(Class::Select, &[], [1, 2, 4]),
    row(Class::Float, &["f64"], [1, 2, 8]),
    row(Class::Float, &["f32x2"], [2, 1, 4]),
    row(Class::Float, &["f16", "f16x2", "bf16", "bf16x2"], [1, 1, 6]),
    row(Class::Float, &[], [1, 1, 4]),
    row(Class::FloatDivide, &["f64"], [30, 2, 240]),
    row(Class::FloatDivide, &["approx", "full"], [2, 4, 30]),
    row(Class::FloatDivide, &[], [16, 1, 57]),
    row(Class::FloatCompare, &["f64"], [2, 2, 10]),
    row(Class::FloatCompare, &[], [1, 2, 4]),
    row(Class::Special, &["f64"], [25, 2, 200]),
    row(Class::Special, &["rn", "rz", "rm", "rp"], [18, 1, 66]),
    row(Class::Special, &["f16x2", "bf16x2"], [2, 8, 22]),
    row(Class::Special, &["ftz", "f16", "bf16", "tanh"], [1, 8, 17]),
    row(Class::Special, &["ex2", "lg2", "rsqrt", "sqrt"], [3, 3, 28]),
    row(Class::Special, &[], [1, 8, 17]),
    row(Class::Conversion, &["f64", "s64", "u64", "rni", "rzi", "rmi", "rpi"], [1, 8, 17]),
    row(Class::Conversion, &[], [1, 2, 4]),
    row(Class::Move, &[], [0, 1, 0]),
    row(Class::Address, &[], [0, 1, 0]),
    row(Class::Load, &[], [1, 1, 0]),
    row(Class::Store, &[], [1, 1, 0]),
    row(Class::Atomic, &[], [1, 1, 0]),
    row(Class::Reduction, &[], [1, 1, 0]),
    row(Class::Prefetch, &[], [1, 1, 0]),
    row(Class::CacheControl, &[], [1, 1, 0]),
    row(Class::MatrixLoad, &[], [1, 1, 0]),
    row(Class::MatrixStore, &[], [1, 1, 0]),
    row(Class::FragmentLoad, &[], [4, 1, 0]),
    row(Class::FragmentStore, &[], [4, 1, 0]),
    row(Class::AsyncCopy, &["commit_group", "wait_group", "wait_all"], [1, 1, 4]),
    row(Class::AsyncCopy, &[], [1, 1, 0]),
    row(Class::BulkCopy, &[], [2, 1, 0]),
    row(Class::TensorCopy, &[], [2, 1, 0]),
    row(Class::TensorMap, &[], [1, 1, 0]),
    row(Class::Mma, &[], [1, 1, 17]),
    row(Class::WarpgroupMma, &[], [2, 1, 0]),
    row(Class::WarpgroupSync, &[], [1, 1, 2]),
    row(Class::TensorMemoryMma, &[], [4, 1, 0]),
    row(Class::TensorMemoryCopy, &[], [2, 1, 0]),
    row(Class::TensorMemoryLoad, &[], [1, 1, 30]),
    row(Class::TensorMemoryStore, &[], [1, 1, 0]),
    row(Class::TensorMemorySync, &[], [1, 1, 4]),
    row(Class::TensorMemoryControl, &[], [2, 1, 0]),
    row(Class::Exchange, &["movmatrix"], [1, 2, 33]),
    row(Class::Exchange, &[], [1, 2, 24]),
    row(Class::Vote, &["activemask"], [1, 2, 10]),
    row(Class::Vote, &[], [1, 2, 13]),
    row(Class::Match, &[], [1, 16, 39]),
    row(Class::WarpReduction, &[], [1, 8, 40]),
    row(Class::WarpBarrier, &[], [1, 1, 4]),
    row(Class::CtaBarrier, &[], [1, 1, 0]),
    row(Class::ClusterBarrier, &[], [1, 1, 0]),
    row(Class::MbarrierInit, &[], [1, 1, 0]),
    row(Class::Mbarrier, &["test_wait", "try_wait"], [1, 1, 38]),
    row(Class::Mbarrier, &[], [1, 1, 0]),
    row(Class::Fence, &[], [1, 1, 8]),
    row(Class::ClusterLaunch, &[], [1, 1, 0]),
    row(Class::Branch, &[], [1, 1, 6]),
    row(Class::Control, &[], [1, 1, 6]),
];

/// The execution of an instruction without a row: branches and calls.
pub const BRANCH: Execution = Execution { instructions: 1, interval: 1, latency: 8 };

impl Form {
    /// How a warp executes an instruction of the row, given its dotted name.
    ///
    /// ```
    /// use warpwright_arch::instructions::forms_of;
    /// let (form, _) = &forms_of("fma.rn.f32")[0];
    /// assert_eq!(form.execution("fma.rn.f32").interval, 1);
    /// let (form, _) = &forms_of("add.s64")[0];
    /// assert_eq!(form.execution("add.s64").instructions, 2);
    /// ```
    pub fn execution(&self, name: &str) -> Execution {
        let has = |word: &&str| name.split('.').any(|own| own == *word);
        let fits =
            |row: &&Row| row.class == self.class && (row.words.is_empty() || row.words.iter().any(has));
        let found = EXECUTIONS.iter().find(fits).expect("the table ends each class with a row for any name");
        found.execution
    }
}

/// Memory, clocks and launches of a GPU. Latencies are in SM cycles, rates in bytes a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From a load of shared memory to an instruction that reads it.
    pub shared_latency: Figure,
    /// The same of a shared-memory access of another CTA of the cluster.
    pub cluster_shared_latency: Figure,
    /// The same of a load that hits the L1 cache.
    pub l1_latency: Figure,
    /// The same of a load that hits the L2 cache, the mean of its near and far partitions.
    pub l2_latency: Figure,
    /// The same of a load of device memory.
    pub device_latency: Figure,
    /// Between the L2 cache and one SM.
    pub l2_bytes_per_sm: Figure,
    /// Stores of one SM.
    pub store_bytes_per_sm: Figure,
    /// Of the L2 cache to all SMs.
    pub l2_bytes: Figure,
    /// Stores of all SMs.
    pub l2_store_bytes: Figure,
    /// The part of the L2 cache that holds different lines: its halves keep copies of each other's.
    pub l2_part: Figure,
    /// The part of the data sheet's bandwidth of device memory that a kernel which only reads can reach.
    pub device_reads: Figure,
    /// The same of writes between reads: a copy reaches the harmonic mean of both.
    pub device_writes: Figure,
    /// From a copy's issue until the first of its requests, by the tensor memory accelerator.
    pub tma_latency: Figure,
    /// Of the tensor memory accelerator of an SM.
    pub tma_bytes: Figure,
    /// From a warpgroup's MMA to the end of a wait for it, without its cycles on the tensor cores.
    pub wgmma_latency: Figure,
    /// From the last cycle of a `tcgen05.mma` on the tensor cores to the arrival of its commit.
    pub tcgen05_latency: Figure,
    /// From an mbarrier's last arrival to the next instruction of a warp that waits.
    pub mbarrier_latency: Figure,
    /// From the last arrival at a barrier of the CTA to the next instruction, without 2 cycles for each warp.
    pub barrier_latency: Figure,
    /// The same of the barrier of a cluster.
    pub cluster_barrier_latency: Figure,
    /// From a launch to the first instruction, and from the last to the next launch of the stream.
    pub launch_microseconds: Figure,
    /// The same of a kernel that starts its successor early (`griddepcontrol`).
    pub programmatic_launch_microseconds: Figure,
    /// From the last store of a launch to its end: a fence of the system.
    pub flush_latency: Figure,
    /// From the start of a CTA to the start of the next on an SM.
    pub cta_interval: Figure,
    /// From a CTA's end to the first instruction of the next CTA in its place.
    pub cta_latency: Figure,
    /// The part of the time in which the tensor cores may be busy at the highest clock.
    pub busy_at_full_clock: Figure,
    /// The part of the highest clock that SMs keep when the tensor cores are always busy.
    pub clock_when_multiplying: Figure,
    /// Words of one line that atomic operations update in a cycle.
    pub atomic_words: Figure,
}

const PROBE: &str = "H200, docs/results/2026-11-28-probe-h200.json";
const LIST: &str = "H200, clocks of 36 launches (docs/results/2026-11-28-time-h200-seeded.json)";
const TINY: &str = "H200, 20 launches of few elements and 136 others (docs/results/2026-11-29-time-h200.md)";
const ASSUMED: &str = "assumed, not measured";
/// 559 cycles for 128 x 128 x 64 (the tensor cores take 256), and `460 + 6 / KiB` for a TMA load.
const B200_LATENCIES: &str = "B200, LatencyModel.cpp of Meta's Triton, May 2026";
const B200_SURVEY: &str = "B200, published microbenchmarks (see docs/timing.md)";

const fn figure(value: f64, source: &'static str) -> Figure {
    Figure { value, source }
}

/// Hopper.
const HOPPER: Timing = Timing {
    shared_latency: figure(23.0, PROBE),
    cluster_shared_latency: figure(193.0, PROBE),
    l1_latency: figure(40.0, PROBE),
    l2_latency: figure(277.0, PROBE),
    device_latency: figure(663.0, PROBE),
    l2_bytes_per_sm: figure(122.0, PROBE),
    store_bytes_per_sm: figure(32.0, PROBE),
    l2_bytes: figure(4600.0, PROBE),
    l2_store_bytes: figure(2440.0, PROBE),
    l2_part: figure(0.6, PROBE),
    device_reads: figure(0.925, "H200, a sum of 2^30 f32 (docs/results/2026-11-21-reduce-scan.md)"),
    device_writes: figure(0.874, "H200, a copy of 2^30 bytes (docs/results/2026-11-21-memory-bound.md)"),
    tma_latency: figure(10.0, PROBE),
    tma_bytes: figure(107.0, PROBE),
    wgmma_latency: figure(43.0, PROBE),
    tcgen05_latency: figure(303.0, B200_LATENCIES),
    mbarrier_latency: figure(33.0, PROBE),
    barrier_latency: figure(12.0, PROBE),
    cluster_barrier_latency: figure(330.0, PROBE),
    launch_microseconds: figure(1.5, TINY),
    programmatic_launch_microseconds: figure(0.9, TINY),
    flush_latency: figure(1020.0, PROBE),
    cta_interval: figure(100.0, ASSUMED),
    cta_latency: figure(300.0, ASSUMED),
    busy_at_full_clock: figure(0.5, LIST),
    clock_when_multiplying: figure(0.75, LIST),
    atomic_words: figure(
        2.0,
        "H200, 334e9 lanes a second (docs/results/2026-11-28-probe-h200.md) over 96 slices of L2",
    ),
};

/// Blackwell of data centers.
const BLACKWELL: Timing = Timing {
    l1_latency: figure(39.6, B200_SURVEY),
    l2_latency: figure(290.0, B200_SURVEY),
    device_latency: figure(840.0, B200_SURVEY),
    l2_bytes_per_sm: figure(90.0, B200_SURVEY),
    l2_bytes: figure(13_300.0, B200_SURVEY),
    // 460 less the latency of L2 and what the rest of a load takes on an H200.
    tma_latency: figure(150.0, B200_LATENCIES),
    device_reads: figure(0.88, B200_SURVEY),
    device_writes: figure(0.88, B200_SURVEY),
    ..HOPPER
};

impl Arch {
    /// The figures of the GPU's architecture; of the nearest that has any, if it has none.
    pub fn timing(&self) -> &'static Timing {
        match self.capability.compute_capability.0 {
            10 => &BLACKWELL,
            _ => &HOPPER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::forms;

    #[test]
    fn every_instruction_has_an_execution() {
        for form in forms() {
            for (name, _) in form.instances(50) {
                let execution = form.execution(&name);
                assert!(execution.interval >= 1, "{name}");
                let is_free = matches!(form.class, Class::Move | Class::Address);
                assert_eq!(execution.instructions == 0, is_free, "{name}");
            }
        }
    }
}
