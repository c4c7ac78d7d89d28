//! The heuristic: ranks algorithms by the [cost model](super::cost), and what `--explain` prints of
//! it.

use warpwright::arch::Capability;

use super::config::{Algorithm, Configuration, TmaInstruction, mma_sync_computes};
use super::cost::{Cost, H200, LAUNCH, Machine, heads};
use crate::gemm::device::mainloop::mma_sync::{MmaSyncConfiguration, MmaSyncGemm};
use crate::gemm::device::schedule::Schedule;
use crate::gemm::device::staging::StagedBatch;
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::types::GemmTypes;

/// Cycles from the end of a kernel to the start of the next one's work.
const NEXT_KERNEL: f64 = 3000.0;

/// Cycles of copying the operands that TMA cannot read.
fn staging_cycles(staged: StagedBatch, types: GemmTypes, machine: &Machine) -> f64 {
    let cycles = |bytes: f64| NEXT_KERNEL + bytes / machine.dram_bytes;
    staged.copies.into_iter().flatten().map(|copy| cycles(copy.bytes(types.input_bytes()))).sum()
}

/// Cycles of a problem with `mma.sync`.
fn mma_sync_cycles(configuration: MmaSyncConfiguration, problem: &GemmProblem, sms: u32) -> f64 {
    let gemm = MmaSyncGemm::new(problem, configuration);
    let Problem { m, n, k, .. } = problem.batch.problem;
    let (rows, columns, _) = gemm.tile;
    // The part of the tensor cores' rate that is reached: with copies of 16 bytes measured on an
    // H200, with narrower ones estimated. No GPU multiplies faster by `mma.sync`.
    let efficiency = match gemm.a_vector.min(gemm.b_vector) {
        16 => 0.45,
        8 => 0.4,
        4 => 0.3,
        _ => 0.15,
    };
    let depth = f64::from(k) * f64::from(problem.types.input_bits()) / 8.0;
    let mainloop = rows as f64 * columns as f64 * depth / H200.multiply_bytes / efficiency;
    let tiles = f64::from(gemm.grid(m, n)) * f64::from(problem.batch.count);
    LAUNCH + (tiles / f64::from(sms)).ceil() * mainloop
}

/// The costs of all ranked configurations, the cheapest first. Groups along m have those of groups of
/// equal size.
pub fn rank(problem: &GemmProblem, instruction: TmaInstruction, sms: u32) -> Vec<Cost> {
    let equal = equal_groups(problem);
    let mut costs = sorted(Configuration::all(&equal, instruction), &equal, sms);
    costs.retain(|cost| cost.configuration.is_legal(problem));
    costs
}

/// Rows of clusters' tiles in a strip, where clusters of wgmma kernels have more than two tiles each. (H200, 70
/// such problems: a mean of 0.4% faster than strips of 8, from 1.3% slower to 8% faster.)
const STRIP_OF_WAVES: u32 = 4;

fn sorted(configurations: Vec<Configuration>, problem: &GemmProblem, sms: u32) -> Vec<Cost> {
    let cost = |configuration: Configuration| {
        let is_wgmma = matches!(configuration.schedule, Schedule::Cooperative | Schedule::Pingpong);
        let has_waves = configuration.cluster != (1, 1) && Cost::waves(configuration, problem, sms) > 2.0;
        let raster = if is_wgmma && has_waves { STRIP_OF_WAVES } else { configuration.raster };
        Cost::of(Configuration { raster, ..configuration }, problem, sms)
    };
    let mut costs: Vec<Cost> = configurations.into_iter().map(cost).collect();
    costs.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    costs
}

/// The algorithms for a problem on a device, the cheapest first: on Hopper the `wgmma` ones and on
/// Blackwell the `tcgen05` ones, unless A or B would have to be copied for TMA and `mma.sync` takes
/// less time than that. Groups along m have those of groups of equal size.
pub fn algorithms(problem: &GemmProblem, capability: &Capability, sms: u32) -> Vec<Algorithm> {
    let equal = equal_groups(problem);
    let Some(instruction) = TmaInstruction::of(capability).filter(|_| !equal.batch.is_empty()) else {
        return ordered(&[], &equal, capability, true);
    };
    let (costs, staged) = (rank(problem, instruction, sms), StagedBatch::of(&equal));
    let mma_sync = || mma_sync_cycles(MmaSyncConfiguration::default(), &equal, sms);
    let prefers_mma_sync = !staged.is_unstaged()
        && mma_sync() < costs[0].cycles + staging_cycles(staged, equal.types, Machine::of(instruction));
    ordered(&costs, &equal, capability, prefers_mma_sync)
}

