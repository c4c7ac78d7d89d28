//! The cost model: cycles that a configuration takes for a problem on an H200. Their ratios are fitted,
//! between configurations of a problem.
//!
//! ```text
//! cycles       launch + phase of whole tiles + phase of split tiles + reduction
//! phase        the larger of busy and dram, and a part of the other:  (busy^3 + dram^3)^(1/3)
//! busy         of an SM: waves x main loop + epilogue; longer by the part of the tiles outside C
//! main loop    k-blocks x ((sm^5 + gpc^5)^(1/5) + energy)
//! sm           (multiply^10 + read^10 + receive^10 + request^10 + latency^10)^(1/10)
//! multiply     tile, at the rate of the tensor cores
//! read         A and B from shared memory, by wgmma
//! receive      A and B from L2: multicast rows arrive no faster than others
//! request      by TMA: rows that do not begin at lines of L2, and boxes narrower than a line; requests of another
//!              CTA cost nothing
//! latency      of a stage, by the stages that are requested at a time
//! gpc          rows of A and B that L2 sends to the busiest GPC, once for all its SMs: `gpc.rs`
//! energy       of the operands from L2, where multicast rows count once: the clock follows the power
//! edges        TMA fills rows outside of A and B slowly: the last tile of a row or a column of tiles may
//!              take longer than all others, and its main loop counts once
//! epilogue     elements of the tile; more in narrow boxes. Pingpong hides it
//! dram         A, B and C once, and a part of each further reading of A and B by other tiles
//! split tiles  read their operands at unlike k: what does not stay in L2 is read for each tile
//! ```
//!
//! The constants of the H200 are those with which it reproduces 14,900 times of 829 shapes within 5.0% of each
//! other, and 2,400 of 200 others since within 5.5%: `docs/results/2026-11-24-gemm-shapes.md`. Others name their
//! source. Those of the B200 are not confirmed on hardware.

use std::fmt;

use super::candidates::NARROWEST;
use super::config::{Configuration, TmaInstruction};
use super::gpc::Launch;
use crate::gemm::device::reduction::slice_columns;
use crate::gemm::device::schedule::Schedule;
use crate::gemm::problem::batching::{GemmProblem, Problem};
use crate::gemm::problem::scales::Granularity;
use crate::gemm::problem::types::MatrixLayout;

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
    /// Cycles until the first stage is requested.
    pub launch: f64,
    /// Cycles of the main loops and epilogues of all waves, and of DRAM traffic beside them.
    pub phases: f64,
    /// The sum of launch, phases and reduction.
    pub cycles: f64,
}

/// What an SM, L2 and DRAM do in a cycle of an SM.
#[derive(Debug)]
pub(super) struct Machine {
    /// Bytes of operands that an SM's tensor cores multiply.
    pub(super) multiply_bytes: f64,
    /// The part of that rate that a main loop reaches.
    multiplying: f64,
    /// Rows of A that the tensor cores read from shared memory with all columns of B.
    rows: f64,
    /// Bytes that an SM reads from shared memory.
    shared_bytes: f64,
    /// Bytes that reach an SM from L2.
    l2_bytes: f64,
    /// Bytes that reach a GPC from L2.
    gpc_bytes: f64,
    /// Bytes of DRAM traffic.
    pub(super) dram_bytes: f64,
    /// Bytes of an operand of which nothing stays in L2 until the next tile reads it.
    evicted: f64,
}

/// An H200: 1024 multiply-adds of 16 bits a tensor core in two cycles (NVIDIA H100 white
/// paper, table 2), 32 banks of 4 bytes, 4.2 TB/s at 1.5 GHz.
pub(super) const H200: Machine = Machine {
    multiply_bytes: 4096.0,
    multiplying: 0.736,
    rows: 64.0,
    shared_bytes: 128.0,
    l2_bytes: 62.5,
    gpc_bytes: 504.0,
    dram_bytes: 2800.0,
    evicted: 43.7e6,
};

/// A B200 at 1.85 GHz, not confirmed on hardware: 2250 TFLOP/s of 16 bits, 8 TB/s of which 0.9 are
/// reached, 126 MB of L2 (NVIDIA Blackwell architecture technical brief). The other numbers are those
/// of the H200.
const B200: Machine = Machine {
    multiply_bytes: 8192.0,
    rows: 128.0,
    gpc_bytes: f64::INFINITY,
    dram_bytes: 3900.0,
    evicted: 190e6,
    ..H200
};

