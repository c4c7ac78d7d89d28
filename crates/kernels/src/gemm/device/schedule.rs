//! The schedules of persistent warp-specialized CTAs.

use serde::{Deserialize, Serialize};
use warpwright::prelude::*;

/// Consumer warpgroups of a CTA with accumulators in registers.
pub(crate) const CONSUMERS: u32 = 2;

/// Columns that a thread reads from tensor memory at once, at most: the widest box of C of 16 bits.
/// With twice as many, and as many accumulators, all parts of an epilogue together spill (ptxas 13).
const MAX_SLICE: u32 = 64;

/// Where the accumulators of a tile are, and who shares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Schedule {
    /// In registers (`wgmma`): both consumers compute one tile, half of its rows each.
    Cooperative,
    /// In registers (`wgmma`): each consumer computes every other tile.
    Pingpong,
    /// In tensor memory (`tcgen05`): one thread multiplies a tile while a warpgroup stores the one
    /// before it.
    TensorMemory,
    /// The same of a pair of CTAs, a cluster of 2 x 1 (`.cta_group::2`): one thread multiplies the
    /// tiles of both, and each loads half of the columns of B.
    PairedTensorMemory,
}

impl Schedule {
    /// Parts of a tile that are added separately where its k is split: the consumers that compute
    /// it, or the slices in which a warpgroup reads `columns` columns of tensor memory.
    pub(crate) fn parts(self, columns: u32) -> u32 {
        match self {
            Self::Cooperative => CONSUMERS,
            Self::Pingpong => 1,
            Self::TensorMemory | Self::PairedTensorMemory => columns / slice_of_tensor_memory(columns),
        }
    }

    /// The CTAs that multiply together, with accumulators in tensor memory.
    pub(crate) fn group(self) -> Option<CtaGroup> {
        match self {
            Self::Cooperative | Self::Pingpong => None,
            Self::TensorMemory => Some(CtaGroup::One),
            Self::PairedTensorMemory => Some(CtaGroup::Two),
        }
    }

    /// CTAs of a pair, each of which loads a part of B's columns for the tiles of both.
    pub(crate) fn pair(self) -> u32 {
        self.group().map_or(1, CtaGroup::ctas)
    }

    /// Consumers that compute one tile.
    pub(crate) fn cooperating(self) -> u32 {
        match self {
            Self::Cooperative => CONSUMERS,
            Self::Pingpong | Self::TensorMemory | Self::PairedTensorMemory => 1,
        }
    }

    /// How the consumers share the stages.
    pub(crate) fn consumers(self) -> ConsumerSchedule {
        match self {
            Self::Pingpong => ConsumerSchedule::Pingpong,
            _ => ConsumerSchedule::Cooperative,
        }
    }
}

/// How the k of tiles is split among CTAs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Split {
    /// Each CTA multiplies whole tiles.
    #[default]
    None,
    /// Tiles of the last waves are split, so that all SMs have the same work.
    StreamK(StreamK),
    /// As many CTAs of a cluster multiply a part of a tile's k each. They add their parts in shared
    /// memory: a launch has as many of them as there are tiles.
    SplitK(u32),
}

/// How stream-K splits tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamK {
    /// A CTA may have parts of two tiles, and whole tiles.
    Unequal,
    /// Every tile is split, and a CTA has a part of one tile.
    Equal,
}

impl Split {
    /// How stream-K splits tiles.
    pub(crate) fn stream_k(self) -> Option<StreamK> {
        if let Self::StreamK(stream_k) = self { Some(stream_k) } else { None }
    }

    /// CTAs of a cluster that share the k of a tile: 1 without split-K.
    pub(crate) fn split_k(self) -> u32 {
        if let Self::SplitK(ctas) = self { ctas } else { 1 }
    }
}

/// Columns of tensor memory that a warpgroup reads and stores at once of a tile of `columns`.
pub(crate) fn slice_of_tensor_memory(columns: u32) -> u32 {
    (1 << columns.trailing_zeros()).min(MAX_SLICE)
}
