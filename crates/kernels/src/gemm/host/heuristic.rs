//! The heuristic: a cost model in cycles of an SM, from the tensor cores, L2, DRAM and the
//! epilogue, which ranks algorithms; and what `--explain` prints of it.

use std::fmt;

use warpwright::arch::Capability;

use super::config::{Algorithm, Configuration, has_wgmma, mma_sync_computes};
use crate::gemm::device::mainloop::mma_sync::{MmaSyncConfiguration, MmaSyncGemm};
use crate::gemm::device::mainloop::wgmma::Schedule;
use crate::gemm::device::staging::StagedBatch;
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::scales::{Granularities, Granularity};
use crate::gemm::problem::types::GemmTypes;

/// What a configuration costs for a problem, in cycles of an SM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The configuration.
    pub configuration: Configuration,
    /// CTAs of the launch.
    pub ctas: u32,
    /// CTA tiles of C.
    pub tiles: u32,
    /// Tiles of the busiest CTA; of split ones, a part.
    pub waves: f64,
    /// Cycles of the main loop of a whole tile.
    pub mainloop: f64,
    /// Cycles of its epilogue.
    pub epilogue: f64,
    /// Cycles of the reduction of a split tile.
    pub reduction: f64,
    /// Cycles of the DRAM traffic.
    pub dram: f64,
    /// All together.
    pub cycles: f64,
}

/// Bytes of operands that an SM's tensor cores multiply in a cycle: 1024 multiply-adds of 16 bits a
/// tensor core in two. (NVIDIA H100 white paper, table 2.)
const MULTIPLY_BYTES: f64 = 4096.0;

/// Bytes that reach an SM from L2 in a cycle: measured on an H200, 128 x 128 without a cluster.
const L2_BYTES: f64 = 56.0;

/// Bytes of DRAM traffic of an H200 in a cycle of its SMs: 4.2 TB/s at 1.7 GHz.
const DRAM_BYTES: f64 = 2450.0;

/// The part of the SMs that saturates DRAM.
const READING_SMS: f64 = 0.85;

/// Cycles of a launch outside of any tile: until the first stage is full, and after the last store.
/// This and what follows are cycles that a profiler counted on an H200,
/// `docs/results/2026-11-21-gemm-energy.md`.
const FILL: f64 = 6000.0;

/// The part of its rate that one consumer reaches while the other has nothing to multiply.
const ALONE: f64 = 0.9;

/// Cycles of an accumulator's element in the epilogue, and until the next tile's main loop.
const STORE: f64 = 0.12;

/// Cycles of a GEMM for each that its MMAs alone take, if the power limit lets the clock be no
/// higher, and operands reached the SMs without energy.
const POWER: f64 = 1.17;

/// The energy of operands that come to an SM: for each row of a k-block's tiles of A and B from L2,
/// a part of what it costs to multiply as many elements of C. (Tiles of 256 x 192 receive a third
/// less than those of 128 x 192, and are up to 5% faster at the same power with more cycles.)
const RECEIVED: f64 = 12.0;

/// The energy of an SM that does not multiply.
const IDLE: f64 = 0.6;

/// Cycles until the parts of a split tile are known to be there, and cycles for an element of them.
const REDUCTION: (f64, f64) = (3000.0, 0.45);

/// Cycles until what the CTAs of a cluster send each other has arrived, and cycles for an element
/// of it: 18.9 bytes a cycle (`FlashGPU-Sim` on an H200).
const EXCHANGE: (f64, f64) = (1500.0, 4.0 / 18.9);

/// How much more splitting costs where other tiles are whole: CTAs no longer read the same k at the
/// same time.
const AMONG_WAVES: f64 = 2.0;

/// Bytes of an H200's L2, and the part of the split waves that is lost for each time that a wave
/// reads more: measured at k = 12288 and 16384.
const OUT_OF_STEP: (f64, f64) = (50e6, 0.4);

/// Cycles that promoting a column of a k-block adds, 128 accumulators: with one set of accumulators
/// a consumer, and with two. Measured on an H200: 898 and 1028 TFLOP/s at 4096 x 4096 x 7168, tiles
/// of 128 x 128, 128x128 scales of B.
const PROMOTE: (f64, f64) = (2.6, 1.6);

