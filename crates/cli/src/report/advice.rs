//! What could be done about what is slow, in sentences.

use warpwright_arch::{Arch, Limiter};
use warpwright_runtime::LineCounts;

use super::registers::{Assembled, Usage};
use super::table::{count, grouped};
use super::{KernelReport, place};

/// A line that costs less than this part of a kernel is not worth a word.
const WORTH_A_WORD: f64 = 0.01;

/// The advice on one kernel, that on the costliest lines first.
pub(super) fn of(kernel: &KernelReport, arch: &Arch) -> Vec<String> {
    let mut advice = Vec::new();
    for (line, cost) in &kernel.lines {
        if kernel.part(cost) >= WORTH_A_WORD {
            advice.extend(on_line(line).into_iter().map(|words| format!("{}: {words}", place(line))));
        }
    }
    // A barrier costs no unit's time: it makes warps wait, whatever its line's part.
    for (line, _) in &kernel.lines {
        let counts = &line.counts;
        if counts.barriers > 0 && counts.idle_barriers == counts.barriers {
            advice.push(format!(
                "{}: this barrier is unnecessary in this launch; it can be removed if the others stay",
                place(line)
            ));
        }
    }
    advice.extend(on_launch(kernel, arch));
    advice
}

fn on_line(line: &LineCounts) -> Vec<String> {
    let counts = &line.counts;
    let mut advice = Vec::new();
    let shared = &counts.shared;
    if shared.wavefronts * 4 > shared.ideal * 5 {
        advice.push(format!(
            "{:.1}-way shared-memory bank conflict; pad rows by a bank, or swizzle them",
            shared.wavefronts as f64 / shared.ideal as f64
        ));
    }
    for (access, global) in [("loads", &counts.global_loads), ("stores", &counts.global_stores)] {
        if global.sectors * 4 > global.ideal * 5 {
            advice.push(format!(
                "a warp {access} {:.1} sectors of global memory, and its bytes fit in {:.1}; let adjacent lanes \
                 access adjacent addresses, starting at a multiple of 32 bytes",
                global.sectors as f64 / global.requests as f64,
                global.ideal as f64 / global.requests as f64
            ));
        }
    }
    let global = counts.global();
    // One lane alone was chosen to act for its warp; what computes nothing is not worth the words.
    let acts_alone = counts.lanes == counts.executions;
    let works = !line.operations.is_empty() || global.requests + shared.requests > 0;
    let lost = counts.lanes_lost() as f64 / (32 * counts.executions).max(1) as f64;
    if lost > 0.25 && works && !acts_alone {
        advice.push(format!(
            "{:.0} % of the lanes are inactive; let whole warps take the same branch",
            100.0 * lost
        ));
    }
    let accesses = global.requests + shared.requests + counts.local.requests;
    if counts.narrow * 4 >= accesses.max(1) {
        advice.push(format!(
            "{} of {} accesses continue the previous one; combine them into accesses of up to 16 bytes per thread",
            grouped(counts.narrow),
            grouped(accesses)
        ));
    }
    if 4 * counts.atomic_conflicts > counts.atomics {
        advice.push(format!(
            "{} of {} atomic operations wait for another lane at the same address; combine them in the warp first",
            grouped(counts.atomic_conflicts),
            grouped(counts.atomics)
        ));
    }
    if counts.local.requests > 0 {
        advice.push(
            "local memory is device memory; an array whose indices are known when the kernel is built stays in \
             registers"
                .to_owned(),
        );
    }
    advice
}

fn on_launch(kernel: &KernelReport, arch: &Arch) -> Vec<String> {
    let mut advice = Vec::new();
    if let Assembled::Known(Usage { spilled: spilled @ 1.., .. }) = kernel.assembled {
        advice.push(format!("each thread spills {spilled} bytes of registers; use fewer values at once, or fewer threads per CTA"));
    }
    let ctas = kernel.counters.ctas();
    if ctas < u64::from(arch.sm_count) {
        advice.push(format!(
            "the launch has {} for {} SMs: {} SMs are idle",
            count(ctas, "CTA"),
            arch.sm_count,
            u64::from(arch.sm_count) - ctas
        ));
    }
    if let Some((occupancy, _)) = &kernel.occupancy
        && occupancy.limiter != Limiter::Warps
        && 4 * occupancy.warps_per_sm < arch.capability.warps_per_sm
    {
        advice.push(format!(
            "an SM holds {} of {} warps, limited by {}; so few warps hide latency only if each has many operations in flight",
            occupancy.warps_per_sm,
            arch.capability.warps_per_sm,
            occupancy.limiter.name()
        ));
    }
    advice
}