impl Machine {
    /// The GPU that has the instruction.
    pub(super) fn of(instruction: TmaInstruction) -> &'static Self {
        match instruction {
            TmaInstruction::Wgmma => &H200,
            TmaInstruction::Tcgen05 => &B200,
        }
    }

    /// The GPU that a configuration is for.
    fn of_schedule(schedule: Schedule) -> &'static Self {
        match schedule {
            Schedule::Cooperative | Schedule::Pingpong => &H200,
            Schedule::TensorMemory | Schedule::PairedTensorMemory => &B200,
        }
    }
}

/// Bytes of a line of L2.
const LINE: u64 = 128;

/// Cycles until a requested stage is full.
const STAGE: f64 = 2260.0;

/// What a main loop costs with two blocks of 64 rows and up to 128 columns a consumer.
const TALL: f64 = 1.029;

/// Cycles of an accumulator's element in the epilogue.
const STORE: f64 = 0.074;

/// What stores in boxes of 64 bytes and of fewer cost, for each of 128 bytes.
const NARROW_BOXES: (f64, f64) = (1.3, 1.8);

/// What the part of the tiles outside C costs, for each of the part inside.
const OUTSIDE: f64 = 0.77;

/// Cycles that TMA takes for 128 bytes of a row of A or B in one line of L2, and in two: 3000 x 5000 x 7000,
/// whose rows have 14,000 bytes, takes 437 us in tiles of 128x192, and 3000 x 5000 x 7040 takes 322. Fitted to
/// 500 times of 29 shapes, `docs/results/2026-11-24-gemm-shapes.md`.
const TMA: (f64, f64) = (2.1, 4.27);

/// The same for a row of a box of 64 or 32 bytes: 14336 x 4096 x 8192 with a column-major A takes 1,696 us in tiles
/// of 128x176 (boxes of 32 bytes), and 1,366 us in tiles of 128x160 (64). Fitted to
/// `docs/results/2026-11-29-gemm-boxes.json`.
const TMA_NARROW: f64 = 2.4;

/// The same for a row outside, which it fills with zeros: 576 x 1024 x 12544 in 16 x 8 tiles of 64x80, the last
/// of 64 x 16, takes 48.3 us, and in 9 x 13 of which the last is 64 x 64, 33.3 us.
const TMA_OUTSIDE: f64 = 4.0;

/// Bytes from L2 that reach an SM whose CTA is in a cluster, for each that reaches one without.
const RECEIVING_CLUSTER: f64 = 0.9;

/// The same if the CTAs of a cluster share a tile's k, and if clusters share it.
const RECEIVING_PARTS: (f64, f64) = (0.79, 0.76);

/// The energy of operands that come to an SM, of which the clock is lower: what a row of A or B
/// from L2 costs, for each element of C that it is multiplied for. Twelve in GEMMs that run alone,
/// `docs/results/2026-11-21-gemm-energy.md`; among others the clock follows slowly: from 0 to 2 the recorded times
/// agree equally well.
const RECEIVED: f64 = 2.0;

/// The part of the SMs that saturates DRAM: `docs/results/2026-11-22-read-bandwidth.md`.
const READING_SMS: f64 = 0.98;

/// The part of an operand that each further tile of a wave reads from DRAM again.
const READ_AGAIN: f64 = 0.135;

/// Cycles of a launch outside of any tile: until the first stage is full, and after the last store.
pub(super) const LAUNCH: f64 = 4970.0;

/// Cycles that a launch of clusters takes longer, and with tiles of up to [`NARROWEST`] columns: times of products
/// of decodes, `docs/results/2026-11-23-gemm-shapes.md`. None if the CTAs share B and load it before the
/// predecessor ends.
const CLUSTER: (f64, f64) = (1610.0, 350.0);

/// What a kernel with stream-K costs, for each without, with parts of tiles that are equal, and that are
/// of any length.
const STREAM_K: (f64, f64) = (1.078, 1.042);

