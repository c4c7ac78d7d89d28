//! Which tiles, clusters and splits a Hopper GEMM may take for a shape; what they [cost](Cost) decides.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Order;
pub use super::cost::{Cost, costs};
use super::hopper::{CONSUMERS, Consumers, HopperGemm};
use super::store::buffers_bytes;

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configuration {
    /// Rows and columns of a CTA's tile: of C, or of C's transpose.
    pub tile: (u32, u32),
    /// How the consumers share the tiles.
    pub consumers: Consumers,
    /// CTAs of a cluster along the tile's rows and columns.
    pub cluster: (u32, u32),
    /// How deep a slot of the ring is, in rows of 128 bytes, the widest swizzle's: deeper ones read longer runs of memory at a time.
    pub spans: u32,
    /// Whether the tiles of the last rounds are split along k.
    pub split: bool,
    /// Whether C's transpose is computed, Bᵀ·Aᵀ: the tensor cores take 64 rows at least, and 8 columns.
    pub transposed: bool,
    /// Slots of the ring.
    pub stages: u32,
    /// Rows of clusters' tiles that are walked together.
    pub raster: u32,
}

/// What is multiplied: (m, n, k), how many times, and bytes of an input's and an output's element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// How many products of that shape.
    pub batch: u32,
    /// Bytes of an element of A or B.
    pub input_bytes: u32,
    /// Bytes of an element of C.
    pub output_bytes: u32,
}

/// Rows and columns of the tiles, and how the consumers share them.
const TILES: &[((u32, u32), Consumers)] = &[
    ((128, 192), Consumers::Alternate),
    ((128, 128), Consumers::Alternate),
    ((128, 256), Consumers::Cooperate),
    ((256, 192), Consumers::Cooperate),
    ((256, 128), Consumers::Cooperate),
    ((128, 192), Consumers::Cooperate),
    ((128, 128), Consumers::Cooperate),
    ((128, 96), Consumers::Cooperate),
    ((256, 64), Consumers::Cooperate),
    ((128, 64), Consumers::Cooperate),
    ((128, 32), Consumers::Cooperate),
    ((128, 16), Consumers::Cooperate),
    ((128, 8), Consumers::Cooperate),
    ((64, 128), Consumers::Alternate),
    ((64, 96), Consumers::Alternate),
    ((64, 64), Consumers::Alternate),
    ((64, 32), Consumers::Alternate),
];

/// Clusters that are tried: two CTAs share B's part of the tile; or A's, where that is the larger and both are large.
fn clusters_of(tile: (u32, u32)) -> [(u32, u32); 2] {
    let shares = if tile.0 > tile.1 && tile.1 >= 128 { (1, 2) } else { (2, 1) };
    [shares, (1, 1)]
}

/// Bytes of shared memory a CTA can have. (CUDA Programming Guide, "Technical Specifications per Compute Capability", 9.0.)
pub(super) const SHARED_BYTES: u32 = 227 * 1024;

/// Bytes of it that barriers and the alignment of tiles may take.
pub(super) const SHARED_MARGIN: u32 = 2 * 1024;

/// The widest swizzle's span.
pub(super) const SPAN_BYTES: u32 = 128;

/// Spans of a slot of narrow tiles, whose time is that of reading the other matrix: two are 3% faster than one or four on an H200
/// (m = 1 and 16, n = 12288, k = 4096).
const NARROW_SPANS: u32 = 2;

/// Rows of clusters' tiles that are walked together.
const RASTER: u32 = 8;

/// More slots than this hide nothing more.
pub(super) const MOST_STAGES: u32 = 16;

impl Configuration {
    /// Elements of k in a slot.
    pub(super) fn depth(self, shape: Shape) -> u32 {
        self.spans * SPAN_BYTES / shape.input_bytes
    }

    /// How deep the slots of a tile are.
    pub(super) fn spans_of(tile: (u32, u32)) -> u32 {
        if tile.1 <= 32 { NARROW_SPANS } else { 1 }
    }