/// How much longer it takes with a scale for each column: a load and four multiplies for four
/// multiply-adds, by their count.
const SCALED_COLUMNS: f64 = 2.25;

impl Cost {
    /// The cost of a configuration on a device of `sms` SMs.
    pub fn of(configuration: Configuration, problem: &GemmProblem, sms: u32) -> Self {
        let Configuration { tile, cluster, schedule, stream_k, split_k, .. } = configuration;
        let (rows, columns) = configuration.extents(problem);
        let group = cluster.0 * cluster.1 * split_k;
        let across = |extent: u32, tile: u32, cluster: u32| extent.div_ceil(tile * cluster);
        let of_one = across(rows, tile.0, cluster.0) * across(columns, tile.1, cluster.1);
        let all = of_one.saturating_mul(problem.batch.count);
        let k_blocks = problem.batch.problem.k.div_ceil(configuration.k(problem));
        let resident = clusters(stream_k, all, k_blocks, sms / group);
        // With split-K every tile has a cluster of its own.
        let clusters = if split_k == 1 { resident } else { all };
        let k_blocks = k_blocks.div_ceil(split_k);
        let area = f64::from(tile.0) * f64::from(tile.1);

        // A k-block multiplies, reads its operands from shared memory, and receives them from L2:
        // the longest decides.
        let depth = f64::from(configuration.k_bytes);
        let instructions = f64::from(tile.0) / 64.0 * depth / 32.0;
        let multiply = area * depth / MULTIPLY_BYTES / efficiency(tile);
        let read = instructions * f64::from(64 + tile.1) * 32.0 / 128.0;
        let rows_received = f64::from(tile.0 / cluster.1 + tile.1 / cluster.0);
        let received = rows_received * depth / L2_BYTES;
        let mainloop =
            f64::from(k_blocks) * (multiply + promotion(configuration, problem)).max(read).max(received);

        let even = f64::from(all) / f64::from(resident);
        let is_split = stream_k && !all.is_multiple_of(resident);
        let waves = if is_split { even } else { even.ceil() };
        let reduction = match is_split {
            false if split_k == 1 => 0.0,
            false => EXCHANGE.0 + EXCHANGE.1 * area * f64::from(split_k - 1) / f64::from(split_k),
            true if all > resident => {
                let high = f64::from(configuration.raster * cluster.0 * tile.0);
                let wide = f64::from(resident / configuration.raster * cluster.1 * tile.1);
                let read = (high + wide)
                    * f64::from(problem.batch.problem.k)
                    * f64::from(problem.types.input_bytes());
                let lost = OUT_OF_STEP.1 * (read / OUT_OF_STEP.0 - 1.0).max(0.0);
                AMONG_WAVES * (REDUCTION.0 + REDUCTION.1 * area) + 2.0 * lost * mainloop
            }
            true => REDUCTION.0 + REDUCTION.1 * area,
        };
        let epilogue = STORE * area;
        let busy = match schedule {
            Schedule::Cooperative => waves * mainloop + waves.ceil() * epilogue,
            // One is in its epilogue while the other is in its main loop, if there is more than one
            // tile.
            Schedule::Pingpong if waves <= 1.0 => waves * mainloop / ALONE + epilogue,
            Schedule::Pingpong => waves * mainloop.max((mainloop + epilogue) / 2.0) + epilogue,
        };
        let [m, n, k] =
            [problem.batch.problem.m, problem.batch.problem.n, problem.batch.problem.k].map(f64::from);
        let inputs = f64::from(problem.types.input_bytes()) * (m * k + k * n);
        let batch = f64::from(problem.batch.count);
        // The clock follows the power: what all SMs do together costs the time.
        let work =
            batch * m * n * k * f64::from(problem.types.input_bytes()) / MULTIPLY_BYTES / f64::from(sms);
        let active = work + IDLE * (busy - work).max(0.0);
        let energy = POWER * (1.0 + RECEIVED * rows_received / area) * active;
        let dram = batch * (inputs + f64::from(problem.types.output_bytes()) * m * n) / DRAM_BYTES;
        // Few SMs do not saturate DRAM: the last wave takes as long as if this part of the CTAs had
        // a tile.
        let least = READING_SMS * f64::from(sms) / f64::from(resident * group);
        let (full, last) = if is_split { (even, 0.0) } else { (even.trunc(), even.fract()) };
        let last = if last > 0.0 { last.max(least) } else { 0.0 };
        let dram = dram * (full * least.max(1.0) + last) / even;
        // What hides behind the other still costs a little.
        let cycles = FILL + busy.max(energy).max(dram) + 0.1 * busy.min(dram) + reduction;
        let (ctas, tiles) = (clusters * group, all * (group / split_k));
        Self { configuration, ctas, tiles, waves, mainloop, epilogue, reduction, dram, cycles }
    }

