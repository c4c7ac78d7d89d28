//! The reduction in one launch: every element is read once, 16 bytes at a time.
//!
//! As many CTAs as fit the device stride over the input. Enough bytes must be in flight to cover
//! the latency of DRAM. From sm_90 on, bulk copies load the tiles of a CTA into a pipeline in
//! shared memory, three stages of 32 KB:
//!
//! ```text
//!          tile 0                            tile 1              one round: a tile per CTA
//! vector   t0 t1 .. t255  t0 t1 .. t255 ..  | of CTA 1 ..  |     t1 reads `unroll` vectors, one CTA width apart
//! ```
//!
//! Before sm_90, a thread loads its [`SinglePass::unroll`] vectors of a tile into registers before
//! it combines any. (H200: 4.63 TB/s by loads, 4.69 through the pipeline.)
//!
//! Each CTA stores one partial state and increments a counter; the last CTA combines the partial
//! states. The counter wraps to 0 (`atom.inc`), which is where the next launch needs it.

use warpwright::arch::Capability;
use warpwright::lang::bulk;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use crate::collective::{reduce_block, reduce_warp};
use crate::monoid::Monoid;
use crate::operations::{Operations, Result, Scratch};
use crate::overlap;
use crate::vector;

/// The reduction by `monoid`, in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SinglePass<M> {
    /// The operation.
    pub monoid: M,
    /// Threads of a CTA.
    pub threads: u32,
    /// Vectors that a thread loads before it combines any.
    pub unroll: u32,
    /// Stages of the pipeline (sm_90); 0 where threads load from memory.
    pub stages: u32,
    /// Most CTAs per SM; 0: as many as fit.
    pub ctas_per_sm: u32,
    /// Programmatic dependent launch: the grid starts before its predecessor ends, and prefetches
    /// its first tiles into L2. sm_90.
    pub overlaps: bool,
}

impl<M> SinglePass<M> {
    /// The fastest configuration on an H200, fitted to a GPU of that capability.
    pub fn new(monoid: M, capability: &Capability) -> Self {
        let is_hopper = capability.compute_capability >= (9, 0);
        let stages = if is_hopper { 3 } else { 0 };
        Self { monoid, threads: 256, unroll: 8, stages, ctas_per_sm: 0, overlaps: is_hopper }
    }

    /// Elements of a tile.
    pub fn tile<T: Element>(&self) -> u32 {
        self.threads * self.unroll * vector::width::<T>()
    }

    /// The grid for `length` elements, where `most` CTAs fit the device.
    pub fn grid<T: Element>(&self, length: u64, most: u32) -> u32 {
        let tiles = length.div_ceil(self.tile::<T>().into());
        u32::try_from(tiles).unwrap_or(u32::MAX).clamp(1, most)
    }

    /// The longest chain of operations from an element to the result, in a grid of `grid` CTAs. A
    /// sum of floats is off by at most this many roundings of the sum of the magnitudes.
    /// [`Operations::reduce_rounding_steps`] knows the grid.
    pub fn rounding_steps<T: Element>(&self, length: u64, grid: u32) -> u64
    where
        M: Monoid<T>,
    {
        let (vectors, width) = (u64::from(self.unroll), u64::from(vector::width::<T>()));
        // Shuffles of a warp, and of the results of warps.
        let tree = 5 + 5;
        let partials = u64::from(grid.div_ceil(self.threads)) + tree;
        let of_thread = if M::COMMUTES {
            let rounds = (length / u64::from(self.tile::<T>())).div_ceil(grid.into());
            let tail = vectors * width + 1;
            rounds * width + vectors + tail
        } else {
            let rows = length.div_ceil(32 * width);
            let warps = u64::from(grid) * u64::from(self.threads / 32);
            width + 5 + rows.div_ceil(warps)
        };
        of_thread + tree + partials
    }

    /// `output[0]` = all of `input` combined. `arrived[0]` is 0 before and after; `partials` holds
    /// a record per CTA.
    #[kernel]
    pub fn run<T: Storable>(
        &self,
        input: &Global<T>,
        output: &mut Global<M::Output>,
        partials: &mut Global<u64>,
        arrived: &mut Global<u32>,
        length: u64,
    ) where
        M: Monoid<T>,
    {
        launch::threads(self.threads);
        if self.overlaps {
            launch::grid_dependency_launch();
            if self.stages > 0 && M::COMMUTES {
                self.prefetch_first(input, length);
            }
            launch::grid_dependency_wait();
        }
        let mine = if M::COMMUTES { self.striped(input, length) } else { self.in_order(input, length) };
        let of_block = reduce_block(&self.monoid, mine, self.threads);

        // Thread 0 publishes the state of the CTA: its increment releases it and acquires those of
        // the others.
        let partials = ValueRecords::new(self.monoid.identity(), partials.cast());
        let is_last = shared_array::<u32>(1);
        let blocks = grid_dim().x;
        if thread_idx().x == 0 {
            partials.set(block_idx().x.convert::<u64>(), of_block);
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let before = arrived.atomic_increment(blocks - 1, counting);
            is_last.store(before.eq(blocks - 1).to_u32());
        }
        sync_threads();
        if is_last.load() != 0 {
            let all = self.partial(&partials, blocks);
            let all = reduce_block(&self.monoid, all, self.threads);
            if thread_idx().x == 0 {
                output[0u32] = self.monoid.lower(all);
            }
        }
    }

