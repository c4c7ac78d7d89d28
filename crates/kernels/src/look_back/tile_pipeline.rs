//! A pipeline of tiles in shared memory.
//!
//! ```text
//! stage     0           1           2           3
//!           tile k      tile k + 1  tile k - 2  tile k - 1       k = 0, 4, 8, ..: tile k has stage k % 4
//! ```
//!
//! From sm_90 on one thread, the producer, loads tiles by bulk copies; before that every worker
//! loads a part by `cp.async`. Either way an mbarrier per stage completes when its tile has
//! arrived. A partial tile at the end of the input is not copied: its consumers load it.

use warpwright::lang::bulk;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

use crate::vector;

/// The extent of a tile.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Tile {
    /// The index of its first element.
    pub(crate) first: Reg<u64>,
    /// Its elements inside the input.
    pub(crate) length: Reg<u32>,
    /// Whether that is all of them.
    pub(crate) is_whole: Reg<bool>,
}

impl Tile {
    /// The tile of an input of `length` elements; past the last one it is empty.
    #[track_caller]
    pub(crate) fn of(tile: Reg<u32>, tile_length: u32, length: Reg<u64>) -> Self {
        let first = tile.convert::<u64>() * u64::from(tile_length);
        let left = length.max(first) - first;
        let is_whole = left.ge(u64::from(tile_length));
        Self { first, length: left.min(u64::from(tile_length)).convert(), is_whole }
    }
}

/// The shape of a pipeline.
#[derive(Clone, Copy)]
pub(crate) struct PipelineShape {
    /// Threads that load tiles without bulk copies: the first of the CTA.
    pub(crate) workers: u32,
    /// Elements of a tile.
    pub(crate) tile_length: u32,
    /// Bytes of a stage: at least those of a tile.
    pub(crate) stage_bytes: u32,
    /// Stages.
    pub(crate) stages: u32,
    /// Whether tiles are loaded by bulk copies: sm_90.
    pub(crate) is_bulk: bool,
}

/// The pipeline.
pub(crate) struct TilePipeline<T> {
    shape: PipelineShape,
    memory: Shared<u8>,
    pipeline: TransactionPipeline,
    element: std::marker::PhantomData<T>,
}

impl<T: Storable> TilePipeline<T> {
    /// Allocates the stages and initializes the mbarriers.
    #[device]
    pub(crate) fn new(shape: PipelineShape) -> Self {
        let memory = dynamic_shared::<u8>(shape.stages * shape.stage_bytes);
        let arrivals = if shape.is_bulk { 1 } else { shape.workers };
        let pipeline = TransactionPipeline::stages(shape.stages).arrivals(arrivals);
        let pipeline = pipeline.before_hopper(!shape.is_bulk).synchronized_by_cta();
        sync_threads();
        Self { shape, memory, pipeline, element: std::marker::PhantomData }
    }

    /// The elements of a stage, or the results that replaced them.
    #[track_caller]
    pub(crate) fn at<U: Element>(&self, stage: Reg<u32>) -> Shared<U> {
        self.memory.at(stage * self.shape.stage_bytes).cast()
    }

    /// Starts to load a tile into an empty stage. Called by all threads.
    #[device]
    pub(crate) fn fetch(&self, input: &Global<T>, stage: Reg<u32>, tile: Tile, is_producer: Reg<bool>) {
        let PipelineShape { workers, tile_length, is_bulk, .. } = self.shape;
        let (to, arrived) = (self.at::<T>(stage), self.pipeline.full(stage));
        let from = input.at(tile.first);
        if is_bulk {
            if is_producer {
                if tile.is_whole {
                    arrived.arrive_and_expect(tile_length * T::BYTES);
                    bulk::load(from, tile_length, to, arrived);
                } else if tile.length > 0 {
                    arrived.arrive();
                }
            }
        } else if thread_idx().x < workers {
            if tile.is_whole {
                let width = vector::width::<T>();
                for place in (thread_idx().x * width..tile_length).step_by(workers * width) {
                    copy_async(to.at(place), from.at(place), width);
                }
            }
            arrived.arrive_after_copies();
        }
    }

    /// Waits for the next tile.
    #[track_caller]
    pub(crate) fn wait(&self, state: PipelineState) {
        self.pipeline.wait(state);
    }
}

/// Pushes a value to the front of a queue, and drops the last.
#[device]
pub(crate) fn shift_in<V: DeviceValue + Copy + Yields<V>>(queue: &mut [V], value: V) {
    for place in (1..queue.len()).rev() {
        queue[place] = queue[place - 1];
    }
    queue[0] = value;
}

/// Drops the first value of a queue, and pushes one to the back.
#[device]
pub(crate) fn shift_out<V: DeviceValue + Copy + Yields<V>>(queue: &mut [V], value: V) {
    for place in 1..queue.len() {
        queue[place - 1] = queue[place];
    }
    let last = queue.len() - 1;
    queue[last] = value;
}