    /// The workspace of a stream-K launch: accumulators, and counters.
    pub(crate) fn workspace(&self) -> (usize, usize) {
        let Configuration { tile, cluster, schedule, .. } = self.configuration;
        let group = cluster.0 * cluster.1;
        // A part's index is the sum of its cluster's number and its tile's; at most two waves of
        // tiles are split.
        let (clusters, tiles) = (self.ctas / group, self.tiles / group);
        let split_tiles = tiles.min(2 * clusters);
        let area = tile.0 as usize * tile.1 as usize;
        let parts = (clusters + split_tiles) as usize * group as usize;
        (parts * area, parts * schedule.cooperating() as usize)
    }
}

/// Cycles of a k-block that promotion takes, beside its multiplication.
fn promotion(configuration: Configuration, problem: &GemmProblem) -> f64 {
    let Some((a, b)) = problem.scales else { return 0.0 };
    let columns = if configuration.transposed { a } else { b };
    let column = if configuration.accumulator_sets == 1 { PROMOTE.0 } else { PROMOTE.1 };
    let scale = if columns == Granularity::Row { SCALED_COLUMNS } else { 1.0 };
    column * scale * f64::from(configuration.tile.1)
}

/// Cycles from the end of a kernel to the start of the next one's work.
const NEXT_KERNEL: f64 = 3000.0;

/// Cycles of copying the operands that TMA cannot read.
fn staging_cycles(staged: StagedBatch, types: GemmTypes) -> f64 {
    let cycles = |bytes: f64| NEXT_KERNEL + bytes / DRAM_BYTES;
    staged.copies.into_iter().flatten().map(|copy| cycles(copy.bytes(types.input_bytes()))).sum()
}

/// Cycles of a batch with `mma.sync`.
fn mma_sync_cycles(configuration: MmaSyncConfiguration, batch: Batch, sms: u32) -> f64 {
    let gemm = MmaSyncGemm::new(batch, configuration);
    let Problem { m, n, k, .. } = batch.problem;
    let (rows, columns, _) = gemm.tile;
    // The part of the tensor cores' rate that is reached: with copies of 16 bytes measured on an
    // H200, with narrower ones estimated.
    let efficiency = match gemm.a_vector.min(gemm.b_vector) {
        8 => 0.45,
        4 => 0.4,
        2 => 0.3,
        _ => 0.15,
    };
    let depth = f64::from(k) * 2.0;
    let mainloop = rows as f64 * columns as f64 * depth / MULTIPLY_BYTES / efficiency;
    let tiles = f64::from(gemm.grid(m, n)) * f64::from(batch.count);
    FILL + (tiles / f64::from(sms)).ceil() * mainloop
}

/// Clusters of a launch. Where every tile is split, equal parts of whole tiles are best: all CTAs
/// then read the same k at the same time, and hit in L2 what the others have read.
fn clusters(stream_k: bool, tiles: u32, k_blocks: u32, max: u32) -> u32 {
    if !stream_k || tiles >= max {
        return tiles.min(max);
    }
    let even = tiles * (max / tiles);
    if 8 * even >= 7 * max { even } else { max }.min(tiles.saturating_mul(k_blocks))
}

/// The part of the tensor cores' rate that a tile's main loop reaches. (Narrow tiles, which wait
/// for DRAM: measured as a whole.)
fn efficiency(tile: (u32, u32)) -> f64 {
    match tile {
        (128.., 192..) => 0.98,
        (128.., 128..) => 0.97,
        _ => 0.70,
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { configuration, ctas, tiles, waves, mainloop, epilogue, reduction, dram, cycles } = self;
        write!(f, "{:<56} {ctas:>4} CTAs, {tiles:>6} tiles, {waves:>7.2} waves", configuration.to_string())?;
        write!(f, " of {mainloop:>8.0} + {epilogue:>6.0}, reduction {reduction:>6.0}, DRAM {dram:>8.0}")?;
        write!(f, ": {cycles:>9.0} cycles")
    }
}

