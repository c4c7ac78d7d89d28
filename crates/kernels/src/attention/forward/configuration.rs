//! What the forward kernel is built for: its tiles and its roles.

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::transpose::{BLOCK, SQUARE};
use super::value_transpose::ValueTranspose;
use crate::attention::problem::MaskBounds;
use crate::gemm::problem::types::Operand;

/// Queries of a consumer warpgroup: the rows of a `wgmma`.
pub(crate) const WARPGROUP_ROWS: u32 = 64;

/// Columns of O that one product of e4m3 computes: it is added to O beside the next one.
const PART_COLUMNS: u32 = 64;

/// What the kernel for e4m3 is built for besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct Fp8Form {
    /// Whether each block has a scale, or each head.
    pub(crate) block_scales: bool,
    /// Whether V is transposed before the kernel, by [`ValueTranspose`].
    pub(crate) v_transposed: bool,
}

/// How blocks of V get to the tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueLayout {
    /// As they are in V: d is contiguous.
    AsStored,
    /// Warps of the producer transpose them, in squares.
    TransposedInside,
    /// A kernel before has transposed V.
    TransposedBefore,
}

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
    /// For e4m3. Then blocks have [`BLOCK`] keys.
    pub(crate) fp8: Option<Fp8Form>,
}

impl ForwardKernel {
    /// Queries of a tile.
    pub(crate) fn rows(&self) -> u32 {
        self.consumers * WARPGROUP_ROWS
    }

    pub(super) fn values(&self) -> ValueLayout {
        match self.fp8 {
            None => ValueLayout::AsStored,
            Some(Fp8Form { v_transposed: false, .. }) => ValueLayout::TransposedInside,
            Some(Fp8Form { v_transposed: true, .. }) => ValueLayout::TransposedBefore,
        }
    }

    /// The tile of Q, (query, d), and a block of K, (key, d), and of V: (d, key), or (key, d) if warps
    /// transpose it.
    pub(crate) fn tiles<E: Operand>(&self) -> [Result<TmaTile, Error>; 3] {
        let in_pages = |tile: TmaTile| tile.sliced(self.cluster).in_parts(self.block / self.part_keys());
        let (d, columns) = (self.depth(), self.value_columns());
        let v = match self.values() {
            ValueLayout::AsStored => TmaTile::new::<E>((columns, self.block), Major::Mn).map(in_pages),
            ValueLayout::TransposedInside => TmaTile::new::<E>((self.block, columns), Major::K).map(in_pages),
            ValueLayout::TransposedBefore => {
                TmaTile::new::<E>((columns, self.block), Major::K).map(|tile| tile.sliced(self.cluster))
            }
        };
        let k = TmaTile::new::<E>((self.block, d), Major::K).map(in_pages);
        [TmaTile::new::<E>((self.rows(), d), Major::K), k, v]
    }

    /// V as products read it, from the stages that copies fill. Of e4m3, a product takes some rows of a
    /// transposed block.
    #[track_caller]
    pub(super) fn value_tensor<E: Operand>(&self, v: &Tensor<E, SharedSpace>) -> Tensor<E, SharedSpace> {
        let tiles = self.stages * self.tiles_of_block();
        match self.fp8 {
            None => v.clone(),
            Some(_) => v.map(|_| TmaTile::new::<E>((PART_COLUMNS, BLOCK), Major::K)?.layout(tiles)),
        }
    }

    /// The kernel that transposes V before.
    pub(crate) fn value_transpose(&self) -> ValueTranspose {
        ValueTranspose { value_dim: self.value_dim, packed: self.packed }
    }

    /// Elements of a row of Q and K in shared memory: whole k-steps of a product.
    fn depth(&self) -> u32 {
        if self.fp8.is_some() { self.head_dim.next_multiple_of(32) } else { self.head_dim }
    }

    /// Columns of a block of V: whole parts of O, or the squares in which it is transposed.
    fn value_columns(&self) -> u32 {
        match self.values() {
            ValueLayout::AsStored => self.value_dim,
            ValueLayout::TransposedInside => self.squares() * SQUARE,
            ValueLayout::TransposedBefore => self.parts() * self.columns(),
        }
    }

    /// Squares of a block of V.
    pub(super) fn squares(&self) -> u32 {
        self.value_dim.div_ceil(SQUARE)
    }

    /// Columns of O that one product computes.
    pub(super) fn columns(&self) -> u32 {
        if self.fp8.is_some() { PART_COLUMNS } else { self.value_dim }
    }

    /// Products that compute all columns of O.
    pub(super) fn parts(&self) -> u32 {
        self.value_dim.div_ceil(self.columns())
    }

    /// Products that are computed apart from O, at the same time. Scores are never needed with them: ptxas
    /// gives them the same registers.
    pub(super) fn products(&self) -> u32 {
        if self.fp8.is_some() { self.parts().min(2) } else { 0 }
    }

    /// Tiles in a block of V, of which each product takes one.
    pub(super) fn tiles_of_block(&self) -> u32 {
        self.value_columns() / self.columns()
    }

    /// Keys of a block that are neighbors in K and V: all, or those of one page. Pages are powers of
    /// two.
    pub(crate) fn part_keys(&self) -> u32 {
        self.page_size.map_or(self.block, |page_size| page_size.min(1 << self.block.trailing_zeros()))
    }

    /// The producer and the consumers, which share the registers. Copies need few, and warps that transpose V
    /// some more.
    pub(crate) fn roles(&self) -> [RoleSize; 2] {
        let (producer, consumer) = match (self.consumers, self.values()) {
            (1, _) => (56, 256),
            (2, ValueLayout::TransposedInside) => (40, 232),
            (2, _) => (24, 240),
            _ => (32, 160),
        };
        [warpgroups(1).registers(producer), warpgroups(self.consumers).registers(consumer)]
    }
}