    /// Prefetches the first tiles of the CTA into L2.
    #[device]
    fn prefetch_first<T: Storable>(&self, input: &Global<T>, length: Reg<u64>)
    where
        M: Monoid<T>,
    {
        let tile_length = self.tile::<T>();
        let tiles = length / u64::from(tile_length);
        if thread_idx().x == 0 {
            for round in 0..self.stages {
                let tile = (block_idx().x + grid_dim().x * round).convert::<u64>();
                if tile < tiles {
                    bulk::Load::new(input.at(tile * u64::from(tile_length)), tile_length).prefetch();
                }
            }
        }
    }

    /// This thread's partial states, a run of neighbors, combined.
    #[device]
    fn partial<T: Storable>(&self, partials: &ValueRecords<M::State>, blocks: Reg<u32>) -> M::State
    where
        M: Monoid<T>,
    {
        let share = (blocks + (self.threads - 1)) / self.threads;
        let first = thread_idx().x * share;
        let mut state = self.monoid.identity();
        for record in first..(first + share).min(blocks) {
            state = self.monoid.combine(state, partials.get(record.convert::<u64>()));
        }
        state
    }

    /// This thread's elements combined, where the operation commutes: the tiles of a CTA are a grid
    /// apart.
    #[device]
    fn striped<T: Storable>(&self, input: &Global<T>, length: Reg<u64>) -> M::State
    where
        M: Monoid<T>,
    {
        let states =
            if self.stages > 0 { self.of_pipeline(input, length) } else { self.of_loads(input, length) };
        let mut state = states[0];
        for other in &states[1..] {
            state = self.monoid.combine(state, *other);
        }

        // The rest is less than a tile.
        let tile = u64::from(self.tile::<T>());
        let threads = (grid_dim().x * self.threads).convert::<u64>();
        let first = (block_idx().x * self.threads + thread_idx().x).convert::<u64>();
        for index in (length / tile * tile + first..length).step_by(threads) {
            state = self.monoid.accumulate(state, input[index], index);
        }
        state
    }

    /// The states of this thread, one per vector of a tile, loaded from memory.
    #[device]
    fn of_loads<T: Storable>(&self, input: &Global<T>, length: Reg<u64>) -> Vec<M::State>
    where
        M: Monoid<T>,
    {
        let (tile, width) = (u64::from(self.tile::<T>()), vector::width::<T>());
        let tiles = length / tile;
        let block = block_idx().x.convert::<u64>();
        let blocks = grid_dim().x.convert::<u64>();
        let stride = self.threads * width;

        let mut states = vec![self.monoid.identity(); self.unroll as usize];
        let mut index = block * tile + (thread_idx().x * width).convert::<u64>();
        for _round in (block..tiles).step_by(blocks) {
            let at = input.at(index);
            let vectors: Vec<_> = (0..self.unroll)
                .map(|part| vector::load(at.at(part * stride), overlap::read_once(self.overlaps)))
                .collect();
            for (part, elements) in vectors.iter().enumerate() {
                let first = index + u64::from(part as u32 * stride);
                states[part] = self.monoid.accumulate_run(states[part], elements, first);
            }
            index += blocks * tile;
        }
        states
    }

