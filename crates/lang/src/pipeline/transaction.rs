//! Pipelines whose copies a kernel starts itself: bulk copies, tensor copies of boxes, `cp.async`.
//!
//! ```text
//! producer   acquire the stage of a state -> start copies that complete at its mbarrier -> next state
//! consumer   wait for the stage of a state -> read it -> release it                      -> next state
//! ```

use super::state::PipelineState;
use crate::DeviceValue;
use crate::control::wait_until;
use crate::fence::fence_mbarrier_init;
use crate::mbarrier::{Mbarrier, Mbarriers};
use crate::operation::refuse;
use crate::role::only_where;
use crate::special::thread_idx;
use crate::value::Reg;
use crate::warp::{ALL_LANES, sync_warp};

/// The mbarriers of stages whose memory and copies are the kernel's own. Any thread may be a producer or a
/// consumer, and keeps the [`PipelineState`] of its next stage. (CUTLASS: `PipelineTransactionAsync`.)
///
/// ```
/// use warpwright_lang::pipeline::{PipelineState, TransactionPipeline};
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::shared::dynamic_shared;
/// use warpwright_lang::{block::sync_threads, bulk, kernel, launch, special::thread_idx, value::constant};
///
/// /// One thread copies tiles of 1024 elements two ahead of the 128 threads that add them up.
/// #[kernel]
/// fn sums(input: &Global<f32>, output: &mut Global<f32>, tiles: u32) {
///     launch::threads(128);
///     let memory = dynamic_shared::<f32>(2 * 1024);
///     let pipeline = TransactionPipeline::stages(2).synchronized_by_cta();
///     sync_threads();
///     let mut state = PipelineState::start();
///     let mut sum = constant(0.0f32);
///     for tile in 0..tiles + 2 {
///         if tile >= 2 {
///             pipeline.wait(state);
///             for part in 0..8 {
///                 sum += memory.at(state.stage() * 1024 + thread_idx().x + part * 128).load();
///             }
///             sync_threads();
///         }
///         if thread_idx().x == 0 && tile < tiles {
///             let full = pipeline.full(tile % 2);
///             full.arrive_and_expect(1024 * 4);
///             bulk::load(input.at(tile * 1024), 1024, memory.at(tile % 2 * 1024), full);
///         }
///         if tile >= 2 {
///             state.advance(2);
///         }
///     }
///     output[thread_idx().x] = sum;
/// }
/// assert!(sums().is_ok());
/// ```
#[derive(Clone, Copy, DeviceValue)]
pub struct TransactionPipeline {
    full: Mbarriers,
    /// For pipelines whose stages warps release.
    empty: Option<Mbarriers>,
    before_hopper: bool,
}

/// The stages of a [`TransactionPipeline`] before its mbarriers are initialized.
#[derive(Clone, Copy, Debug)]
pub struct TransactionStages {
    count: u32,
    arrivals: u32,
    before_hopper: bool,
}

impl TransactionStages {
    /// Each stage is filled by copies and `count` arrivals, by default 1.
    pub fn arrivals(self, count: u32) -> Self {
        Self { arrivals: count, ..self }
    }

    /// Whether the kernel is for GPUs before sm_90: there threads test mbarriers until a phase has ended.
    pub fn before_hopper(self, before_hopper: bool) -> Self {
        Self { before_hopper, ..self }
    }

    /// The pipeline of a CTA that synchronizes between the last read of a stage and the next copies to it.
    ///
    /// All threads of the CTA call it, and synchronize before they use the pipeline.
    #[track_caller]
    pub fn synchronized_by_cta(self) -> TransactionPipeline {
        self.initialize(None)
    }

    /// The pipeline whose stages `warps` warps [release](TransactionPipeline::release), before they are
    /// [acquired](TransactionPipeline::acquire) and filled again. It is called as
    /// [`synchronized_by_cta`](Self::synchronized_by_cta).
    #[track_caller]
    pub fn released_by_warps(self, warps: u32) -> TransactionPipeline {
        self.initialize(Some(warps))
    }

    #[track_caller]
    fn initialize(self, warps: Option<u32>) -> TransactionPipeline {
        let Self { count, arrivals, before_hopper } = self;
        let full = Mbarriers::called("`full` mbarrier", count);
        let mut empty = None;
        if let Some(warps) = warps {
            empty = Some((Mbarriers::called("`empty` mbarrier", count), warps));
        }
        only_where(thread_idx().x.eq(0u32), || {
            for stage in 0..count {
                full.at(stage).init(arrivals);
                if let Some((empty, warps)) = empty {
                    empty.at(stage).init(warps);
                }
            }
            if !before_hopper {
                fence_mbarrier_init();
            }
        });
        TransactionPipeline { full, empty: empty.map(|(empty, _)| empty), before_hopper }
    }
}

impl TransactionPipeline {
    /// A pipeline of `count` stages.
    #[track_caller]
    pub fn stages(count: u32) -> TransactionStages {
        if count == 0 {
            refuse("a pipeline needs at least one stage");
        }
        TransactionStages { count, arrivals: 1, before_hopper: false }
    }

    /// The number of stages.
    pub fn count(self) -> u32 {
        self.full.count()
    }

    /// The mbarrier at which the copies to a stage complete.
    #[track_caller]
    pub fn full(self, stage: Reg<u32>) -> Mbarrier {
        self.full.at(stage)
    }

    /// A producer: waits until the warps have released the stage, and returns the mbarrier at which its copies
    /// complete.
    #[track_caller]
    pub fn acquire(self, state: PipelineState) -> Mbarrier {
        self.wait_at(self.empty().at(state.stage), state.parity ^ 1u32);
        self.full.at(state.stage)
    }

    /// A consumer: waits until the stage is full.
    #[track_caller]
    pub fn wait(self, state: PipelineState) {
        self.wait_at(self.full.at(state.stage), state.parity);
    }

    #[track_caller]
    fn wait_at(self, barrier: Mbarrier, parity: Reg<u32>) {
        if self.before_hopper {
            wait_until(|| barrier.test_wait_parity(parity));
        } else {
            barrier.wait_parity(parity);
        }
    }

    /// A warp, whose lanes know their number `lane`, has read the stage. One that reads nothing of it waits for
    /// it all the same, so that it does not release it twice.
    #[track_caller]
    pub fn release(self, stage: Reg<u32>, lane: Reg<u32>) {
        let empty = self.empty();
        sync_warp(ALL_LANES);
        only_where(lane.eq(0u32), || {
            empty.at(stage).arrive();
        });
    }

    #[track_caller]
    fn empty(self) -> Mbarriers {
        if self.empty.is_none() {
            refuse(
                "no warp releases the stages of this pipeline, for the CTA synchronizes them: `acquire` and `release` belong to `released_by_warps`",
            );
        }
        self.empty.unwrap_or(self.full)
    }
}