/// The algorithms for problems of unlike extents that all have work, the cheapest first: those of
/// the average problem that leave tiles whole; and `mma.sync`, a launch for each.
pub fn grouped_algorithms(
    problems: &[Problem],
    types: GemmTypes,
    capability: &Capability,
    sms: u32,
) -> Vec<Algorithm> {
    let any = GemmProblem::new(Problem::new(1, 1, 1), types);
    let Some(instruction) = TmaInstruction::of(capability).filter(|_| !problems.is_empty()) else {
        return ordered(&[], &any, capability, true);
    };
    let (costs, machine) =
        (rank_grouped(&average(problems, types), instruction, sms), Machine::of(instruction));
    let each = || problems.iter().map(|&problem| GemmProblem::new(problem, types));
    let staging: f64 = each().map(|problem| staging_cycles(StagedBatch::of(&problem), types, machine)).sum();
    let mma_sync = |problem| mma_sync_cycles(MmaSyncConfiguration::default(), &problem, sms);
    let prefers_mma_sync = staging > 0.0
        && costs.first().is_none_or(|best| each().map(mma_sync).sum::<f64>() < best.cycles + staging);
    ordered(&costs, &any, capability, prefers_mma_sync)
}

/// The algorithms of those costs, and before or after them `mma.sync`, if it computes the
/// problem.
fn ordered(
    costs: &[Cost],
    problem: &GemmProblem,
    capability: &Capability,
    prefers_mma_sync: bool,
) -> Vec<Algorithm> {
    let mut all: Vec<_> = costs.iter().map(|cost| Algorithm::of(cost.configuration)).collect();
    if mma_sync_computes(problem, capability) {
        let mma_sync = Algorithm::MmaSync(MmaSyncConfiguration::of(problem));
        all.insert(if prefers_mma_sync { 0 } else { all.len() }, mma_sync);
    }
    all
}

/// The costs of a group of that average problem, the cheapest first: tiles are not split.
pub fn rank_grouped(average: &GemmProblem, instruction: TmaInstruction, sms: u32) -> Vec<Cost> {
    rank(average, instruction, sms).into_iter().filter(|cost| !cost.configuration.splits()).collect()
}

/// As many problems of their average extents.
pub fn average(problems: &[Problem], types: GemmTypes) -> GemmProblem {
    let average = |extent: fn(&Problem) -> u32| {
        let sum: u64 = problems.iter().map(|problem| u64::from(extent(problem))).sum();
        sum.div_ceil(problems.len() as u64) as u32
    };
    let (m, n, k) =
        (average(|problem| problem.m), average(|problem| problem.n), average(|problem| problem.k));
    let batch = Batch::new(Problem::new(m, n, k), problems.len() as u32);
    GemmProblem::new(batch, types)
}

/// For groups along m, a batch of groups of equal problem, for which their algorithm is chosen;
/// similar row counts have the same.
pub fn equal_groups(problem: &GemmProblem) -> GemmProblem {
    if !problem.along_m {
        return *problem;
    }
    let Batch { problem: groups, count, .. } = problem.batch;
    let rows = groups.m.checked_next_power_of_two().unwrap_or(groups.m);
    let count = count.min(rows).max(1);
    let batch = Batch::new(Problem { m: rows.div_ceil(count), ..groups }, count);
    GemmProblem { batch, along_m: false, ..*problem }
}

