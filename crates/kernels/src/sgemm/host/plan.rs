//! Which kernel a shape gets.

use warpwright::arch::Capability;
use warpwright::runtime::DeviceProperties;

use super::super::device::double_buffered::DoubleBuffered;
use super::super::device::tma::TmaFed;
use super::super::tiles::Tiles;
use super::method::Method;

/// A tile of C by name, its tiles, and how many CTAs of it an SM shall hold.
pub type Configuration = (&'static str, Tiles, u32);

/// What the TMA-fed kernel is fastest with, the one for large products first.
pub const FED: &[Configuration] = &[
    ("128x128", Tiles { block: (128, 128, 16), warp: (64, 64), steps: (4, 2), thread: (4, 4), stages: 4 }, 2),
    ("256x128", Tiles { block: (256, 128, 16), warp: (64, 64), steps: (4, 2), thread: (4, 4), stages: 4 }, 1),
    ("64x64", Tiles { block: (64, 64, 16), warp: (32, 64), steps: (2, 2), thread: (4, 4), stages: 3 }, 6),
];

/// What the kernel that copies by `cp.async` is fastest with.
pub const COPIED: &[Configuration] = &[
    ("128x256", Tiles { block: (128, 256, 8), warp: (64, 64), steps: (4, 2), thread: (4, 4), stages: 4 }, 1),
    ("128x128", Tiles { block: (128, 128, 8), warp: (64, 64), steps: (4, 2), thread: (4, 4), stages: 4 }, 2),
    ("64x64", Tiles { block: (64, 64, 16), warp: (32, 64), steps: (2, 2), thread: (4, 4), stages: 3 }, 6),
];

/// Rows of tiles that are walked together.
const RASTER: u32 = 8;

/// Whether TMA can read A and B: rows of whole 16 bytes, on sm_90.
pub(super) fn tma_reads(limits: &Capability, (_, n, k): (u32, u32, u32)) -> bool {
    limits.compute_capability >= (9, 0) && n >= 4 && k >= 4 && n.is_multiple_of(4) && k.is_multiple_of(4)
}

/// Elements along a row of that many that one access moves.
pub fn width(extent: u32) -> u32 {
    [4, 2].into_iter().find(|width| extent.is_multiple_of(*width)).unwrap_or(1)
}

/// The TMA-fed kernel of a configuration.
pub(super) fn tma_fed(tiles: Tiles, ctas_per_sm: u32) -> TmaFed {
    TmaFed { tiles, ctas_per_sm, raster: RASTER }
}

/// The `cp.async` kernel of a configuration, for rows of C of `n` elements.
pub(super) fn double_buffered(tiles: Tiles, ctas_per_sm: u32, n: u32) -> DoubleBuffered {
    DoubleBuffered { tiles, ctas_per_sm, raster: RASTER, width: width(n) }
}

/// What is fastest for a shape on a device.
pub fn method(device: &DeviceProperties, extents: (u32, u32, u32)) -> Method {
    for_sms(device.sm_count, tma_reads(device.capability, extents), extents)
}

/// What is fastest for a shape on that many SMs, fed by TMA or not.
pub(super) fn for_sms(sms: u32, tma: bool, extents: (u32, u32, u32)) -> Method {
    let ((_, tiles, ctas_per_sm), splits) = choose(sms, if tma { FED } else { COPIED }, extents);
    if tma {
        Method::TmaFed(tma_fed(tiles, ctas_per_sm), splits)
    } else {
        Method::DoubleBuffered(double_buffered(tiles, ctas_per_sm, extents.1), splits)
    }
}

/// Fewer slices than this are not worth a split: each split's sums are written and read once more.
const FEWEST_SLICES: u32 = 8;

/// The configuration and the splits of k: the first one, with the largest tile, of which every SM
/// gets one; else the smallest, and k split until there are enough CTAs for a few of each SM.
pub(super) fn choose(
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
    let slices = k.div_ceil(tiles.block.2);
    let room = u64::from(sms * ctas_per_sm.min(4)) / tiles.ctas(m, n).max(1);
    let splits = room.clamp(1, u64::from((slices / FEWEST_SLICES).max(1)));
    (smallest, splits as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_legal() {
        let h200 = Capability::for_target("sm_90a").expect("it is in the table");
        for &(name, tiles, ctas_per_sm) in FED {
            assert_eq!(tma_fed(tiles, ctas_per_sm).check(h200), Ok(()), "{name}");
        }
        for &(name, tiles, ctas_per_sm) in COPIED {
            for n in [1, 2, 4] {
                assert_eq!(double_buffered(tiles, ctas_per_sm, n).check(h200), Ok(()), "{name}");
            }
        }
    }

    #[test]
    fn large_products_get_large_tiles_and_small_ones_splits() {
        let chosen = |extents| {
            let ((name, ..), splits) = choose(132, FED, extents);
            (name, splits)
        };
        assert_eq!(chosen((8192, 8192, 8192)), ("128x128", 1));
        assert_eq!(chosen((2048, 2048, 64)), ("128x128", 1));
        assert_eq!(chosen((1024, 1024, 1024)), ("64x64", 1));
        assert_eq!(chosen((128, 128, 8192)), ("64x64", 64));
        assert_eq!(chosen((1, 1, 64)), ("64x64", 1));
    }
}
