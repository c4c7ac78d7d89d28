//! Which tile, cluster and stages a Hopper GEMM takes for a shape: a cost model in tensor-core cycles, over configurations
//! that were measured.

use std::fmt;
use std::marker::PhantomData;

use warpwright::prelude::Element;

use super::Order;
use super::hopper::{Consumers, HopperGemm};

/// A configuration worth trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The tile's rows and columns.
    pub tile: (u32, u32),
    /// How the consumers share the tiles.
    pub consumers: Consumers,
    /// CTAs of a cluster along m and n.
    pub cluster: (u32, u32),
    /// Slots of the ring, for 16-bit inputs.
    pub stages: u32,
}

const fn cooperating(tile: (u32, u32), cluster: (u32, u32), stages: u32) -> Configuration {
    Configuration { tile, consumers: Consumers::Cooperate, cluster, stages }
}

const fn alternating(tile: (u32, u32), cluster: (u32, u32), stages: u32) -> Configuration {
    Configuration { tile, consumers: Consumers::Alternate, cluster, stages }
}

/// The configurations, the one for the largest products first.
pub const CONFIGURATIONS: &[Configuration] = &[
    alternating((128, 192), (2, 1), 4),
    alternating((128, 192), (1, 1), 4),
    alternating((128, 128), (2, 1), 6),
    alternating((128, 128), (1, 1), 6),
    cooperating((128, 256), (2, 1), 4),
    cooperating((256, 128), (2, 1), 4),
    cooperating((128, 192), (1, 1), 4),
    cooperating((128, 128), (1, 1), 6),
    cooperating((128, 96), (1, 1), 6),
    alternating((64, 96), (1, 1), 9),
    alternating((64, 64), (1, 1), 10),
];

/// Multiply-adds of bf16 that an SM's tensor cores do in a cycle. (NVIDIA H100 white paper: 1,024 a tensor core, four of them.)
const MULTIPLY_ADDS: f64 = 4096.0;

/// How deep one slot is, in 16-bit elements: the widest swizzle's span.
const SLOT_DEPTH: u32 = 64;

/// What a configuration costs for a shape, in cycles of an SM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The configuration.
    pub configuration: Configuration,
    /// Tiles of C.
    pub tiles: u32,
    /// Tiles that the busiest SM computes.
    pub rounds: u32,
    /// Cycles until a tile is multiplied.
    pub multiply: f64,
    /// Cycles of its epilogue.
    pub store: f64,
    /// All together.
    pub cycles: f64,
}

impl Cost {
    /// The cost of a configuration on a device of `sms` SMs.
    pub fn of(configuration: Configuration, (m, n, k): (u32, u32, u32), sms: u32) -> Self {
        let Configuration { tile, cluster, consumers, .. } = configuration;
        let across = |extent: u32, tile: u32, cluster: u32| extent.div_ceil(tile * cluster) * cluster;
        let tiles = across(m, tile.0, cluster.0) * across(n, tile.1, cluster.1);
        let group = cluster.0 * cluster.1;
        let rounds = tiles.div_ceil(sms / group * group);
        let area = f64::from(tile.0) * f64::from(tile.1);
        let steps = f64::from(k.div_ceil(SLOT_DEPTH));
        // Shared memory gives the tensor cores 128 bytes a cycle: narrow tiles read more of A for each column of B.
        let multiply =
            steps * area * f64::from(SLOT_DEPTH) / MULTIPLY_ADDS / efficiency(configuration) + FILL;
        let store = STORE * area;
        let busy = match consumers {
            Consumers::Cooperate => f64::from(rounds) * (multiply + store),
            // One stores while the other multiplies.
            Consumers::Alternate => f64::from(rounds) * multiply.max((multiply + store) / 2.0) + store,
        };
        let [m, n, k] = [m, n, k].map(f64::from);
        let memory = 2.0 * (m * k + k * n + m * n) / MEMORY_BYTES;
        // What hides behind the other still costs a little.
        let cycles = busy.max(memory) + 0.1 * busy.min(memory);
        Self { configuration, tiles, rounds, multiply, store, cycles }
    }
}

/// The part of the tensor cores' rate that a configuration's loop reaches: measured on an H200, bf16, k of 4096 and more.
fn efficiency(configuration: Configuration) -> f64 {
    match (configuration.tile, configuration.consumers) {
        ((128, 192), Consumers::Alternate) => 0.93,
        ((128, 256) | (256, 128), _) => 0.91,
        ((128, 128), Consumers::Alternate) => 0.89,
        ((128, 192 | 128), _) => 0.86,
        _ => 0.70,
    }
}

/// Bytes of global memory that an H200 reads in a cycle of its SMs. (4.8 TB/s at 1.8 GHz.)
const MEMORY_BYTES: f64 = 2600.0;

/// Cycles until the first slot of a tile has come, and after its last one.
const FILL: f64 = 900.0;

/// Cycles a tile's element takes in the epilogue: fitted to 8192 x 8192 x 512 on an H200.
const STORE: f64 = 0.2;

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Configuration { tile, consumers, cluster, stages } = self.configuration;
        let consumers = match consumers {
            Consumers::Cooperate => "cooperate",
            Consumers::Alternate => "alternate",
        };
        write!(
            f,
            "{:>3}x{:<3} {consumers} cluster {}x{} {stages:>2} stages: {:>6} tiles, {:>3} rounds of {:>8.0} + {:>6.0} cycles = {:>9.0}",
            tile.0,
            tile.1,
            cluster.0,
            cluster.1,
            self.tiles,
            self.rounds,
            self.multiply,
            self.store,
            self.cycles
        )
    }
}

/// All configurations, the cheapest first.
pub fn costs(shape: (u32, u32, u32), sms: u32) -> Vec<Cost> {
    let mut costs: Vec<Cost> =
        CONFIGURATIONS.iter().map(|&configuration| Cost::of(configuration, shape, sms)).collect();
    costs.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    costs
}

/// The kernel of a configuration.
pub fn kernel<T: Element, C>(configuration: Configuration, a: Order, b: Order) -> HopperGemm<T, C> {
    let Configuration { tile, consumers, cluster, stages } = configuration;
    let depth = 128 / i64::from(T::BYTES);
    HopperGemm {
        a,
        b,
        tile: (tile.0.into(), tile.1.into(), depth),
        consumers,
        cluster,
        stages,
        raster: 8,
        types: PhantomData,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model ranks as the H200 did, where it was measured.
    #[test]
    fn the_model_agrees_with_the_measured_choices() {
        let best = |shape| costs(shape, 132)[0].configuration.tile;
        assert_eq!(best((8192, 8192, 8192)), (128, 192));
        assert_eq!(best((4096, 4096, 4096)), (128, 128));
        assert_eq!(best((3072, 3072, 3072)), (128, 192));
        assert_eq!(best((2048, 2048, 2048)), (128, 128));
        assert_eq!(best((1, 12288, 4096)), (64, 96));
    }

    #[test]
    fn the_busiest_sm_decides() {
        let cost = Cost::of(cooperating((128, 256), (2, 1), 4), (8192, 8192, 64), 132);
        assert_eq!((cost.tiles, cost.rounds), (2048, 16));
        let one = Cost::of(cooperating((128, 256), (2, 1), 4), (1, 1, 1), 132);
        assert_eq!((one.tiles, one.rounds), (2, 1));
    }
}