    /// Slots of a tile that fit beside the buffers of the epilogue.
    pub(super) fn most_stages(tile: (u32, u32), spans: u32, shape: Shape) -> u32 {
        let buffers = buffers_bytes(CONSUMERS, tile.1, shape.output_bytes);
        let slot = (tile.0 + tile.1) * spans * SPAN_BYTES;
        ((SHARED_BYTES - SHARED_MARGIN - buffers) / slot).min(MOST_STAGES)
    }

    /// The rows and columns that the tiles cover.
    pub(super) fn extents(self, shape: Shape) -> (u32, u32) {
        if self.transposed { (shape.n, shape.m) } else { (shape.m, shape.n) }
    }

    /// All that make sense for a shape.
    pub fn all(shape: Shape) -> Vec<Self> {
        Self::of_tiles(TILES, shape)
    }

    /// Those of these tiles that make sense for a shape.
    pub(super) fn of_tiles(tiles: &[((u32, u32), Consumers)], shape: Shape) -> Vec<Self> {
        let mut all = Vec::new();
        for &(tile, consumers) in tiles {
            for cluster in clusters_of(tile) {
                for (split, transposed) in [(false, false), (true, false), (false, true), (true, true)] {
                    let spans = Self::spans_of(tile);
                    let stages = Self::most_stages(tile, spans, shape);
                    let raster = RASTER;
                    let configuration =
                        Self { tile, consumers, cluster, spans, split, transposed, stages, raster };
                    let (rows, columns) = configuration.extents(shape);
                    // A tile far larger than the matrix multiplies nothing; narrow ones are for matrices of one tile's height or width.
                    let too_wide = tile.1 > 64 && tile.1 >= 2 * columns;
                    let too_high = tile.0 >= 2 * rows && columns > rows;
                    let too_narrow = tile.0.min(tile.1) < 96 && rows > tile.0 && columns > tile.1;
                    let too_long = split && u64::from(shape.k) > MOST_SPLIT_DEPTH;
                    if !(too_wide || too_high || too_narrow || too_long) && stages >= 2 {
                        all.push(configuration);
                    }
                }
            }
        }
        all
    }
}

/// The schedule of split tiles counts clusters times steps in 32 bits.
pub(super) const MOST_SPLIT_DEPTH: u64 = 1 << 20;

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile, consumers, cluster, spans, split, transposed, .. } = self;
        let consumers = match consumers {
            Consumers::Cooperate => "cooperate",
            Consumers::Alternate => "alternate",
        };
        let split = if *split { "split" } else { "whole" };
        let of = if *transposed { "of C transposed" } else { "of C" };
        let ((rows, columns), (along_m, along_n)) = (tile, cluster);
        write!(f, "{rows:>3}x{columns:<3} {consumers} cluster {along_m}x{along_n} spans {spans} {split} {of}")
    }
}

/// The kernel of a configuration, for A, B and C in the orders given. Transposed, its A is Bᵀ and its B is Aᵀ.
pub fn kernel(configuration: Configuration, shape: Shape, [a, b, c]: [Order; 3]) -> HopperGemm {
    let Configuration { tile, consumers, cluster, split, transposed, stages, raster, .. } = configuration;
    let [a, b, c] = if transposed { [b, a, c].map(Order::transposed) } else { [a, b, c] };
    HopperGemm {
        a,
        b,
        c,
        tile: (tile.0.into(), tile.1.into(), configuration.depth(shape).into()),
        consumers,
        cluster,
        stages,
        raster,
        split,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bf16(m: u32, n: u32, k: u32) -> Shape {
        Shape { m, n, k, batch: 1, input_bytes: 2, output_bytes: 2 }
    }

    #[test]
    fn every_ring_fits_into_shared_memory() {
        for shape in
            [bf16(8192, 8192, 8192), bf16(1, 12288, 4096), Shape { output_bytes: 4, ..bf16(64, 64, 64) }]
        {
            for configuration in Configuration::all(shape) {
                let (rows, columns) = configuration.tile;
                let slot = (rows + columns) * configuration.spans * SPAN_BYTES;
                assert!(configuration.stages * slot < SHARED_BYTES, "{configuration}");
            }
        }
    }
}