/// The costs of all ranked configurations, the cheapest first.
pub fn rank(problem: &GemmProblem, sms: u32) -> Vec<Cost> {
    sorted(Configuration::all(problem), problem, sms)
}

fn sorted(configurations: Vec<Configuration>, problem: &GemmProblem, sms: u32) -> Vec<Cost> {
    let cost = |configuration| Cost::of(configuration, problem, sms);
    let mut costs: Vec<Cost> = configurations.into_iter().map(cost).collect();
    costs.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    costs
}

/// The algorithms for a problem on a device, the cheapest first: on Hopper the `wgmma` ones, unless
/// A or B would have to be copied for TMA and `mma.sync` takes less time than that. Groups along m
/// have those of groups of equal size.
pub(crate) fn algorithms(problem: &GemmProblem, capability: &Capability, sms: u32) -> Vec<Algorithm> {
    let problem = equal_groups(problem);
    if !has_wgmma(capability) || problem.batch.is_empty() {
        return ordered(&[], &problem, true);
    }
    let (costs, staged) = (rank(&problem, sms), StagedBatch::of(&problem));
    let mma_sync = || mma_sync_cycles(MmaSyncConfiguration::default(), problem.batch, sms);
    let prefers_mma_sync =
        !staged.is_unstaged() && mma_sync() < costs[0].cycles + staging_cycles(staged, problem.types);
    ordered(&costs, &problem, prefers_mma_sync)
}

/// The algorithms for problems of unlike extents that all have work, the cheapest first: those of
/// the average problem that leave tiles whole; and `mma.sync`, a launch for each.
pub(crate) fn grouped_algorithms(
    problems: &[Problem],
    types: GemmTypes,
    scales: Option<Granularities>,
    capability: &Capability,
    sms: u32,
) -> Vec<Algorithm> {
    let any = GemmProblem { scales, ..GemmProblem::new(Problem::new(1, 1, 1), types) };
    if problems.is_empty() || !has_wgmma(capability) {
        return ordered(&[], &any, true);
    }
    let costs = rank_grouped(&average(problems, types, scales), sms);
    let each = || problems.iter().map(|&problem| GemmProblem { scales, ..GemmProblem::new(problem, types) });
    let staging: f64 = each().map(|problem| staging_cycles(StagedBatch::of(&problem), types)).sum();
    let mma_sync =
        |problem: GemmProblem| mma_sync_cycles(MmaSyncConfiguration::default(), problem.batch, sms);
    let prefers_mma_sync = staging > 0.0
        && costs.first().is_none_or(|best| each().map(mma_sync).sum::<f64>() < best.cycles + staging);
    ordered(&costs, &any, prefers_mma_sync)
}

/// The `wgmma` algorithms of those costs, and before or after them `mma.sync`, if it computes the
/// problem.
fn ordered(costs: &[Cost], problem: &GemmProblem, prefers_mma_sync: bool) -> Vec<Algorithm> {
    let mut all: Vec<_> = costs.iter().map(|cost| Algorithm::Wgmma(cost.configuration)).collect();
    if mma_sync_computes(problem) {
        let mma_sync = Algorithm::MmaSync(MmaSyncConfiguration::default());
        all.insert(if prefers_mma_sync { 0 } else { all.len() }, mma_sync);
    }
    all
}

/// The costs of a group of that average problem, the cheapest first: tiles are not split.
pub(crate) fn rank_grouped(average: &GemmProblem, sms: u32) -> Vec<Cost> {
    rank(average, sms).into_iter().filter(|cost| !cost.configuration.splits()).collect()
}

/// As many problems of their average extents.
pub(crate) fn average(problems: &[Problem], types: GemmTypes, scales: Option<Granularities>) -> GemmProblem {
    let average = |extent: fn(&Problem) -> u32| {
        let sum: u64 = problems.iter().map(|problem| u64::from(extent(problem))).sum();
        sum.div_ceil(problems.len() as u64) as u32
    };
    let (m, n, k) =
        (average(|problem| problem.m), average(|problem| problem.n), average(|problem| problem.k));
    let batch = Batch::new(Problem::new(m, n, k), problems.len() as u32);
    GemmProblem { scales, ..GemmProblem::new(batch, types) }
}

