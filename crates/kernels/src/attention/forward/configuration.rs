//! What the forward kernel is built for: its tiles and its roles.

use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::attention::problem::{AttentionElement, MaskBounds};

/// Queries of a consumer warpgroup: the rows of a `wgmma`.
pub(crate) const WARPGROUP_ROWS: u32 = 64;

/// The forward kernel for a head dimension and a kind of mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct ForwardKernel {
    /// Elements of a head of Q and K.
    pub(crate) head_dim: u32,
    /// Elements of a head of V and O.
    pub(crate) value_dim: u32,
    /// Consumer warpgroups of a CTA.
    pub(crate) consumers: u32,
    /// Keys of a block.
    pub(crate) block: u32,
    /// Tiles of Q in shared memory.
    pub(crate) q_stages: u32,
    /// Blocks of K, and of V, in shared memory.
    pub(crate) stages: u32,
    /// CTAs of a cluster: they compute neighboring tiles of a head, and each loads a part of K and V
    /// for all.
    pub(crate) cluster: u32,
    /// Which keys a query sees.
    pub(crate) mask: MaskBounds,
    /// Whether sequences of any lengths follow each other without gaps.
    pub(crate) packed: bool,
    /// Keys of a page, if K and V are in a paged cache: then sequences are packed.
    pub(crate) page_size: Option<u32>,
    /// Whether scores are bounded (softcap).
    pub(crate) capped: bool,
    /// Whether scores have a bias by distance (ALiBi).
    pub(crate) biased: bool,
    /// Whether each head has a sink.
    pub(crate) sinks: bool,
}

impl ForwardKernel {
    /// Queries of a tile.
    pub(crate) fn rows(&self) -> u32 {
        self.consumers * WARPGROUP_ROWS
    }

    /// The tile of Q: (query, d).
    pub(crate) fn q_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows(), self.head_dim), Major::K)
    }

    /// A block of K: (key, d).
    pub(crate) fn k_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        let tile = TmaTile::new::<T>((self.block, self.head_dim), Major::K)?;
        Ok(tile.sliced(self.cluster).in_parts(self.block / self.part_keys()))
    }

    /// A block of V as operand B (n, k) of the second product: (d, key).
    pub(crate) fn v_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        let tile = TmaTile::new::<T>((self.value_dim, self.block), Major::Mn)?;
        Ok(tile.sliced(self.cluster).in_parts(self.block / self.part_keys()))
    }

    /// Keys of a block that are neighbors in K and V: all, or those of one page. Pages are powers of
    /// two.
    pub(crate) fn part_keys(&self) -> u32 {
        self.page_size.map_or(self.block, |page_size| page_size.min(1 << self.block.trailing_zeros()))
    }

    /// The producer and the consumers. Copies need few registers; the consumers share the others.
    pub(crate) fn roles(&self) -> [RoleSize; 2] {
        let (producer, consumer) = match self.consumers {
            1 => (56, 256),
            2 => (24, 240),
            _ => (32, 160),
        };
        [warpgroups(1).registers(producer), warpgroups(self.consumers).registers(consumer)]
    }
}