/// Cycles until the parts of a split tile are known to be there; and cycles of adding them, for an area of
/// one element. The first from times of products of decodes, `docs/results/2026-11-23-gemm-shapes.md`.
const REDUCTION: (f64, f64) = (1800.0, 23.2);

/// How these cycles grow with the area of a tile.
const REDUCTION_EXPONENT: f64 = 0.6;

/// The part of them that grows with the parts that a CTA adds to each of its slices' share.
const REDUCTION_OF_PARTS: f64 = 0.19;

/// How much longer it takes if tiles are split into unequal parts: a CTA has parts of two tiles.
const UNEQUAL: f64 = 1.28;

/// Cycles until what the CTAs of a cluster send each other has arrived, and cycles for an element
/// of it.
const EXCHANGE: (f64, f64) = (700.0, 0.28);

/// Cycles from the end of a cluster to the first k-block of the next one, with split-K.
const NEXT_CLUSTER: f64 = 8350.0;

/// The part of the SMs that clusters of 3 to 8 CTAs occupy at a time: a cluster is in one GPC, and
/// the numbers of SMs of GPCs are no multiples of it. An H200 holds 66 clusters of 2, 39 of 3, 30 of
/// 4 and 15 of 8 with an SM for each CTA (`cuOccupancyMaxActiveClusters`).
const CLUSTERED: f64 = 0.89;

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
        let Configuration { tile, stream_k, split_k, .. } = configuration;
        let division = Division::of(configuration, problem, sms);
        let Division { tiles, running, group, apart, outside, .. } = division;
        let area = f64::from(tile.0) * f64::from(tile.1);
        let waves = division.waves();

        let k_blocks = problem.batch.problem.k.div_ceil(configuration.k(problem)).div_ceil(split_k);
        let k_block = division.k_block(configuration, problem, sms);
        let mainloop = f64::from(k_blocks) * k_block * division.slowed(configuration, problem, k_block);
        let epilogue = STORE * area * narrow_boxes(configuration, problem);
        let busy = division.busy(configuration, mainloop, epilogue)
            * (1.0 + OUTSIDE * outside)
            * match stream_k {
                true if apart > 0.0 => STREAM_K.1,
                true => STREAM_K.0,
                false => 1.0,
            };

        let (in_step, out_of_step) = division.dram(configuration, problem, sms);
        let phases = together([busy * (1.0 - apart), in_step], 3) + together([busy * apart, out_of_step], 3);
        let reduction = division.reduction(configuration);
        let cluster = if tile.1 <= NARROWEST { CLUSTER.1 } else { CLUSTER.0 };
        let starts_late = group > 1 && !preloads_together(configuration, problem);
        let launch = LAUNCH + if starts_late { cluster } else { 0.0 };
        let cycles = launch + phases + reduction;
        // With split-K every tile has a cluster of its own.
        let clusters = if split_k == 1 { running } else { tiles };
        let (ctas, tiles) = (clusters * group, tiles * (group / split_k));
        let dram = in_step + out_of_step;
        Self {
            configuration,
            ctas,
            tiles,
            waves,
            mainloop,
            epilogue,
            reduction,
            dram,
            launch,
            phases,
            cycles,
        }
    }

    /// [`waves`](Self::waves) alone.
    pub(super) fn waves(configuration: Configuration, problem: &GemmProblem, sms: u32) -> f64 {
        Division::of(configuration, problem, sms).waves()
    }

    /// Whether stream-K splits every tile into equal parts, and a CTA has one of them.
    pub(crate) fn splits_equally(configuration: Configuration, problem: &GemmProblem, sms: u32) -> bool {
        let division = Division::of(configuration, problem, sms);
        !problem.along_m && division.is_split && division.apart == 0.0
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
        (parts * area, parts * schedule.parts(tile.1) as usize)
    }
}

/// How the tiles of a problem are divided among clusters.
struct Division {
    /// Tiles of clusters along the rows and the columns of C, or of its transpose.
    across: (u32, u32),
    /// All of them, of all problems.
    tiles: u32,
    /// Clusters that run at a time.
    running: u32,
    /// CTAs of each.
    group: u32,
    /// Tiles of each, if all had equally many.
    even: f64,
    /// Whether tiles are split among clusters.
    is_split: bool,
    /// The part of the k-blocks that clusters multiply at unlike k.
    apart: f64,
    /// The part of the tiles' rows outside C, and of their columns.
    outside: f64,
}