/// For groups along m, a batch of groups of equal problem, for which their algorithm is chosen;
/// similar row counts have the same.
pub(crate) fn equal_groups(problem: &GemmProblem) -> GemmProblem {
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
pub(crate) fn searched(problem: &GemmProblem, capability: &Capability, sms: u32) -> Vec<Algorithm> {
    let staging = staging_cycles(StagedBatch::of(problem), problem.types);
    let wgmma = sorted(Configuration::searched(problem), problem, sms).into_iter();
    let wgmma = wgmma.map(|cost| (cost.cycles + staging, Algorithm::Wgmma(cost.configuration)));
    let mma_sync = MmaSyncConfiguration::all(capability).into_iter();
    let mma_sync = mma_sync.map(|configuration| {
        (mma_sync_cycles(configuration, problem.batch, sms), Algorithm::MmaSync(configuration))
    });
    let mut all: Vec<_> =
        wgmma.chain(mma_sync).filter(|(_, algorithm)| algorithm.check(problem, capability).is_ok()).collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let all: Vec<Algorithm> = all.into_iter().map(|(_, algorithm)| algorithm).collect();
    let first_of = |wgmma: bool| all.iter().copied().find(|algorithm| algorithm.is_wgmma() == wgmma);
    let first: Vec<_> = [true, false].into_iter().filter_map(first_of).collect();
    let others = all.iter().copied().filter(|algorithm| !first.contains(algorithm));
    first.iter().copied().chain(others).collect()
}

/// The legal algorithms that differ from one in one parameter.
pub(crate) fn around(algorithm: Algorithm, problem: &GemmProblem, capability: &Capability) -> Vec<Algorithm> {
    match algorithm {
        Algorithm::MmaSync(configuration) => {
            configuration.around(capability).into_iter().map(Algorithm::MmaSync).collect()
        }
        Algorithm::Wgmma(configuration) => {
            configuration.around(problem).into_iter().map(Algorithm::Wgmma).collect()
        }
    }
}

/// Lines of the table of costs.
const SHOWN: usize = 12;

/// What `--explain` prints: the cheapest configurations, the chosen one marked; which operands are
/// copied; and the choice with its reason. `of` names what they are the configurations of.
pub(crate) fn explain(
    of: &str,
    costs: &[Cost],
    chosen: Algorithm,
    copies: impl IntoIterator<Item = String>,
    reason: &str,
) -> String {
    let mut lines = vec![format!("rank  {} configurations{of}, by the cost model", costs.len())];
    let shown = costs.iter().enumerate();
    let shown = shown.map(|(rank, cost)| (rank, cost, Algorithm::Wgmma(cost.configuration) == chosen));
    lines.extend(
        shown.filter(|(rank, _, is_chosen)| *rank < SHOWN || *is_chosen).map(|(rank, cost, is_chosen)| {
            format!("{:>2}{rank:>3} {cost}", if is_chosen { "->" } else { "" })
        }),
    );
    lines.extend(copies);
    lines.push(format!("{chosen}: {reason}"));
    lines.join("\n")
}

/// Why the heuristic chooses an algorithm.
pub(crate) fn reason(algorithm: Algorithm, capability: &Capability) -> &'static str {
    match algorithm {
        Algorithm::Wgmma(_) => "the cheapest by the cost model",
        Algorithm::MmaSync(_) if has_wgmma(capability) => {
            "TMA cannot read A and B as they are, and copying them takes longer"
        }
        Algorithm::MmaSync(_) => "wgmma needs sm_90a",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles that are all split get equal numbers of whole parts, if that leaves few SMs idle.
    #[test]
    fn parts_are_equal_if_tiles_are_few() {
        for ((stream_k, tiles, k_blocks), expected) in [
            ((true, 32, 256), 64),
            ((true, 48, 64), 66),
            ((true, 3, 5), 15),
            ((true, 100, 64), 66),
            ((false, 32, 256), 32),
        ] {
            assert_eq!(clusters(stream_k, tiles, k_blocks, 66), expected);
        }
    }
}
