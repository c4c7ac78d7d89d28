//! The ring of tiles between the producer's warp and the consumers: K and V alternate.
//!
//! ```text
//! memory of a tile     box 0 | box 1 | ..                  a box: `box_keys` keys of one page and head
//! memory of a box      columns 0..64 | columns 64..128 ..  a panel: a row of 128 bytes per key, its 16-byte chunks swizzled
//! ```

use warpwright::lang::control::wait_until;
use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::layout::{self, Swizzle};
use warpwright::prelude::*;

use super::configuration::{CacheElement, DecodeAttention};

/// Where the boxes of a tile lie in shared memory.
#[derive(Clone, Copy)]
pub(super) struct BoxLayout {
    /// Keys of a box.
    pub(super) keys: u32,
    pub(super) head_dim: u32,
    /// Columns of a panel: a row has 128 bytes, or 64 where the head dimension is not whole panels.
    pub(super) span: u32,
}

impl BoxLayout {
    pub(super) fn new<T: Element>(kernel: &DecodeAttention) -> Self {
        let head_dim = kernel.heads.head_dim;
        let widest = 128 / T::BYTES;
        let span = if head_dim.is_multiple_of(widest) { widest } else { widest / 2 };
        Self { keys: kernel.plan.box_keys, head_dim, span }
    }

    /// Panels of a box.
    pub(super) fn panels(&self) -> u32 {
        self.head_dim / self.span
    }

    /// Elements of a box.
    pub(super) fn elements(&self) -> u32 {
        self.keys * self.head_dim
    }

    /// The swizzle on elements of 2 bytes: that of a tensor map of this span.
    fn swizzle(&self) -> Result<Swizzle, layout::Error> {
        Swizzle::new(self.span / 32 + 1, 3, 3)
    }

    /// The boxes as operand B (n, k) of Q·Kᵀ: (key, column, box).
    #[track_caller]
    pub(super) fn keys_tensor<T: Element>(&self, memory: Shared<T>, boxes: u32) -> Tensor<T, SharedSpace> {
        let shape = (self.keys, (self.span, self.panels()), boxes);
        let strides = (self.span, (1, self.span * self.keys), self.elements());
        Tensor::swizzled(memory, Layout::new(shape, strides), self.swizzle())
    }

    /// The boxes as operand B (n, k) of P·V, by panels: (column, key, panel, box).
    #[track_caller]
    pub(super) fn values_tensor<T: Element>(&self, memory: Shared<T>, boxes: u32) -> Tensor<T, SharedSpace> {
        let shape = (self.span, self.keys, self.panels(), boxes);
        let strides = (1, self.span, self.span * self.keys, self.elements());
        Tensor::swizzled(memory, Layout::new(shape, strides), self.swizzle())
    }
}

/// The tiles and their mbarriers.
pub(crate) struct Ring<T> {
    pub(super) boxes: BoxLayout,
    /// Boxes of a tile.
    pub(super) tile_boxes: u32,
    stages: u32,
    pub(super) memory: Shared<T>,
    /// Whether a waiting thread can be suspended: sm_90.
    suspends: bool,
    /// For each stage: completes when its bytes have arrived, and when the consumers have read them.
    full: Mbarriers,
    empty: Mbarriers,
}

/// A position in the ring: the stage, and the parity of its use.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Turn {
    stages: u32,
    pub(super) stage: Reg<u32>,
    parity: Reg<u32>,
}

#[device]
impl Turn {
    pub(super) fn first(stages: u32) -> Self {
        Self { stages, stage: constant(0), parity: constant(0) }
    }

    /// The position of the next tile.
    pub(super) fn after(&self) -> Self {
        let next = self.stage + 1;
        let wraps = next.eq(self.stages);
        let stage = wraps.select(0u32, next);
        Self { stages: self.stages, stage, parity: self.parity ^ wraps.to_u32() }
    }
}

#[device]
impl<T: CacheElement> Ring<T> {
    /// An empty ring. `arrivals`: those of the producer's warp per tile. The CTA synchronizes before
    /// it uses it.
    pub(super) fn new(kernel: &DecodeAttention, arrivals: u32) -> Self {
        let (boxes, plan) = (BoxLayout::new::<T>(kernel), kernel.plan);
        let elements = plan.stages * plan.key_warps * boxes.elements();
        let memory = dynamic_shared_aligned::<T>(elements, 1024);
        let (full, empty) = (Mbarriers::new(plan.stages), Mbarriers::new(plan.stages));
        if thread_idx().x == 0 {
            for stage in 0..plan.stages {
                full.at(stage).init(arrivals);
                empty.at(stage).init(plan.consumer_warps());
            }
            if plan.is_hopper {
                fence_mbarrier_init();
            }
        }
        let (tile_boxes, stages) = (plan.key_warps, plan.stages);
        Self { boxes, tile_boxes, stages, memory, suspends: plan.is_hopper, full, empty }
    }

    /// Boxes of all stages.
    pub(super) fn all_boxes(&self) -> u32 {
        self.stages * self.tile_boxes
    }

    /// The producer: waits until the stage may be filled. Returns the mbarrier that its bytes
    /// complete.
    pub(super) fn acquire(&self, turn: &Turn) -> Mbarrier {
        self.wait_for(self.empty.at(turn.stage), turn.parity ^ 1);
        self.full.at(turn.stage)
    }

    /// A consumer: waits until the stage is full.
    pub(super) fn wait(&self, turn: &Turn) {
        self.wait_for(self.full.at(turn.stage), turn.parity);
    }

    fn wait_for(&self, barrier: Mbarrier, parity: Reg<u32>) {
        if self.suspends {
            barrier.wait_parity(parity);
        } else {
            wait_until(|| barrier.test_wait_parity(parity));
        }
    }

    /// A consumer warp that reads nothing of the stage. It waits too, so that it does not arrive
    /// twice for one use of the stage.
    pub(super) fn skip(&self, turn: &Turn) {
        self.wait(turn);
        self.release(turn);
    }

    /// A consumer warp has read the stage.
    pub(super) fn release(&self, turn: &Turn) {
        sync_warp(ALL_LANES);
        if lane_id() == 0 {
            self.empty.at(turn.stage).arrive();
        }
    }
}