impl Division {
    fn of(configuration: Configuration, problem: &GemmProblem, sms: u32) -> Self {
        let Configuration { tile, cluster, stream_k, split_k, .. } = configuration;
        let (rows, columns) = configuration.extents(problem);
        let group = cluster.0 * cluster.1 * split_k;
        let of_cluster = (tile.0 * cluster.0, tile.1 * cluster.1);
        let across = (rows.div_ceil(of_cluster.0), columns.div_ceil(of_cluster.1));
        let tiles = across.0.saturating_mul(across.1).saturating_mul(problem.batch.count);
        let k_blocks = problem.batch.problem.k.div_ceil(configuration.k(problem));
        let running = clusters(stream_k, tiles, k_blocks, resident(group, sms));
        let even = f64::from(tiles) / f64::from(running);
        let is_split = stream_k && !tiles.is_multiple_of(running);
        let apart = match is_split {
            true if tiles > running => ((1.0 + even.fract()) / even).min(1.0),
            true if !running.is_multiple_of(tiles) => 1.0,
            _ => 0.0,
        };
        let part = |extent: u32, tiles: u32, tile: u32| {
            1.0 - f64::from(extent) / (f64::from(tiles) * f64::from(tile))
        };
        let outside = part(rows, across.0, of_cluster.0) + part(columns, across.1, of_cluster.1);
        Self { across, tiles, running, group, even, is_split, apart, outside }
    }

    /// Tiles of the busiest cluster; of split ones, a part.
    fn waves(&self) -> f64 {
        if self.is_split { self.even } else { self.even.ceil() }
    }

    /// Cycles of the busiest SM.
    fn busy(&self, Configuration { tile, schedule, .. }: Configuration, mainloop: f64, epilogue: f64) -> f64 {
        let waves = self.waves();
        match schedule {
            Schedule::Cooperative => {
                let stores = waves.ceil() + if self.apart > 0.0 { 1.0 } else { 0.0 };
                let tall = if tile.0 == 256 && tile.1 <= 128 { TALL } else { 1.0 };
                tall * waves * mainloop + stores * epilogue
            }
            // One is in its epilogue while the other is in its main loop, if there is more than one
            // tile.
            Schedule::Pingpong if waves <= 1.0 => waves * mainloop + epilogue,
            Schedule::Pingpong => waves * mainloop.max((mainloop + epilogue) / 2.0) + epilogue,
            // A tile is stored while the next is multiplied.
            Schedule::TensorMemory | Schedule::PairedTensorMemory => {
                waves * mainloop.max(epilogue) + epilogue
            }
        }
    }

    /// Cycles of a k-block of a tile: it multiplies, reads its operands from shared memory, and receives
    /// them from L2.
    fn k_block(&self, configuration: Configuration, problem: &GemmProblem, sms: u32) -> f64 {
        let Configuration { tile, cluster, k_bytes, stages, schedule, .. } = configuration;
        let Self { across, tiles, running, group, .. } = *self;
        let machine = Machine::of_schedule(schedule);
        let (rows, columns) = (f64::from(tile.0), f64::from(tile.1));
        let depth = f64::from(k_bytes);
        let multiply = rows * columns * depth / (machine.multiply_bytes * machine.multiplying);
        let promotion = promotion(configuration, problem);
        // One thread multiplies into tensor memory while others promote what is there.
        let multiply =
            if schedule.group().is_some() { multiply.max(promotion) } else { multiply + promotion };
        // Each instruction reads its rows of A and all of B.
        // Of a pair each CTA has its part of B.
        let loaded = columns / f64::from(schedule.pair());
        let read = rows / machine.rows * (machine.rows + loaded) * depth / machine.shared_bytes;
        let receive = (rows + loaded) * depth / (machine.l2_bytes * self.receiving(configuration));
        // Rows of A and B that come for this SM alone, or that it requests for others too.
        let of_operands = [tile.0 / cluster.1, tile.1 / cluster.0].map(f64::from);
        let requested = of_operands[0] + of_operands[1];
        let cycles = of_a_line(configuration, problem);
        let request = (of_operands[0] * cycles[0] + of_operands[1] * cycles[1]) * depth / LINE as f64;
        let latency = STAGE / f64::from(stages.saturating_sub(1).max(1));
        let sm = together([multiply, read, receive, request, latency], 10);
        let gpc = Launch { across, tiles, running, group, sms }.received_rows(configuration);
        together([sm, gpc * depth / machine.gpc_bytes], 5)
            + RECEIVED * requested * depth / machine.multiply_bytes
    }

