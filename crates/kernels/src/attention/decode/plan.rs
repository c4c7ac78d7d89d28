//! The configuration of the kernel: how warps share a tile of keys, and what shared memory holds.
//!
//! ```text
//! a tile of K (or V) in the pipeline: `key_warps` boxes of `box_keys` keys x head_dim
//!
//!            keys 0..16     keys 16..32    keys 32..48    keys 48..64
//! rows 0..16   warp 0         warp 1         warp 2         warp 3        each with a softmax of its own
//! rows 16..32  warp 4         warp 5         warp 6         warp 7        where there are more than 16 rows
//! ```

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::Capability;
use warpwright::arch::tensor_map::L2Promotion;
use warpwright::lang::element::Element;
use warpwright::prelude::L2Eviction;

use super::problem::{DecodeShape, OPERATION};
use crate::operations::{OperationError, Result};

/// Rows of one `mma.sync`.
pub(super) const MMA_ROWS: u32 = 16;

/// Elements between two rows of partial outputs in shared memory, in addition to the row: eight
/// rows of pairs are in different banks.
pub(super) const PARTIAL_PADDING: u32 = 8;

/// The L2 priority of the cache's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum CacheEviction {
    /// The default priority.
    Normal,
    /// Evicted first.
    First,
}

/// What L2 fetches at once of K and V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum CachePromotion {
    /// 256 bytes.
    Bytes256,
    /// 128 bytes.
    Bytes128,
    /// What a copy reads.
    #[default]
    None,
}

impl From<CachePromotion> for L2Promotion {
    fn from(promotion: CachePromotion) -> Self {
        match promotion {
            CachePromotion::Bytes256 => Self::Bytes256,
            CachePromotion::Bytes128 => Self::Bytes128,
            CachePromotion::None => Self::None,
        }
    }
}

/// What a plan shall have; `None` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DecodeTuning {
    /// Keys that a warp multiplies at once: 16, 32 or 64.
    pub box_keys: Option<u32>,
    /// Warps along the keys of a tile.
    pub key_warps: Option<u32>,
    /// Tiles of K and V in shared memory.
    pub stages: Option<u32>,
    /// CTAs per SM.
    pub ctas_per_sm: Option<u32>,
    /// Maximum number of CTAs.
    pub ctas: Option<u32>,
    /// L2 priority of K and V.
    pub evict: Option<CacheEviction>,
    /// L2 promotion of the tensor maps of K and V.
    pub promotion: CachePromotion,
}

/// How the threads of a CTA share the keys and the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecodePlan {
    /// Keys that a warp multiplies at once: those of one box.
    pub(super) box_keys: u32,
    /// Warps along the keys of a tile.
    pub(super) key_warps: u32,
    /// Warps along the rows.
    pub(super) row_warps: u32,
    /// Tiles of the pipeline; K and V alternate.
    pub(super) stages: u32,
    /// Resident CTAs per SM.
    pub(super) ctas_per_sm: u32,
    /// CTAs at most; `None`: as many as fit the device.
    pub(super) ctas: Option<u32>,
    /// The L2 priority of K and V.
    pub(super) evict: CacheEviction,
    /// Whether the GPU has tensor copies, waits that suspend a thread, and programmatic dependent
    /// launches: sm_90.
    pub(super) is_hopper: bool,
}

impl DecodePlan {
    /// The plan for a shape on GPUs of that capability.
    ///
    /// # Errors
    /// `tuning` contradicts the shape, or shared memory cannot hold two tiles.
    pub(super) fn new<T: Element>(
        shape: &DecodeShape,
        tuning: &DecodeTuning,
        capability: &Capability,
    ) -> Result<Self> {
        let row_warps = shape.rows().div_ceil(MMA_ROWS);
        let box_keys = tuning.box_keys.unwrap_or(16);
        if !box_keys.is_power_of_two() || box_keys > shape.cache.page_size {
            let page = shape.cache.page_size;
            return refuse(format!(
                "a warp multiplies {box_keys} keys at once; give a power of two from 16 to {page}, the page size"
            ));
        }
        let mut plan = Self {
            box_keys,
            key_warps: tuning.key_warps.unwrap_or_else(|| Self::key_warps(shape, row_warps)),
            row_warps,
            stages: 2,
            ctas_per_sm: tuning.ctas_per_sm.unwrap_or(1),
            ctas: tuning.ctas,
            evict: tuning.evict.unwrap_or_else(|| Self::eviction_of::<T>(shape)),
            is_hopper: capability.compute_capability >= (9, 0),
        };
        if plan.threads() > capability.threads_per_cta {
            let (keys, rows) = (plan.key_warps, plan.row_warps);
            return refuse(format!(
                "{keys} warps along the keys, {rows} along the rows and the producer are more than a CTA has; \
                 give at most {} along the keys",
                (capability.threads_per_cta / 32 - 1) / rows
            ));
        }
        let per_cta = capability.shared_bytes_per_sm / plan.ctas_per_sm - capability.shared_bytes_reserved;
        let available = per_cta.min(capability.shared_bytes_per_cta_opt_in).saturating_sub(STATIC_BYTES);
        let wanted = tuning.stages.unwrap_or(2);
        while plan.stages_in::<T>(shape, available) < wanted
            && tuning.key_warps.is_none()
            && plan.key_warps > 1
        {
            plan.key_warps /= 2;
        }
        let fit = plan.stages_in::<T>(shape, available);
        if fit < wanted {
            let (tile, partials) = (plan.tile_bytes::<T>(shape), plan.partial_bytes(shape));
            return refuse(format!(
                "{wanted} tiles of {tile} bytes and {partials} bytes of partial results exceed the {available} bytes of \
                 shared memory of a CTA; give fewer stages, warps along the keys, keys of a box, or CTAs per SM"
            ));
        }
        let enough = (BYTES_IN_FLIGHT / plan.tile_bytes::<T>(shape)).clamp(2, MAX_STAGES);
        plan.stages = tuning.stages.unwrap_or(fit.min(enough));
        Ok(plan)
    }

