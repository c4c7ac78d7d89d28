//! Which kernel a shape gets.

use warpwright::arch::Capability;
use warpwright::runtime::DeviceProperties;

use super::double_buffered::DoubleBuffered;
use super::operation::Method;
use super::tiles::Tiles;
use super::tma::TmaFed;

/// Tiles of C that are worth trying, with the CTAs of an SM: large ones compute more for what they copy, small ones leave fewer SMs
/// without work. A thread has 8 columns and 16 or 8 rows.
pub const CONFIGURATIONS: &[(&str, Tiles, u32)] =
    &[("128x128", large((128, 128)), 2), ("256x128", large((256, 128)), 1), ("64x64", small((64, 64)), 8)];

const fn large((bm, bn): (u32, u32)) -> Tiles {
    Tiles { block: (bm, bn, 16), warp: (64, 64), steps: (4, 2), thread: (4, 4), stages: 4 }
}

const fn small((bm, bn): (u32, u32)) -> Tiles {
    Tiles { block: (bm, bn, 16), warp: (32, 64), steps: (2, 2), thread: (4, 4), stages: 3 }
}

/// Rows of tiles that are walked together.
const RASTER: u32 = 8;

/// Whether TMA can read A and B: rows of whole 16 bytes, on sm_90.
pub(super) fn tma_reads(limits: &Capability, (_, n, k): (u32, u32, u32)) -> bool {
    limits.compute_capability >= (9, 0) && n >= 4 && k >= 4 && n.is_multiple_of(4) && k.is_multiple_of(4)
}

/// Elements along a row of that many that one access moves.
pub(super) fn width(extent: u32) -> u32 {
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
    let (tiles, ctas_per_sm, splits) = choose(sms, extents);
    if tma {
        Method::TmaFed(tma_fed(tiles, ctas_per_sm), splits)
    } else {
        Method::DoubleBuffered(double_buffered(tiles, ctas_per_sm, extents.1), splits)
    }
}

/// The configuration, its CTAs of an SM, and the splits of k.
pub(super) fn choose(sms: u32, (m, n, k): (u32, u32, u32)) -> (Tiles, u32, u32) {
    let (_, large, ctas) = CONFIGURATIONS[0];
    let (_, small, small_ctas) = CONFIGURATIONS[2];
    if large.ctas(m, n) >= u64::from(sms) {
        return (large, ctas, 1);
    }
    let tiles = small.ctas(m, n).max(1);
    let slices = k.div_ceil(small.block.2).max(1);
    let wanted = (u64::from(sms) * 4 / tiles).clamp(1, u64::from(slices.div_ceil(8)));
    (small, small_ctas, wanted as u32)
}