    /// How much longer the main loops of the busiest SM take because tiles at the edges of C have rows
    /// outside, for tiles inside whose k-blocks take `k_block` cycles.
    fn slowed(&self, configuration: Configuration, problem: &GemmProblem, k_block: f64) -> f64 {
        let Configuration { tile, cluster, k_bytes, .. } = configuration;
        let (rows, columns) = configuration.extents(problem);
        // Rows of A, or of B, of the last tile, which may be all outside.
        let last = |extent: u32, across: u32, ctas: u32, tile: u32| {
            let before = u64::from(across * ctas).saturating_sub(1) * u64::from(tile);
            u64::from(extent).saturating_sub(before) as u32
        };
        let of_a = last(rows, self.across.0, cluster.0, tile.0);
        let of_b = last(columns, self.across.1, cluster.1, tile.1);
        // No tile has more outside than that of the corner.
        let (inside, outside) = (f64::from(of_a + of_b), f64::from(tile.0 + tile.1 - of_a - of_b));
        if outside == 0.0 {
            return 1.0;
        }
        let of_row = if begin_at_lines(problem) { TMA.0 } else { TMA.1 };
        let slowest = (of_row * inside + TMA_OUTSIDE * outside) * f64::from(k_bytes) / LINE as f64;
        let below = if of_a < tile.0 { self.across.1 } else { 0 };
        let beside = if of_b < tile.1 { self.across.0 } else { 0 };
        let tiles = f64::from(below) + f64::from(beside);
        let part = ((tiles / f64::from(self.running)).max(1.0) / self.waves()).min(1.0);
        1.0 + (slowest / k_block - 1.0).max(0.0) * part
    }

    /// Bytes that reach an SM from L2, for each that reaches a CTA without a cluster with a tile of its own.
    fn receiving(&self, Configuration { split_k, .. }: Configuration) -> f64 {
        match () {
            () if split_k > 1 => RECEIVING_PARTS.0,
            () if self.group > 1 => RECEIVING_CLUSTER,
            () if self.is_split && self.tiles < self.running => RECEIVING_PARTS.1,
            () => 1.0,
        }
    }

    /// Cycles of adding the parts of split tiles.
    fn reduction(&self, Configuration { tile, split_k, .. }: Configuration) -> f64 {
        let area = f64::from(tile.0) * f64::from(tile.1);
        if split_k > 1 {
            let sent = area * f64::from(split_k - 1) / f64::from(split_k);
            return EXCHANGE.0 + EXCHANGE.1 * sent + NEXT_CLUSTER * (self.waves() - 1.0);
        }
        if !self.is_split {
            return 0.0;
        }
        // Equal parts are added by as many CTAs as there are slices, unequal ones by one.
        let parts = self.running.div_ceil(self.tiles).max(2);
        let adding = if self.apart > 0.0 { 1 } else { parts.min(tile.1 / slice_columns(tile.1, false)) };
        let parts = f64::from(parts) / f64::from(adding);
        let of_parts = 1.0 + REDUCTION_OF_PARTS * (parts - 1.0);
        let unequal = if self.apart > 0.0 { UNEQUAL } else { 1.0 };
        unequal * (REDUCTION.0 + REDUCTION.1 * area.powf(REDUCTION_EXPONENT) * of_parts)
    }