    /// The same, through the pipeline in shared memory.
    #[device]
    fn of_pipeline<T: Storable>(&self, input: &Global<T>, length: Reg<u64>) -> Vec<M::State>
    where
        M: Monoid<T>,
    {
        let (tile_length, width) = (self.tile::<T>(), vector::width::<T>());
        let tiles = length / u64::from(tile_length);
        let stages = dynamic_shared::<T>(self.stages * tile_length);
        let pipeline = TransactionPipeline::stages(self.stages).synchronized_by_cta();
        let thread = thread_idx().x;
        let block = block_idx().x.convert::<u64>();
        let blocks = grid_dim().x.convert::<u64>();
        let stride = self.threads * width;
        let fetch = |stage: Reg<u32>, tile: Reg<u64>| {
            let barrier = pipeline.full(stage);
            barrier.arrive_and_expect(tile_length * T::BYTES);
            let from = input.at(tile * u64::from(tile_length));
            bulk::load(from, tile_length, stages.at(stage * tile_length), barrier);
        };
        if thread == 0 {
            for stage in 0..self.stages {
                let tile = block + blocks * u64::from(stage);
                if tile < tiles {
                    fetch(constant(stage), tile);
                }
            }
        }
        sync_threads();

        let mut states = vec![self.monoid.identity(); self.unroll as usize];
        let mut state = PipelineState::start();
        for tile in (block..tiles).step_by(blocks) {
            pipeline.wait(state);
            let at = stages.at(state.stage() * tile_length + thread * width);
            let index = tile * u64::from(tile_length) + (thread * width).convert::<u64>();
            let vectors: Vec<_> = (0..self.unroll)
                .map(|part| vector::load_lanes(at.at(part * stride), width, Access::new()))
                .collect();
            // All threads have read the tile: the stage is empty.
            sync_threads();
            let next = tile + blocks * u64::from(self.stages);
            if (thread == 0) & (next < tiles) {
                fetch(state.stage(), next);
            }
            for (part, elements) in vectors.iter().enumerate() {
                let first = index + u64::from(part as u32 * stride);
                states[part] = self.monoid.accumulate_run(states[part], elements, first);
            }
            state.advance(self.stages);
        }
        states
    }

    /// This thread's elements combined in order: each warp reduces a run of rows of 32 vectors, one
    /// row after the other. Lane 0 returns the state of the warp, the others the identity.
    #[device]
    fn in_order<T: Storable>(&self, input: &Global<T>, length: Reg<u64>) -> M::State
    where
        M: Monoid<T>,
    {
        let width = vector::width::<T>();
        let row_length = u64::from(32 * width);
        let lane = lane_id();
        let warps_of_block = self.threads / 32;
        let warp = (block_idx().x * warps_of_block + thread_idx().x / 32).convert::<u64>();
        let warps = (grid_dim().x * warps_of_block).convert::<u64>();
        let rows = (length + (row_length - 1)) / row_length;
        let share = (rows + warps - 1) / warps;
        let first = warp * share;

        let mut state = self.monoid.identity();
        for row in first..(first + share).min(rows) {
            let start = row * row_length + (lane * width).convert::<u64>();
            let mut of_vector = self.monoid.identity();
            if start + u64::from(width) <= length {
                let elements = vector::load(input.at(start), Access::new());
                of_vector = self.monoid.accumulate_run(of_vector, &elements, start);
            } else {
                for index in start..length {
                    of_vector = self.monoid.accumulate(of_vector, input[index], index);
                }
            }
            state = self.monoid.combine(state, reduce_warp(&self.monoid, of_vector));
        }
        let mut of_lane = self.monoid.identity();
        if lane == 0 {
            of_lane = state;
        }
        of_lane
    }
}

/// The workspace of a stream's reductions.
#[derive(Default)]
struct ReduceScratch {
    partials: Scratch<u64>,
    arrived: Scratch<u32>,
}

/// The grid of a launch for `length` elements.
pub fn grid_of<T: Storable, M: Monoid<T>>(
    operations: &Operations,
    configuration: &SinglePass<M>,
    length: u64,
) -> Result<u32> {
    let kernel = operations.kernel(*configuration, SinglePass::<M>::run::<T>)?;
    let fitting = operations.resident(&kernel)?;
    let wanted = match configuration.ctas_per_sm {
        0 => fitting,
        ctas => ctas * operations.device().properties().sm_count,
    };
    Ok(configuration.grid::<T>(length, fitting.min(wanted)))
}

/// Combines all of `input` into `output[0]`.
pub fn launch<T: Storable, M: Monoid<T>>(
    operations: &Operations,
    stream: &Stream,
    input: &Buffer<T>,
    output: &mut Buffer<M::Output>,
    configuration: SinglePass<M>,
) -> Result<LaunchCounts> {
    let monoid = configuration.monoid;
    let kernel = operations.kernel(configuration, SinglePass::<M>::run::<T>)?;
    let length = input.len() as u64;
    let grid = grid_of::<T, M>(operations, &configuration, length)?;
    operations.with_scratch(stream, |scratch: &mut ReduceScratch| {
        let words = (u64::from(grid) * record_bytes(|| monoid.identity())).div_ceil(8) as usize;
        let partials = scratch.partials.at_least(operations.device(), words)?;
        let arrived = scratch.arrived.at_least_kept(stream, 1)?;
        let shape = kernel.shape(grid);
        let shape = if configuration.overlaps { shape.overlapping() } else { shape };
        Ok(kernel.launch(stream, shape, (input, output, partials, arrived, length))?)
    })
}
