//! The algorithms.

use super::super::device::double_buffered::DoubleBuffered;
use super::super::device::tma::TmaFed;

/// One of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `cp.async` and a ring; k in this many splits.
    DoubleBuffered(DoubleBuffered, u32),
    /// TMA and a ring; k in this many splits.
    TmaFed(TmaFed, u32),
}

impl Method {
    /// In how many parts k is split.
    pub(super) fn splits(self) -> u32 {
        match self {
            Self::DoubleBuffered(_, splits) | Self::TmaFed(_, splits) => splits.max(1),
        }
    }

    /// How deep the slices are of which a split takes whole ones.
    pub(super) fn depth(self) -> u32 {
        match self {
            Self::DoubleBuffered(kernel, _) => kernel.tiles.block.2,
            Self::TmaFed(kernel, _) => kernel.tiles.block.2,
        }
    }
}