    /// Cycles of DRAM traffic: while clusters multiply the same k, and while they multiply unlike k.
    fn dram(&self, configuration: Configuration, problem: &GemmProblem, sms: u32) -> (f64, f64) {
        let machine = Machine::of_schedule(configuration.schedule);
        let [rows, columns] = <[u32; 2]>::from(configuration.extents(problem)).map(f64::from);
        let count = f64::from(problem.batch.count);
        let depth = f64::from(problem.batch.problem.k) * f64::from(problem.types.input_bits()) / 8.0;
        let output = f64::from(problem.types.output_bytes());
        let once = count * ((rows + columns) * depth + rows * columns * output);

        // Few SMs do not saturate DRAM: the last wave takes as long as if this part of the CTAs had
        // a tile.
        let least = READING_SMS * f64::from(sms) / (f64::from(self.running) * f64::from(self.group));
        let last = if self.is_split { 0.0 } else { self.even.fract() };
        let as_long = if last > 0.0 { last.max(least) } else { 0.0 };
        let once = once * ((self.even - last) * least.max(1.0) + as_long) / self.even;

        // Each operand is read for each tile across; what of it stays in L2 is read once.
        let again = |part: f64| {
            let of_operand = |extent: f64, tiles: u32| {
                let bytes = extent * depth;
                bytes * f64::from(tiles.saturating_sub(1)) * (bytes * part / machine.evicted).min(1.0)
            };
            count * (of_operand(rows, self.across.1) + of_operand(columns, self.across.0))
        };
        let in_step = (1.0 - self.apart) * (once + READ_AGAIN * again(1.0));
        let out_of_step = self.apart * (once + again(self.apart));
        (in_step / machine.dram_bytes, out_of_step / machine.dram_bytes)
    }
}

/// Clusters that run at a time.
fn resident(ctas: u32, sms: u32) -> u32 {
    let occupied = if ctas > 2 { CLUSTERED } else { 1.0 };
    ((occupied * f64::from(sms)) as u32 / ctas).max(1)
}

/// Clusters of a launch. Where every tile is split, equal parts of whole tiles are best: all CTAs
/// then read the same k at the same time, and hit in L2 what the others have read.
fn clusters(stream_k: bool, tiles: u32, k_blocks: u32, max: u32) -> u32 {
    if !stream_k || tiles >= max {
        return tiles.min(max);
    }
    let parts = max / tiles;
    // Equal parts may leave an eighth of the SMs idle instead of splitting tiles at all, and a
    // quarter instead of unequal parts.
    let (of, least) = if parts == 1 { (8, 7) } else { (4, 3) };
    let even = tiles * parts;
    if of * even >= least * max { even } else { max }.min(tiles.saturating_mul(k_blocks))
}

/// Times of what happens together: the longest, and a part of the others, the less the higher the
/// exponent.
fn together<const N: usize>(times: [f64; N], exponent: i32) -> f64 {
    times.map(|time| time.powi(exponent)).iter().sum::<f64>().powf(1.0 / f64::from(exponent))
}

/// Whether CTAs of a cluster share B, which they load before the predecessor ends.
fn preloads_together(configuration: Configuration, problem: &GemmProblem) -> bool {
    let Configuration { cluster: (along_m, along_n), transposed, .. } = configuration;
    problem.preloads_b && if transposed { along_n > 1 } else { along_m > 1 }
}

/// Cycles in which TMA requests 128 bytes of A, and of B. Requests of 128-byte rows that begin at lines cost nothing,
/// because the arrival of the data hides them; if one operand has narrower boxes, the requests of both count.
fn of_a_line(configuration: Configuration, problem: &GemmProblem) -> [f64; 2] {
    let boxes = boxes_of_a_line(configuration, problem).map(f64::from);
    let least = match () {
        () if !begin_at_lines(problem) => TMA.1,
        () if boxes == [1.0; 2] => 0.0,
        () => TMA.0,
    };
    boxes.map(|boxes| if boxes > 1.0 { least.max(TMA_NARROW * boxes) } else { least })
}

