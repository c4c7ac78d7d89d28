//! What a configuration costs: a model in cycles of an SM, of the tensor cores, L2, memory and the epilogue.

use std::fmt;

use super::Gemm;
use super::batched::Batch;
use super::hopper::Consumers;
use super::multiply::Product;
use super::plan::{Configuration, SPAN_BYTES, Shape};

/// What a configuration costs for a shape, in cycles of an SM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The configuration.
    pub configuration: Configuration,
    /// CTAs of the launch.
    pub ctas: u32,
    /// CTAs' tiles of C.
    pub tiles: u32,
    /// Tiles that the busiest CTA computes; of split ones, a part.
    pub rounds: f64,
    /// Cycles until a whole tile is multiplied.
    pub multiply: f64,
    /// Cycles of its epilogue.
    pub store: f64,
    /// Cycles that the parts of a split tile take to meet.
    pub exchange: f64,
    /// Cycles that global memory needs.
    pub memory: f64,
    /// All together.
    pub cycles: f64,
}

/// Bytes of inputs that an SM's tensor cores multiply by one another in a cycle: 1024 multiply-adds of 16 bits a tensor core in two.
/// (NVIDIA H100 white paper, table 2.)
const MULTIPLY_BYTES: f64 = 4096.0;

/// Bytes that reach an SM from L2 in a cycle: measured on an H200, 128 x 128 without a cluster.
const L2_BYTES: f64 = 56.0;

/// Bytes of global memory that an H200 moves in a cycle of its SMs: 4.2 TB/s at 1.7 GHz.
const MEMORY_BYTES: f64 = 2450.0;

/// The part of the SMs that it takes to read all that memory gives.
const READING_SMS: f64 = 0.85;

/// Cycles of a launch that no tile takes: until the first slot has come, and from the last store to the end. This and what follows: cycles that
/// a profiler counted on an H200, `docs/results/2026-11-21-gemm-energy.md`.
const FILL: f64 = 6000.0;

/// The part of its rate that one consumer reaches while the other has nothing to multiply.
const ALONE: f64 = 0.9;

/// Cycles a tile's element takes in the epilogue, and until the next tile is multiplied.
const STORE: f64 = 0.12;

/// Cycles that a product takes for each that its multiplications alone take, if the power limit lets the clock be no higher, and no operand
/// cost energy on its way to an SM.
const POWER: f64 = 1.17;

/// What operands that come to an SM cost in addition: for each row of a step's tiles of A and B that L2 sends, a part of what it costs to
/// multiply as many elements of C. (Tiles of 256 x 192 receive a third less than those of 128 x 192, and are up to 5% faster at the same
/// power with more cycles.)
const RECEIVED: f64 = 12.0;

/// What an SM costs while it does not multiply.
const IDLE: f64 = 0.6;

/// Cycles until the parts of a split tile are known to be there, and cycles for an element of them.
const EXCHANGE: (f64, f64) = (3000.0, 0.45);

/// How much more splitting costs where other tiles are whole: CTAs no longer read the same k at the same time.
const AMONG_ROUNDS: f64 = 2.0;

/// Bytes of an H200's L2, and what part of the split rounds is lost, for each time that what a round reads is larger: measured at
/// k = 12288 and 16384.
const OUT_OF_STEP: (f64, f64) = (50e6, 0.4);

impl Cost {
    /// The cost of a configuration on a device of `sms` SMs.
    pub fn of(configuration: Configuration, shape: Shape, sms: u32) -> Self {
        Self::with_work_beside(configuration, shape, sms, 0.0)
    }

