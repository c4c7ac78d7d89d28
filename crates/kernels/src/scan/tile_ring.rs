//! Tiles of an input on their way through shared memory, in a ring of stages.
//!
//! ```text
//! stage     0           1           2           3
//!           tile k      tile k + 1  tile k - 2  tile k - 1       k = 0, 4, 8, ..: tile k comes to stage k % 4
//! ```
//!
//! From sm_90 on tiles come by bulk copies, which one thread, the courier, starts; before that every worker brings a part by `cp.async`. Either
//! way an mbarrier of the stage tells when its tile is there. A tile that the input's end cuts short is not brought: whoever works on it loads it.

use warpwright::lang::bulk;
use warpwright::lang::control::wait_until;
use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

use crate::vector;

/// Where a tile lies.
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
    /// Tile number `tile` of an input of `length` elements; past the last one it has none.
    #[track_caller]
    pub(crate) fn of(tile: Reg<u32>, tile_length: u32, length: Reg<u64>) -> Self {
        let first = tile.convert::<u64>() * u64::from(tile_length);
        let left = length.max(first) - first;
        let is_whole = left.ge(u64::from(tile_length));
        Self { first, length: left.min(u64::from(tile_length)).convert(), is_whole }
    }
}

/// What a ring is built for.
#[derive(Clone, Copy)]
pub(crate) struct RingShape {
    /// Threads that bring tiles where bulk copies do not: the first of the CTA.
    pub(crate) workers: u32,
    /// Elements of a tile.
    pub(crate) tile_length: u32,
    /// Bytes of a stage: those of a tile, or more where something else takes its place.
    pub(crate) stage_bytes: u32,
    /// Tiles in shared memory at once.
    pub(crate) stages: u32,
    /// Whether tiles travel by bulk copies: sm_90.
    pub(crate) is_bulk: bool,
}

/// The ring of stages.
pub(crate) struct TileRing<T> {
    shape: RingShape,
    memory: Shared<u8>,
    /// For each stage, whether its tile is there.
    arrived: Mbarriers,
    element: std::marker::PhantomData<T>,
}

impl<T: Storable> TileRing<T> {
    /// Room for the stages, and their barriers ready.
    #[device]
    pub(crate) fn new(shape: RingShape) -> Self {
        let memory = dynamic_shared::<u8>(shape.stages * shape.stage_bytes);
        let arrived = Mbarriers::new(shape.stages);
        if thread_idx().x == 0 {
            for barrier in arrived.iter() {
                barrier.init(if shape.is_bulk { 1 } else { shape.workers });
            }
            if shape.is_bulk {
                fence_mbarrier_init();
            }
        }
        sync_threads();
        Self { shape, memory, arrived, element: std::marker::PhantomData }
    }

    /// A stage's elements, or what has taken their place.
    #[track_caller]
    pub(crate) fn at<U: Element>(&self, stage: Reg<u32>) -> Shared<U> {
        self.memory.at(stage * self.shape.stage_bytes).cast()
    }

    /// Starts to bring a tile into a stage that nobody uses any more; by all threads.
    #[device]
    pub(crate) fn fetch(&self, input: &Global<T>, stage: Reg<u32>, tile: Tile, is_courier: Reg<bool>) {
        let RingShape { workers, tile_length, is_bulk, .. } = self.shape;
        let (to, arrived) = (self.at::<T>(stage), self.arrived.at(stage));
        let from = input.at(tile.first);
        if is_bulk {
            if is_courier {
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

    /// Waits for a stage's tile.
    #[track_caller]
    pub(crate) fn wait(&self, stage: Reg<u32>, parity: Reg<u32>) {
        let arrived = self.arrived.at(stage);
        if self.shape.is_bulk {
            arrived.wait_parity(parity);
        } else {
            wait_until(|| arrived.test_wait_parity(parity));
        }
    }
}
