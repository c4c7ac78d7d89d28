//! In which tiles `mma.sync` computes a product, and which of them a GPU can take.

use std::fmt;

use serde::{Deserialize, Serialize};
use warpwright::arch::Capability;

/// How a product is computed by `mma.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Warps {
    /// Rows and columns of a CTA's tile of C: each 64 or 128.
    pub tile: (u32, u32),
    /// Stages of the ring: at least 2, and as many as shared memory holds.
    pub stages: u32,
    /// Rows of tiles that are walked together, so that what they share stays in L2: at least 1.
    pub raster: u32,
}

/// How deep a stage is: rows of 64 bytes, which the ring's swizzle is for.
pub(super) const DEPTH: u32 = 32;

/// Bytes of an element of A or B.
const INPUT_BYTES: u32 = 2;

/// Rows or columns of a tile: two warps of 32 or 64 each. Tiles twice as large do not leave a thread registers for their sums.
const EXTENTS: [u32; 2] = [128, 64];

/// Stages that a search tries.
const STAGES: [u32; 3] = [4, 3, 6];

/// Rows of tiles walked together that it tries.
const RASTERS: [u32; 3] = [8, 4, 16];

impl Default for Warps {
    /// What is fastest where there is much to multiply.
    fn default() -> Self {
        Self { tile: (128, 128), stages: STAGES[0], raster: RASTERS[0] }
    }
}

impl Warps {
    /// All that a search tries first on a GPU of that capability.
    pub(super) fn all(capability: &Capability) -> Vec<Self> {
        let tiles = EXTENTS.into_iter().flat_map(|rows| EXTENTS.map(|columns| (rows, columns)));
        let rings = tiles.flat_map(|tile| STAGES.map(|stages| Self { tile, stages, ..Self::default() }));
        rings.filter(|warps| warps.is_legal(capability)).collect()
    }

    /// The legal ones that differ from it in one thing.
    pub(super) fn around(self, capability: &Capability) -> Vec<Self> {
        let rasters = RASTERS.into_iter().map(|raster| Self { raster, ..self });
        let is_near = |other: &Self| other.tile == self.tile || other.stages == self.stages;
        let others = Self::all(capability).into_iter().filter(is_near);
        let others = others.map(|other| Self { raster: self.raster, ..other });
        rasters.chain(others).filter(|other| *other != self && other.is_legal(capability)).collect()
    }

    /// Whether the kernel can be built and launched so on a GPU of that capability.
    pub(super) fn is_legal(self, capability: &Capability) -> bool {
        let Self { tile: (rows, columns), stages, raster } = self;
        let has_tile = EXTENTS.contains(&rows) && EXTENTS.contains(&columns);
        let stage = u64::from(rows + columns) * u64::from(DEPTH * INPUT_BYTES);
        let fits = u64::from(stages) * stage <= capability.shared_bytes_per_cta_opt_in.into();
        has_tile && stages >= 2 && fits && raster != 0
    }
}

impl fmt::Display for Warps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile: (rows, columns), stages, raster } = self;
        write!(f, "{rows:>3}x{columns:<3} by mma.sync, {stages} stages, raster {raster}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_is_legal_and_none_twice() {
        for target in ["sm_80", "sm_86", "sm_90a"] {
            let capability = Capability::for_target(target).expect("it is known");
            let all = Warps::all(capability);
            assert_eq!(all[0], Warps::default());
            for (index, warps) in all.iter().enumerate() {
                assert!(!all[..index].contains(warps), "{warps}");
                let around = warps.around(capability);
                assert!(around.len() >= 6 && !around.contains(warps), "{} around {warps}", around.len());
                for (index, other) in around.iter().enumerate() {
                    assert!(other.is_legal(capability) && !around[..index].contains(other), "{other}");
                }
            }
        }
        let small = Capability::for_target("sm_86").expect("it is known");
        let warps = Warps::default();
        assert!(
            Warps { stages: 6, ..warps }.is_legal(small) && !Warps { stages: 7, ..warps }.is_legal(small)
        );
        for illegal in [
            Warps { tile: (256, 128), ..warps },
            Warps { tile: (64, 96), ..warps },
            Warps { stages: 1, ..warps },
            Warps { stages: u32::MAX, ..warps },
            Warps { raster: 0, ..warps },
        ] {
            assert!(!illegal.is_legal(small), "{illegal}");
        }
    }
}