    /// The cost where each step along k takes so many cycles beside the multiplication.
    pub(super) fn with_work_beside(
        configuration: Configuration,
        shape: Shape,
        sms: u32,
        beside: f64,
    ) -> Self {
        let Configuration { tile, cluster, consumers, split, .. } = configuration;
        let (rows, columns) = configuration.extents(shape);
        let group = cluster.0 * cluster.1;
        let across = |extent: u32, tile: u32, cluster: u32| extent.div_ceil(tile * cluster);
        let of_one = across(rows, tile.0, cluster.0) * across(columns, tile.1, cluster.1);
        let places = of_one.saturating_mul(shape.batch);
        let steps = shape.k.div_ceil(configuration.depth(shape));
        let clusters = clusters(split, places, steps, sms / group);
        let area = f64::from(tile.0) * f64::from(tile.1);

        // A step multiplies, reads its operands from shared memory, and receives them from L2: whatever takes longest.
        let depth = f64::from(configuration.spans * SPAN_BYTES);
        let instructions = f64::from(tile.0) / 64.0 * depth / 32.0;
        let multiply = area * depth / MULTIPLY_BYTES / efficiency(tile, consumers);
        let read = instructions * f64::from(64 + tile.1) * 32.0 / 128.0;
        let rows_received = f64::from(tile.0 / cluster.1 + tile.1 / cluster.0);
        let received = rows_received * depth / L2_BYTES;
        let multiply = f64::from(steps) * (multiply + beside).max(read).max(received);

        let even = f64::from(places) / f64::from(clusters);
        let is_split = split && !places.is_multiple_of(clusters);
        let rounds = if is_split { even } else { even.ceil() };
        let exchange = match is_split {
            false => 0.0,
            true if places > clusters => {
                let high = f64::from(configuration.raster * cluster.0 * tile.0);
                let wide = f64::from(clusters / configuration.raster * cluster.1 * tile.1);
                let read = (high + wide) * f64::from(shape.k) * f64::from(shape.input_bytes);
                let lost = OUT_OF_STEP.1 * (read / OUT_OF_STEP.0 - 1.0).max(0.0);
                AMONG_ROUNDS * (EXCHANGE.0 + EXCHANGE.1 * area) + 2.0 * lost * multiply
            }
            true => EXCHANGE.0 + EXCHANGE.1 * area,
        };
        let store = STORE * area;
        let busy = match consumers {
            Consumers::Cooperate => rounds * multiply + rounds.ceil() * store,
            // One stores while the other multiplies, if there is more than one piece.
            Consumers::Alternate if rounds <= 1.0 => rounds * multiply / ALONE + store,
            Consumers::Alternate => rounds * multiply.max((multiply + store) / 2.0) + store,
        };
        let [m, n, k] = [shape.m, shape.n, shape.k].map(f64::from);
        let inputs = f64::from(shape.input_bytes) * (m * k + k * n);
        let batch = f64::from(shape.batch);
        // The clock follows the power: what all SMs do together costs the time.
        let work = batch * m * n * k * f64::from(shape.input_bytes) / MULTIPLY_BYTES / f64::from(sms);
        let active = work + IDLE * (busy - work).max(0.0);
        let energy = POWER * (1.0 + RECEIVED * rows_received / area) * active;
        let memory = batch * (inputs + f64::from(shape.output_bytes) * m * n) / MEMORY_BYTES;
        // Few SMs do not ask for all that memory gives: the last round takes as long as if this part of the CTAs had a tile.
        let least = READING_SMS * f64::from(sms) / f64::from(clusters * group);
        let (full, last) = if is_split { (even, 0.0) } else { (even.trunc(), even.fract()) };
        let last = if last > 0.0 { last.max(least) } else { 0.0 };
        let memory = memory * (full * least.max(1.0) + last) / even;
        // What hides behind the other still costs a little.
        let cycles = FILL + busy.max(energy).max(memory) + 0.1 * busy.min(memory) + exchange;
        let (ctas, tiles) = (clusters * group, places * group);
        Self { configuration, ctas, tiles, rounds, multiply, store, exchange, memory, cycles }
    }

    /// What a split launch needs to meet in: sums, and counters.
    pub fn split_space(&self) -> (usize, usize) {
        let Configuration { tile, cluster, consumers, .. } = self.configuration;
        let group = cluster.0 * cluster.1;
        let together = if consumers == Consumers::Cooperate { 2 } else { 1 };
        // A part's slot is the sum of its cluster's number and its tile's; at most two rounds of tiles are split.
        let (clusters, tiles) = (self.ctas / group, self.tiles / group);
        let split_tiles = tiles.min(2 * clusters);
        let area = tile.0 as usize * tile.1 as usize;
        let slots = (clusters + split_tiles) as usize * group as usize * area;
        (slots, (split_tiles * group * together) as usize)
    }
}

/// Cycles from the end of a kernel to the start of the next one's work.
const NEXT_KERNEL: f64 = 3000.0;

/// Cycles of a kernel that reads and writes so many bytes.
pub(super) fn copy_cycles(bytes: f64) -> f64 {
    NEXT_KERNEL + bytes / MEMORY_BYTES
}

/// Cycles of a batch by `mma.sync`.
pub(super) fn warps_cycles(gemm: &Gemm, batch: Batch, sms: u32) -> f64 {
    let Product { m, n, k, .. } = batch.product;
    let (rows, columns, _) = gemm.tile;
    // The part of the tensor cores' rate that is reached: with copies of 16 bytes measured on an H200, with narrower ones estimated.
    let efficiency = match gemm.a_vector.min(gemm.b_vector) {
        8 => 0.45,
        4 => 0.4,
        2 => 0.3,
        _ => 0.15,
    };
    let depth = f64::from(k) * 2.0;
    let multiply = rows as f64 * columns as f64 * depth / MULTIPLY_BYTES / efficiency;
    let tiles = f64::from(gemm.grid(m, n)) * f64::from(batch.count);
    FILL + (tiles / f64::from(sms)).ceil() * multiply
}

