//! The stages of tiles between the producer's warp and the consumers: K and V alternate.
//!
//! ```text
//! memory of a tile     box 0 | box 1 | ..                  a box: `box_keys` keys of one page and head
//! memory of a box      columns 0..64 | columns 64..128 ..  a panel: a row of 128 bytes per key, its 16-byte chunks swizzled
//! ```

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

/// The stages of tiles.
pub(crate) struct TileStages<T> {
    pub(super) boxes: BoxLayout,
    /// Boxes of a tile.
    pub(super) tile_boxes: u32,
    pub(super) memory: Shared<T>,
    pub(super) pipeline: TransactionPipeline,
}

#[device]
impl<T: CacheElement> TileStages<T> {
    /// Empty stages. `arrivals`: those of the producer's warp per tile. The CTA synchronizes before
    /// it uses it.
    pub(super) fn new(kernel: &DecodeAttention, arrivals: u32) -> Self {
        let (boxes, plan) = (BoxLayout::new::<T>(kernel), kernel.plan);
        let elements = plan.stages * plan.key_warps * boxes.elements();
        let memory = dynamic_shared_aligned::<T>(elements, 1024);
        let pipeline =
            TransactionPipeline::stages(plan.stages).arrivals(arrivals).before_hopper(!plan.is_hopper);
        let pipeline = pipeline.released_by_warps(plan.consumer_warps());
        Self { boxes, tile_boxes: plan.key_warps, memory, pipeline }
    }

    /// Boxes of all stages.
    pub(super) fn all_boxes(&self) -> u32 {
        self.pipeline.count() * self.tile_boxes
    }

    /// A consumer warp that reads nothing of the stage.
    pub(super) fn skip(&self, state: PipelineState) {
        self.pipeline.wait(state);
        self.release(state);
    }

    /// A consumer warp has read the stage.
    pub(super) fn release(&self, state: PipelineState) {
        self.pipeline.release(state.stage(), lane_id());
    }
}