/// All legal algorithms for a batch: the cheapest of each instruction, then all others, the
/// cheapest first. The model compares configurations of one instruction better than those of
/// different ones.
pub fn searched(problem: &GemmProblem, capability: &Capability, sms: u32) -> Vec<Algorithm> {
    let by_tma = TmaInstruction::of(capability).into_iter().flat_map(|instruction| {
        let staging = staging_cycles(StagedBatch::of(problem), problem.types, Machine::of(instruction));
        let costs = sorted(Configuration::searched(problem, instruction), problem, sms).into_iter();
        costs.map(move |cost| (cost.cycles + staging, Algorithm::of(cost.configuration)))
    });
    let mma_sync = MmaSyncConfiguration::all(capability).into_iter();
    let mma_sync = mma_sync.map(|configuration| {
        (mma_sync_cycles(configuration, problem, sms), Algorithm::MmaSync(configuration))
    });
    let mut all: Vec<_> = by_tma
        .chain(mma_sync)
        .filter(|(_, algorithm)| algorithm.check(problem, capability).is_ok())
        .collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let all: Vec<Algorithm> = all.into_iter().map(|(_, algorithm)| algorithm).collect();
    let first_of =
        |by_tma: bool| all.iter().copied().find(|algorithm| algorithm.configuration().is_some() == by_tma);
    let first: Vec<_> = [true, false].into_iter().filter_map(first_of).collect();
    let others = all.iter().copied().filter(|algorithm| !first.contains(algorithm));
    first.iter().copied().chain(others).collect()
}

/// The legal algorithms that differ from one in one parameter.
pub fn around(algorithm: Algorithm, problem: &GemmProblem, capability: &Capability) -> Vec<Algorithm> {
    match algorithm {
        Algorithm::MmaSync(configuration) => {
            configuration.around(capability).into_iter().map(Algorithm::MmaSync).collect()
        }
        Algorithm::Wgmma(configuration) | Algorithm::Tcgen05(configuration) => {
            configuration.around(problem).into_iter().map(Algorithm::of).collect()
        }
    }
}

/// Lines of the table of costs.
const SHOWN: usize = 12;

/// What `--explain` prints: the cheapest configurations, the chosen one marked; which operands are
/// copied; and the choice with its reason. `of` names what they are the configurations of.
pub fn explain(
    of: &str,
    costs: &[Cost],
    chosen: Algorithm,
    copies: impl IntoIterator<Item = String>,
    reason: &str,
) -> String {
    let mut lines = vec![
        format!(
            "{} configurations{of}, by the cost model in cycles of an SM; phases: waves of main loops and epilogues, \
             with DRAM traffic beside them",
            costs.len()
        ),
        format!("rank  {}", heads()),
    ];
    let is_chosen = |cost: &Cost| Algorithm::of(cost.configuration) == chosen;
    let mut shown: Vec<(usize, &Cost)> = costs.iter().enumerate().collect();
    // The transpose of a configuration at the same cost says nothing new.
    shown.dedup_by(|(_, later), (_, earlier)| !is_chosen(later) && are_twins(earlier, later));
    let shown = shown.into_iter().enumerate();
    let shown = shown.filter(|(place, (_, cost))| *place < SHOWN || is_chosen(cost));
    lines.extend(
        shown.map(|(_, (rank, cost))| {
            format!("{:>2}{rank:>3} {cost}", if is_chosen(cost) { "->" } else { "" })
        }),
    );
    lines.extend(copies);
    lines.push(format!("{chosen}: {reason}"));
    lines.join("\n")
}

/// Whether two costs are those of a configuration and of its transpose, and equal.
fn are_twins(a: &Cost, b: &Cost) -> bool {
    let transposed = Configuration { transposed: !a.configuration.transposed, ..a.configuration };
    a.cycles == b.cycles && transposed == b.configuration
}

/// Why the heuristic chooses an algorithm.
pub fn reason(algorithm: Algorithm, capability: &Capability) -> &'static str {
    match algorithm {
        Algorithm::Wgmma(_) | Algorithm::Tcgen05(_) => "the cheapest by the cost model",
        Algorithm::MmaSync(_) if TmaInstruction::of(capability).is_some() => {
            "TMA cannot read A and B as they are, and copying them takes longer"
        }
        Algorithm::MmaSync(_) => "wgmma needs sm_90a, and tcgen05 sm_100a or sm_103a",
    }
}
