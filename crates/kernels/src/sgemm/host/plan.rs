//! The algorithms, their configurations, and the heuristic that chooses among them.

use strum::{Display, EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::Capability;
use warpwright::runtime::DeviceProperties;

use super::super::device::double_buffered::DoubleBuffered;
use super::super::device::tma::TmaFed;
use super::super::tiles::{Tiles, refuse};
use crate::operations::Result;

/// A CTA tile of C: rows x columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Tile {
    /// 128 x 128.
    #[strum(serialize = "128x128")]
    T128x128,
    /// 256 x 128.
    #[strum(serialize = "256x128")]
    T256x128,
    /// 128 x 256.
    #[strum(serialize = "128x256")]
    T128x256,
    /// 64 x 64.
    #[strum(serialize = "64x64")]
    T64x64,
}

/// A CTA tile, its tiles, and the CTAs per SM.
pub type Configuration = (Tile, Tiles, u32);

/// Tiles of which a thread has 4 x 4 elements per step.
const fn tiles(block: (u32, u32, u32), warp: (u32, u32), steps: (u32, u32), stages: u32) -> Tiles {
    Tiles { block, warp, steps, thread: (4, 4), stages }
}

/// The fastest configurations of the TMA kernel.
const FED: &[Configuration] = &[
    (Tile::T128x128, tiles((128, 128, 16), (64, 64), (4, 2), 4), 2),
    (Tile::T256x128, tiles((256, 128, 16), (64, 64), (4, 2), 4), 1),
    (Tile::T64x64, tiles((64, 64, 16), (32, 64), (2, 2), 3), 6),
];

/// The fastest configurations of the kernel that copies by `cp.async`.
const COPIED: &[Configuration] = &[
    (Tile::T128x256, tiles((128, 256, 8), (64, 64), (4, 2), 4), 1),
    (Tile::T128x128, tiles((128, 128, 8), (64, 64), (4, 2), 4), 2),
    (Tile::T64x64, tiles((64, 64, 16), (32, 64), (2, 2), 3), 6),
];

/// Rows of tiles that are rasterized together.
const RASTER: u32 = 8;

/// How k-blocks of A and B are copied to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Algorithm {
    /// By all threads, with double buffering.
    DoubleBuffered,
    /// By TMA.
    Tma,
}

impl Algorithm {
    /// The fastest that can read rows of these extents.
    pub fn fastest(capability: &Capability, extents: (u32, u32, u32)) -> Self {
        if tma_reads(capability, extents) { Self::Tma } else { Self::DoubleBuffered }
    }

    /// The configurations, the one for large problems first.
    pub fn configurations(self) -> &'static [Configuration] {
        match self {
            Self::DoubleBuffered => COPIED,
            Self::Tma => FED,
        }
    }

    /// The kernel with a configuration, for rows of C of `n` elements.
    pub fn method(self, (_, tiles, ctas_per_sm): Configuration, splits: u32, n: u32) -> Method {
        let raster = RASTER;
        match self {
            Self::DoubleBuffered => {
                let width = width(n);
                Method::DoubleBuffered(DoubleBuffered { tiles, ctas_per_sm, raster, width }, splits)
            }
            Self::Tma => Method::TmaFed(TmaFed { tiles, ctas_per_sm, raster }, splits),
        }
    }
}

/// One of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `cp.async` and a pipeline; k in this many splits.
    DoubleBuffered(DoubleBuffered, u32),
    /// TMA and a pipeline; k in this many splits.
    TmaFed(TmaFed, u32),
}

impl Method {
    /// The fastest for a shape on a device.
    pub fn fastest(device: &DeviceProperties, extents: (u32, u32, u32)) -> Self {
        let algorithm = Algorithm::fastest(device.capability, extents);
        let (configuration, splits) = choose(device.sm_count, algorithm.configurations(), extents);
        algorithm.method(configuration, splits, extents.1)
    }