/// Rows of boxes that have 128 bytes of A, and of B. A tile whose rows or columns are contiguous is loaded in boxes as
/// wide as the widest swizzle that divides it: 176 columns of 16 bits, in boxes of 32 bytes.
fn boxes_of_a_line(Configuration { tile, transposed, .. }: Configuration, problem: &GemmProblem) -> [u32; 2] {
    let Problem { a, b, .. } = problem.batch.problem;
    let (a, b) = if transposed { (b.transposed(), a.transposed()) } else { (a, b) };
    let k_is_contiguous = [a == MatrixLayout::RowMajor, b == MatrixLayout::ColumnMajor];
    let boxes = |extent: u32, k_is_contiguous: bool| {
        let bytes = extent * problem.types.input_bits() / 8;
        let width = [128, 64, 32].into_iter().find(|width| bytes.is_multiple_of(*width));
        if k_is_contiguous { 1 } else { LINE as u32 / width.unwrap_or(16) }
    };
    [boxes(tile.0, k_is_contiguous[0]), boxes(tile.1, k_is_contiguous[1])]
}

/// Whether all rows of A and B begin at lines of L2.
fn begin_at_lines(problem: &GemmProblem) -> bool {
    let Problem { m, n, k, a, b } = problem.batch.problem;
    let a = if a == MatrixLayout::RowMajor { k } else { m };
    let b = if b == MatrixLayout::RowMajor { n } else { k };
    let bits = u64::from(problem.types.input_bits());
    [a, b].iter().all(|&extent| (u64::from(extent) * bits).is_multiple_of(8 * LINE))
}

/// What the boxes in which a tile is stored cost, for each of 128 bytes.
fn narrow_boxes(configuration: Configuration, problem: &GemmProblem) -> f64 {
    let row = configuration.tile.1 * problem.types.output_bytes();
    match () {
        () if row.is_multiple_of(128) => 1.0,
        () if row.is_multiple_of(64) => NARROW_BOXES.0,
        () => NARROW_BOXES.1,
    }
}

/// Cycles of a k-block that promotion takes. Those of the B200 are not confirmed on hardware.
fn promotion(configuration: Configuration, problem: &GemmProblem) -> f64 {
    let Some((a, b)) = problem.types.scaling.granularities() else { return 0.0 };
    let columns = if configuration.transposed { a } else { b };
    let column = if configuration.accumulator_sets == 1 { PROMOTE.0 } else { PROMOTE.1 };
    let scale = if columns == Granularity::Row { SCALED_COLUMNS } else { 1.0 };
    column * scale * f64::from(configuration.tile.1)
}

/// The heads of what a [`Cost`] prints.
pub(super) fn heads() -> String {
    let head = format!("{:<56} {:>5} {:>7} {:>7}", "configuration", "CTAs", "tiles", "waves");
    let of_wave = format!("{:>9} {:>8} {:>9}", "main loop", "epilogue", "DRAM");
    format!("{head} {of_wave} | {:>6} + {:>9} + {:>9} = {:>9}", "launch", "phases", "reduction", "cycles")
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { configuration, ctas, tiles, waves, mainloop, epilogue, dram, .. } = self;
        let Self { launch, phases, reduction, cycles, .. } = self;
        write!(f, "{:<56} {ctas:>5} {tiles:>7} {waves:>7.2}", configuration.to_string())?;
        write!(f, " {mainloop:>9.0} {epilogue:>8.0} {dram:>9.0}")?;
        write!(f, " | {launch:>6.0} + {phases:>9.0} + {reduction:>9.0} = {cycles:>9.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No more clusters than `cuOccupancyMaxActiveClusters` returns on an H200: another would begin
    /// after the others.
    #[test]
    fn clusters_fit_in_gpcs() {
        for (ctas, most) in [(1, 132), (2, 66), (3, 39), (4, 30), (8, 15)] {
            let resident = resident(ctas, 132);
            assert!((most - 1..=most).contains(&resident), "{resident} clusters of {ctas}");
        }
    }

    /// Tiles that are all split get equal numbers of whole parts, if that leaves few SMs idle.
    #[test]
    fn parts_are_equal_if_tiles_are_few() {
        for ((stream_k, tiles, k_blocks), expected) in [
            ((true, 32, 256), 64),
            ((true, 48, 64), 66),
            ((true, 3, 5), 15),
            ((true, 100, 64), 66),
            ((true, 28, 64), 56),
            ((true, 24, 64), 66),
            ((true, 57, 64), 66),
            ((true, 58, 64), 58),
            ((false, 32, 256), 32),
        ] {
            assert_eq!(clusters(stream_k, tiles, k_blocks, 66), expected, "{tiles} tiles");
        }
    }
}