/// Clusters of a launch. Where every tile is split, equal parts of whole tiles are best: then all CTAs read the same k at the same time,
/// and find in L2 what the others have read.
fn clusters(split: bool, places: u32, steps: u32, most: u32) -> u32 {
    if !split || places >= most {
        return places.min(most);
    }
    let even = places * (most / places);
    if 8 * even >= 7 * most { even } else { most }.min(places.saturating_mul(steps))
}

/// The part of the tensor cores' rate that a configuration's loop reaches. (Narrow tiles, which wait for memory: measured as a whole.)
fn efficiency(tile: (u32, u32), consumers: Consumers) -> f64 {
    match (tile, consumers) {
        ((128.., 192..), _) => 0.98,
        ((128.., 128..), _) => 0.97,
        _ => 0.70,
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<59} {:>4} CTAs, {:>6} tiles, {:>7.2} rounds of {:>8.0} + {:>6.0}, exchange {:>6.0}, memory {:>8.0}: {:>9.0} cycles",
            self.configuration.to_string(),
            self.ctas,
            self.tiles,
            self.rounds,
            self.multiply,
            self.store,
            self.exchange,
            self.memory,
            self.cycles
        )
    }
}

/// All configurations, the cheapest first.
pub fn costs(shape: Shape, sms: u32) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Configuration::all(shape)
        .into_iter()
        .map(|configuration| Cost::of(configuration, shape, sms))
        .collect();
    costs.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200_SMS: u32 = 132;

    fn bf16(m: u32, n: u32, k: u32) -> Shape {
        Shape { m, n, k, batch: 1, input_bytes: 2, output_bytes: 2 }
    }

    /// The model's first choice is the one that was fastest on an H200, or within a few hundredths of it: docs/results.
    #[test]
    fn the_model_agrees_with_the_measured_choices() {
        let best = |m, n, k| {
            let Configuration { tile, split, transposed, .. } =
                costs(bf16(m, n, k), H200_SMS)[0].configuration;
            (tile, split, transposed)
        };
        assert_eq!(best(6144, 6144, 6144), ((256, 192), false, false));
        assert_eq!(best(8192, 8192, 8192), ((128, 192), false, false));
        assert_eq!(best(4096, 4096, 4096), ((128, 256), false, false));
        assert_eq!(best(3072, 3072, 3072), ((128, 192), false, false));
        assert_eq!(best(2048, 2048, 2048), ((128, 256), false, false));
        assert_eq!(best(1024, 1024, 16384), ((128, 128), true, false));
        assert_eq!(best(8192, 4096, 4096), ((128, 256), false, false));
        assert_eq!(best(8192, 4096, 12288), ((128, 256), false, false));
        assert_eq!(best(4096, 24576, 4096), ((128, 192), true, false));
        assert_eq!(best(16384, 16384, 16384), ((256, 192), false, false));
        assert_eq!(best(128, 12288, 4096), ((128, 96), false, false));
        assert_eq!(best(64, 12288, 4096), ((64, 96), false, false));
        assert_eq!(best(16, 12288, 4096), ((128, 16), true, true));
        assert_eq!(best(1, 12288, 4096), ((128, 8), true, true));
    }

    #[test]
    fn the_busiest_cta_decides_unless_tiles_are_split() {
        let configuration = |split| Configuration {
            tile: (128, 256),
            consumers: Consumers::Cooperate,
            cluster: (2, 1),
            spans: 1,
            split,
            transposed: false,
            stages: 4,
            raster: 8,
        };
        let cost = Cost::of(configuration(false), bf16(8192, 8192, 64), H200_SMS);
        assert_eq!((cost.ctas, cost.tiles, cost.rounds), (132, 2048, 16.0));
        let split = Cost::of(configuration(true), bf16(8192, 8192, 64), H200_SMS);
        assert!(split.rounds < 16.0 && split.exchange > 0.0);
        let one = Cost::of(configuration(false), bf16(1, 1, 1), H200_SMS);
        assert_eq!((one.ctas, one.tiles, one.rounds), (2, 2, 1.0));
    }

    /// Tiles all of which are split get equal numbers of whole parts, where that leaves few SMs idle.
    #[test]
    fn parts_are_equal_where_tiles_are_few() {
        assert_eq!(clusters(true, 32, 256, 66), 64);
        assert_eq!(clusters(true, 48, 64, 66), 66);
        assert_eq!(clusters(true, 3, 5, 66), 15);
        assert_eq!(clusters(true, 100, 64, 66), 66);
        assert_eq!(clusters(false, 32, 256, 66), 32);
    }
}