    /// The number of parts of k.
    pub(super) fn splits(self) -> u32 {
        match self {
            Self::DoubleBuffered(_, splits) | Self::TmaFed(_, splits) => splits.max(1),
        }
    }

    pub(super) fn tiles(self) -> Tiles {
        match self {
            Self::DoubleBuffered(kernel, _) => kernel.tiles,
            Self::TmaFed(kernel, _) => kernel.tiles,
        }
    }

    /// Refuses a shape that the kernel cannot do, or tiles that break a rule.
    pub(super) fn check(self, capability: &Capability, extents: (u32, u32, u32)) -> Result<()> {
        match self {
            Self::DoubleBuffered(kernel, _) => kernel.check(capability)?,
            Self::TmaFed(kernel, _) => kernel.check(capability)?,
        }
        if matches!(self, Self::TmaFed(..)) && !tma_reads(capability, extents) {
            let (_, n, k) = extents;
            return refuse(format!(
                "TMA needs sm_90 and n and k that are multiples of 4, and at least 4: n is {n}, k is {k}, and the device is {}; the method double-buffered takes any shape",
                capability.target
            ));
        }
        Ok(())
    }
}

/// Whether TMA can read A and B: rows of whole 16 bytes, on sm_90.
fn tma_reads(capability: &Capability, (_, n, k): (u32, u32, u32)) -> bool {
    let are_whole = n >= 4 && k >= 4 && n.is_multiple_of(4) && k.is_multiple_of(4);
    capability.compute_capability >= (9, 0) && are_whole
}

/// Elements along a row of `extent` that one access moves.
pub fn width(extent: u32) -> u32 {
    [4, 2].into_iter().find(|width| extent.is_multiple_of(*width)).unwrap_or(1)
}

/// The fewest k-blocks that are worth a split, whose accumulators are written and read once more.
const MIN_K_BLOCKS: u32 = 8;

/// The configuration and the splits of k: the first configuration, with the largest tile, that
/// gives each SM a CTA; or the smallest tile, and k split until each SM has a few CTAs.
pub fn choose(
    sms: u32,
    configurations: &[Configuration],
    (m, n, k): (u32, u32, u32),
) -> (Configuration, u32) {
    let fills = |(_, tiles, _): &&Configuration| tiles.ctas(m, n) >= u64::from(sms) * 15 / 16;
    if let Some(configuration) = configurations.iter().find(fills) {
        return (*configuration, 1);
    }
    let smallest = configurations[configurations.len() - 1];
    let (_, tiles, ctas_per_sm) = smallest;
    let k_blocks = k.div_ceil(tiles.block.2);
    let most = u64::from(sms * ctas_per_sm.min(4)) / tiles.ctas(m, n).max(1);
    let splits = most.clamp(1, u64::from((k_blocks / MIN_K_BLOCKS).max(1)));
    (smallest, splits as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_legal() {
        let h200 = Capability::for_target("sm_90a").expect("it is in the table");
        for algorithm in [Algorithm::Tma, Algorithm::DoubleBuffered] {
            for configuration in algorithm.configurations() {
                for n in [1, 2, 4] {
                    let method = algorithm.method(*configuration, 1, n);
                    method.check(h200, (4, 4, 4)).expect("it is legal");
                }
            }
        }
    }

    #[test]
    fn large_products_get_large_tiles_and_small_ones_splits() {
        let chosen = |extents| {
            let ((tile, ..), splits) = choose(132, FED, extents);
            (tile, splits)
        };
        assert_eq!(chosen((8192, 8192, 8192)), (Tile::T128x128, 1));
        assert_eq!(chosen((2048, 2048, 64)), (Tile::T128x128, 1));
        assert_eq!(chosen((1024, 1024, 1024)), (Tile::T64x64, 1));
        assert_eq!(chosen((128, 128, 8192)), (Tile::T64x64, 64));
        assert_eq!(chosen((1, 1, 64)), (Tile::T64x64, 1));
    }
}