    /// The L2 priority for a cache of that size. On an H200, `First` takes 3% off one sequence of
    /// 32,768 keys (134 MB), and adds 2% to 32 sequences of 4,096 (537 MB).
    fn eviction_of<T: Element>(shape: &DecodeShape) -> CacheEviction {
        /// Bytes of K and V.
        const FEW: u64 = 256 << 20;
        let row = u64::from(shape.heads.key_heads * shape.heads.head_dim * T::BYTES);
        match shape.cache.capacity().saturating_mul(u64::from(shape.batch)).saturating_mul(2 * row) <= FEW {
            true => CacheEviction::First,
            false => CacheEviction::Normal,
        }
    }

    /// Warps along the keys: enough that one tile's chain of products and softmax takes less time
    /// than its bytes, and few enough that partial results leave room for the pipeline.
    fn key_warps(shape: &DecodeShape, row_warps: u32) -> u32 {
        /// Shared memory for partial results.
        const PARTIAL_BYTES: u32 = 72 << 10;
        let wanted = if shape.heads.head_dim > 128 { 4 } else { 8 };
        let row_bytes = (shape.heads.head_dim + PARTIAL_PADDING + 2) * 4;
        let fit = PARTIAL_BYTES / (shape.rows() * row_bytes);
        (wanted / row_warps).min(fit).max(1)
    }

    /// Rows of a product, padded to whole MMAs.
    pub(super) fn padded_rows(&self) -> u32 {
        self.row_warps * MMA_ROWS
    }

    /// Keys of a tile.
    pub(super) fn tile_keys(&self) -> u32 {
        self.key_warps * self.box_keys
    }

    /// Warps that multiply.
    pub(super) fn consumer_warps(&self) -> u32 {
        self.key_warps * self.row_warps
    }

    /// Threads of a CTA: the consumers and the producer's warp.
    pub(super) fn threads(&self) -> u32 {
        32 * (self.consumer_warps() + 1)
    }

    /// Bytes of a tile of K or V.
    fn tile_bytes<T: Element>(&self, shape: &DecodeShape) -> u32 {
        self.tile_keys() * shape.heads.head_dim * T::BYTES
    }

    /// Tiles that fit shared memory of `available` bytes.
    fn stages_in<T: Element>(&self, shape: &DecodeShape, available: u32) -> u32 {
        available.saturating_sub(self.partial_bytes(shape)) / self.tile_bytes::<T>(shape)
    }

    /// Bytes of the warps' partial results.
    fn partial_bytes(&self, shape: &DecodeShape) -> u32 {
        self.key_warps * shape.rows() * (shape.heads.head_dim + PARTIAL_PADDING + 2) * 4
    }

    /// The L2 priority of K and V, if it is not the default.
    pub(super) fn eviction(&self) -> Option<L2Eviction> {
        (self.evict == CacheEviction::First).then_some(L2Eviction::First)
    }
}

/// Shared memory for mbarriers, collectives and alignment.
const STATIC_BYTES: u32 = 3 << 10;

/// Bytes of the pipeline that suffice: twice what hides the latency of HBM (4.5 TB/s of 132 SMs for
/// 2 us are 68 KB each). More than that waits in the memory system, and CTAs finish further apart:
/// on an H200, one sequence of 32,768 keys takes 39.8 us with 128 KB and 42.0 us with 192 KB.
const BYTES_IN_FLIGHT: u32 = 128 << 10;

/// Tiles of the pipeline at most.
const MAX_STAGES: u32 = 32;

fn refuse<V>(reason: String) -> Result<V> {
    Err(OperationError::Shape { what: OPERATION, reason })
}
