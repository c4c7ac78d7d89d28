//! How boxes of the paged cache get into shared memory: by tensor copies, or by `cp.async` before
//! sm_90.

use warpwright::arch::tensor_map::{Requirement, Swizzle as MapSwizzle};
use warpwright::lang::memory::cache_policy;
use warpwright::lang::parameter::KernelParameter;
use warpwright::lang::tensor_map_boxes::element_type;
use warpwright::lang::tma;
use warpwright::prelude::*;

use super::configuration::{CacheElement, DecodeAttention};
use super::stages::{BoxLayout, TileStages};

/// The keys of a lane's box: its page, the first of its keys in the page, and the key head.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct BoxPosition {
    pub(super) page: Reg<u32>,
    pub(super) key: Reg<u32>,
    pub(super) head: Reg<u32>,
}

/// A pool of pages, of K or of V: the parameter of the kernel.
pub(crate) trait Pool<T: CacheElement>: KernelParameter<Value = Self> + Copy {
    /// Arrivals of the producer's warp at the mbarrier of a stage.
    const ARRIVALS: u32;

    /// States what the copies need of the pool.
    fn declare_boxes(self, kernel: &DecodeAttention);

    /// Fills the first `present` boxes of the stage: box i is at lane i's `position`. The whole warp
    /// makes the call.
    fn fill(
        self,
        kernel: &DecodeAttention,
        stages: &TileStages<T>,
        stage: Reg<u32>,
        full: Mbarrier,
        position: BoxPosition,
        present: Reg<u32>,
    );
}

/// What the tensor copies of the pools need: a box of keys of one page and head, by panels.
///
/// The axes of the map are the columns of a panel, the keys of a page, the panels, the heads and the
/// pages.
pub(crate) fn box_requirement<T: CacheElement>(kernel: &DecodeAttention) -> Requirement {
    let boxes = BoxLayout::new::<T>(kernel);
    let element = element_type::<T>().expect("tensor maps have 16-bit floats");
    let swizzle = if boxes.span * T::BYTES == 128 { MapSwizzle::Bytes128 } else { MapSwizzle::Bytes64 };
    Requirement::tiled(element, &[boxes.span, boxes.keys, boxes.panels(), 1, 1]).swizzled(swizzle)
}

/// A pool that tensor copies read: one copy per box.
#[device]
impl<T: CacheElement> Pool<T> for TensorMap {
    const ARRIVALS: u32 = 1;

    fn declare_boxes(self, kernel: &DecodeAttention) {
        self.boxes(box_requirement::<T>(kernel));
    }

    fn fill(
        self,
        kernel: &DecodeAttention,
        stages: &TileStages<T>,
        stage: Reg<u32>,
        full: Mbarrier,
        position: BoxPosition,
        present: Reg<u32>,
    ) {
        let (lane, elements) = (lane_id(), stages.boxes.elements());
        if lane == 0 {
            full.arrive_and_expect(present * (elements * T::BYTES));
        }
        sync_warp(ALL_LANES);
        if lane < present {
            let at = (0u32, position.key, 0u32, position.head, position.page);
            let copy = match kernel.plan.eviction() {
                Some(eviction) => tma::Load::new(self, at).with_policy(cache_policy(eviction)),
                None => tma::Load::new(self, at),
            };
            copy.start(stages.memory.at((stage * stages.tile_boxes + lane) * elements), full);
        }
    }
}

/// A pool that the lanes of the producer's warp copy, 16 bytes each.
#[device]
impl<T: CacheElement> Pool<T> for Global<T> {
    const ARRIVALS: u32 = 32;

    fn declare_boxes(self, _kernel: &DecodeAttention) {}

    fn fill(
        self,
        kernel: &DecodeAttention,
        stages: &TileStages<T>,
        stage: Reg<u32>,
        full: Mbarrier,
        position: BoxPosition,
        present: Reg<u32>,
    ) {
        let (heads, boxes) = (kernel.heads, stages.boxes);
        let row = heads.key_heads * heads.head_dim;
        let copy = TiledCopy::new::<T>(
            "SM80_CP_ASYNC_CACHEGLOBAL<128>",
            Layout::row_major((8, 4)),
            Layout::row_major((1, 8)),
        )
        .thread(lane_id());
        let target = copy.target(&boxes.keys_tensor(stages.memory, stages.all_boxes()));
        for index in 0..present {
            let (page, key) = (position.page.shuffle(index), position.key.shuffle(index));
            let first = page as u64 * u64::from(kernel.page_size) + key as u64;
            let from = self.at(first * u64::from(row)).at(position.head * heads.head_dim);
            let from = Tensor::with_layout(from, Layout::new((boxes.keys, heads.head_dim), (row, 1)));
            let to = target.slice((All, All, All, stage * stages.tile_boxes + index));
            copy.copy_async(&to, &copy.source(&from), |_| None);
        }
        full.arrive_after_copies();
    }
}
