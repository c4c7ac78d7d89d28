//! The scan in one launch: every element is read once and written once.
//!
//! As many CTAs as fit the device process tile after tile. Tiles go through a pipeline in shared
//! memory. In the round of tile k:
//!
//! ```text
//! tile k + 1    is loaded into the stage of tile k - 3, whose results are stored
//! tile k        is combined: each thread's run, each warp's, and the aggregate of the tile, which is published
//! tile k - 1    waits
//! tile k - 2    is scanned from its prefix, and its results are stored
//! ```
//!
//! So the aggregates that a look-back needs were published a whole round before. (H200: with one
//! round less, a round lasts as long as a word takes from every CTA to every other: 3.0 TB/s
//! instead of 4.1.) In a stage, each thread has a run of neighbors, an odd number of 16-byte
//! vectors, so that the vectors that eight neighboring threads read at once lie in different
//! banks:
//!
//! ```text
//! thread 0   | v0 | v1 | v2 | .. | v6 |      a thread scans its run by itself,
//! thread 1   | v0 | v1 | v2 | .. | v6 |      and the lanes of a warp exchange once per tile
//! ```
//!
//! The roles, and the two barriers of a round:
//!
//! ```text
//! workers     combine their runs of tile k     | scan their runs of tile k - 2        |
//! last warp   look back from tile k - 2        | publish tile k, load tile k + 1      | store tile k - 2
//! ```
//!
//! Tiles are loaded by bulk copies or `cp.async` (`tile_pipeline.rs`) and stored by bulk copies or
//! by the workers.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::Capability;
use warpwright::lang::bulk::{self, bulk_commit, bulk_wait, bulk_wait_read};
use warpwright::lang::fence::fence_proxy_async_shared;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

use crate::collective::{before_lane, scan_warp};
use crate::look_back::aggregates::Chain;
use crate::look_back::tickets::{Ticket, TileQueue};
use crate::look_back::tile_pipeline::{PipelineShape, Tile, TilePipeline, shift_in, shift_out};
use crate::monoid::Monoid;
use crate::vector;

/// Whether a result includes its own element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum ScanKind {
    /// The result includes the element.
    #[default]
    Inclusive,
    /// The result covers the elements before it.
    Exclusive,
}

/// The scan by `monoid`, in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SinglePass<M> {
    /// The operation.
    pub monoid: M,
    /// Inclusive or exclusive.
    pub kind: ScanKind,
    /// Threads of a CTA.
    pub threads: u32,
    /// Vectors of a thread: an odd number.
    pub vectors: u32,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rounds from a tile's publication to its scan.
    pub lag: u32,
    /// Resident CTAs per SM, which bounds the registers.
    pub blocks_per_sm: u32,
    /// Windows of 32 tiles that a look-back reads at once.
    pub windows: u32,
    /// Whether tiles move by bulk copies: sm_90.
    pub is_bulk: bool,
}

impl<M> SinglePass<M> {
    /// The fastest configuration on an H200, fitted to a GPU of that capability.
    pub fn new<T: Element>(monoid: M, kind: ScanKind, capability: &Capability) -> Self
    where
        M: Monoid<T>,
    {
        // As many elements as registers hold, and results as fit a stage of 28 KB: two pipelines of
        // four stages fit an SM. GPUs with less shared memory have smaller stages.
        const ELEMENT_REGISTERS: u32 = 28;
        const STAGES: u32 = 4;
        const THREADS: u32 = 256;
        const OTHER_BYTES: u32 = 2 << 10;
        let registers = vector::width::<T>() * T::BYTES.div_ceil(4);
        let growth = <M::Output as Element>::BYTES.div_ceil(T::BYTES);
        let bytes = capability.shared_bytes_per_cta_opt_in - OTHER_BYTES;
        let fitting = bytes / (STAGES * THREADS * vector::WIDEST_BYTES);
        let vectors = (ELEMENT_REGISTERS / registers).min(fitting.min(7) / growth).max(1);
        let vectors = if vectors.is_multiple_of(2) { vectors - 1 } else { vectors };
        let is_bulk = capability.compute_capability >= (9, 0);
        let (threads, stages) = (THREADS, STAGES);
        Self { monoid, kind, threads, vectors, stages, lag: 2, blocks_per_sm: 2, windows: 9, is_bulk }
    }

    /// Threads of a CTA: the workers, and the warp that looks back.
    pub fn block(&self) -> u32 {
        self.threads + 32
    }

    /// Tiles in flight at the start of a round, its own included.
    fn ahead(&self) -> u32 {
        self.stages - self.lag - 1
    }

    /// Tickets that a CTA holds: those of the tiles in flight, and of the next one.
    pub fn held(&self) -> u32 {
        self.ahead() + 1
    }

    /// The stage `rounds` before another in the pipeline.
    #[track_caller]
    fn stage_before(&self, stage: Reg<u32>, rounds: u32) -> Reg<u32> {
        let back = self.stages - rounds;
        stage.lt(rounds).select(stage + back, stage - rounds)
    }

    /// Elements of a thread.
    fn run_length<T: Element>(&self) -> u32 {
        self.vectors * vector::width::<T>()
    }

    /// Results of a thread that one instruction moves.
    fn result_width<T: Element>(&self) -> u32
    where
        M: Monoid<T>,
    {
        vector::widest(self.run_length::<T>().into(), <M::Output as Element>::BYTES)
    }

    /// Elements of a tile.
    pub fn tile<T: Element>(&self) -> u32 {
        self.threads * self.run_length::<T>()
    }

    /// The longest chain of combinations that leads to one of `length` results: a sum of floats is
    /// off by at most this many roundings of the sum of the magnitudes.
    pub fn rounding_steps<T: Element>(&self, length: u64) -> u64 {
        let tiles = length.div_ceil(self.tile::<T>().into());
        let within = 2 * u64::from(self.run_length::<T>()) + 5 + 5 + 3;
        // The longest chain: one CTA processes all tiles.
        within + 2 * tiles
    }

    /// `output` = the scan of `input`. `counter`, `words` and `records` are the workspace of the
    /// look-back.
    #[kernel]
    pub fn run<T: Storable>(
        &self,
        input: &Global<T>,
        output: &mut Global<M::Output>,
        counter: &mut Global<u64>,
        words: &mut Global<u64>,
        records: &mut Global<u64>,
        length: u64,
    ) where
        M: Monoid<T>,
    {
        launch::threads(self.block());
        launch::blocks_per_sm(self.blocks_per_sm);
        let monoid = &self.monoid;
        let tile_length = u64::from(self.tile::<T>());
        let tiles = ((length + (tile_length - 1)) / tile_length).convert::<u32>();
        let queue = TileQueue::new(counter, tiles, self.held());
        let chain = Chain::new(*monoid, words, records, self.windows);
        let pipeline = self.pipeline::<T>();
        let warps = self.threads / 32;
        // Of each warp, its runs combined, and its prefix.
        let totals = ValueArray::shared(monoid.identity(), warps);
        let befores = ValueArray::shared(monoid.identity(), warps);
        let (thread, lane) = (thread_idx().x, lane_id());
        let warp = thread / 32;
        let is_worker = thread < self.threads;
        let is_producer = thread == self.threads;

        let mut tickets = queue.first();
        for stage in 0..self.ahead() {
            let tile = self.place::<T>(tickets[stage as usize].tile, length);
            pipeline.fetch(input, constant(stage), tile, is_producer);
        }
        let mut state = PipelineState::start();
        // The tiles that are published and not yet scanned, the latest first: the ticket; in
        // workers, the runs up to the thread's own in its warp, combined; in the last warp, the
        // prefix of each warp in the tile, and the aggregate.
        let none = Ticket { tile: tiles, ..tickets[0] };
        let mut published = vec![none; self.lag as usize];
        let mut scanned = vec![monoid.identity(); self.lag as usize];
        let mut before_warps = vec![monoid.identity(); self.lag as usize];
        let mut aggregates = vec![monoid.identity(); self.lag as usize];
        // In the last warp, the first tile whose prefix it does not know, and the prefix up to
        // there.
        let mut known_to = constant(0u32);
        let mut before = monoid.identity();
        let oldest = self.lag as usize - 1;
        let mut is_running = queue.has(tickets[0]);
        while is_running {
            let stage = state.stage();
            let (ticket, due) = (tickets[0], published[oldest]);
            let due_stage = self.stage_before(stage, self.lag);
            let mut upcoming = constant(0u64);
            let mut now = monoid.identity();
            if is_worker {
                if queue.has(ticket) {
                    let tile = self.place::<T>(ticket.tile, length);
                    pipeline.wait(state);
                    if !tile.is_whole {
                        self.fill(input, pipeline.at(stage), tile);
                    }
                    let elements = self.load::<T>(pipeline.at(stage));
                    let of_run =
                        monoid.accumulate_run(monoid.identity(), &elements, self.first_of_run::<T>(tile));
                    now = scan_warp(monoid, of_run);
                    if lane == 31 {
                        totals.set(warp, now);
                    }
                }
            } else {
                if (lane == 0) & queue.has(ticket) {
                    upcoming = queue.take();
                }
                if queue.has(due) {
                    before = monoid.combine(before, chain.between(known_to, due));
                    if lane < warps {
                        befores.set(lane, monoid.combine(before, before_warps[oldest]));
                    }
                    before = monoid.combine(before, aggregates[oldest]);
                    known_to = due.tile + 1;
                }
                if (lane == 0) & queue.has(ticket) {
                    queue.show(upcoming);
                }
            }
            sync_threads();

            let next = queue.see();
            let mut of_warps = monoid.identity();
            let mut aggregate = monoid.identity();
            if !is_worker {
                if queue.has(ticket) {
                    if lane < warps {
                        of_warps = totals.get(lane);
                    }
                    let scanned_warps = scan_warp(monoid, of_warps);
                    of_warps = before_lane(monoid, scanned_warps);
                    aggregate = shuffle_value(scanned_warps, warps - 1);
                    if lane == 0 {
                        chain.publish(ticket, aggregate);
                    }
                }
            } else if queue.has(due) {
                let tile = self.place::<T>(due.tile, length);
                let elements = self.load::<T>(pipeline.at(due_stage));
                let before = monoid.combine(befores.get(warp), before_lane(monoid, scanned[oldest]));
                self.leave::<T>(
                    pipeline.at(due_stage),
                    &self.results(before, &elements, self.first_of_run::<T>(tile)),
                );
            }
            // The stage of the tile before the one that is due is empty.
            let coming = self.place::<T>(tickets[self.ahead() as usize].tile, length);
            if self.is_bulk {
                // Its results may still be in flight.
                if is_producer {
                    bulk_wait_read(0);
                }
            }
            pipeline.fetch(input, self.stage_before(stage, self.lag + 1), coming, is_producer);
            if self.is_bulk {
                fence_proxy_async_shared();
            }
            sync_threads();
            if queue.has(due) {
                self.send::<T>(
                    output,
                    pipeline.at(due_stage),
                    self.place::<T>(due.tile, length),
                    is_producer,
                );
            }

            shift_in(&mut published, ticket);
            shift_in(&mut scanned, now);
            shift_in(&mut before_warps, of_warps);
            shift_in(&mut aggregates, aggregate);
            shift_out(&mut tickets, next);
            state.advance(self.stages);
            is_running = queue.has(tickets[0]);
            for tile in &published {
                is_running = is_running | queue.has(*tile);
            }
        }
        if self.is_bulk {
            if is_producer {
                bulk_wait(0);
            }
        }
    }

    /// The pipeline. A stage holds the elements of a tile, and then its results.
    #[track_caller]
    fn pipeline<T: Storable>(&self) -> TilePipeline<T>
    where
        M: Monoid<T>,
    {
        let tile_length = self.tile::<T>();
        let stage_bytes = tile_length * T::BYTES.max(<M::Output as Element>::BYTES);
        let (workers, stages, is_bulk) = (self.threads, self.stages, self.is_bulk);
        TilePipeline::new(PipelineShape { workers, tile_length, stage_bytes, stages, is_bulk })
    }

    /// The extent of a tile.
    #[track_caller]
    fn place<T: Element>(&self, tile: Reg<u32>, length: Reg<u64>) -> Tile {
        Tile::of(tile, self.tile::<T>(), length)
    }

    /// Loads this thread's run of a partial tile. The last element of the input stands for those
    /// past its end, which come after every result that is stored.
    #[device]
    fn fill<T: Element>(&self, input: &Global<T>, to: Shared<T>, tile: Tile) {
        let from = input.at(tile.first);
        let first = thread_idx().x * self.run_length::<T>();
        for place in first..first + self.run_length::<T>() {
            let element = from.at(place.min(tile.length - 1)).load();
            to.at(place).store(element);
        }
    }

    /// The index of the first element of this thread's run.
    #[track_caller]
    fn first_of_run<T: Element>(&self, tile: Tile) -> Reg<u64> {
        tile.first + (thread_idx().x * self.run_length::<T>()).convert::<u64>()
    }

    /// This thread's run of a tile in shared memory.
    #[track_caller]
    fn load<T: Element>(&self, from: Shared<T>) -> Vec<Reg<T>> {
        let width = vector::width::<T>();
        let from = from.at(thread_idx().x * self.run_length::<T>());
        (0..self.vectors)
            .flat_map(|vector| vector::load_lanes(from.at(vector * width), width, Access::new()))
            .collect()
    }

    /// Stores this thread's results to the stage, where its elements were.
    #[track_caller]
    fn leave<T: Element>(&self, to: Shared<M::Output>, results: &[Reg<M::Output>])
    where
        M: Monoid<T>,
    {
        let to = to.at(thread_idx().x * self.run_length::<T>());
        let width = self.result_width::<T>();
        for (vector, results) in results.chunks(width as usize).enumerate() {
            vector::store_lanes(to.at(vector as u32 * width), results, Access::new());
        }
    }

    /// The scan of a run, from its prefix.
    #[track_caller]
    fn results<T: Storable>(
        &self,
        before: M::State,
        elements: &[Reg<T>],
        first: Reg<u64>,
    ) -> Vec<Reg<M::Output>>
    where
        M: Monoid<T>,
    {
        let mut state = before;
        let result = |(position, element): (usize, &Reg<T>)| {
            let exclusive = state;
            state = self.monoid.accumulate(state, *element, first + position as u64);
            self.monoid.lower(if self.kind == ScanKind::Inclusive { state } else { exclusive })
        };
        elements.iter().enumerate().map(result).collect()
    }

    /// Starts to store the results of a stage, once all threads have written theirs.
    #[device]
    fn send<T: Storable>(
        &self,
        output: &Global<M::Output>,
        from: Shared<M::Output>,
        tile: Tile,
        is_producer: Reg<bool>,
    ) where
        M: Monoid<T>,
    {
        let to = output.at(tile.first);
        if !tile.is_whole {
            for place in (thread_idx().x..tile.length).step_by(self.block()) {
                to.at(place).store(from.at(place).load());
            }
        } else if self.is_bulk {
            if is_producer {
                bulk::store(to, self.tile::<T>(), from);
                bulk_commit();
            }
        } else if thread_idx().x < self.threads {
            let width = self.result_width::<T>();
            let mine = thread_idx().x * width;
            for vector in 0..self.tile::<T>() / (self.threads * width) {
                let step = vector * self.threads * width;
                let results = vector::load_lanes(from.at(mine).at(step), width, Access::new());
                vector::store_lanes(to.at(mine).at(step), &results, Access::new());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use warpwright::arch::Arch;
    use warpwright::lang::element::bf16;

    use super::*;
    use crate::look_back::tickets::persistent_grid;
    use crate::monoid::{ArgMax, Sum};

    /// Lengths around 2^32: the arithmetic alone, since no test has the memory.
    #[test]
    fn more_elements_than_32_bits_count() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let scan = SinglePass::new::<bf16>(Sum, ScanKind::Inclusive, h200);
        let tile = u64::from(scan.tile::<bf16>());
        for length in [(1u64 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 40] {
            let tiles = length.div_ceil(tile);
            assert!((tiles - 1) * tile < length && tiles * tile >= length);
            assert_eq!(persistent_grid(tiles, 264, scan.held()), Some(264));
        }
        assert_eq!(persistent_grid(1 << 32, 264, scan.held()), None);
        assert_eq!(persistent_grid(3, 264, scan.held()), Some(3));
    }

    #[test]
    fn the_pipeline_fits_every_gpu() {
        for capability in &warpwright::arch::CAPABILITIES {
            for vectors in [
                SinglePass::new::<f32>(Sum, ScanKind::Inclusive, capability).vectors,
                SinglePass::new::<bf16>(Sum, ScanKind::Inclusive, capability).vectors,
                // Results of 8 bytes are twice as long as elements.
                2 * SinglePass::new::<f32>(ArgMax, ScanKind::Inclusive, capability).vectors,
            ] {
                assert!(4 * 256 * 16 * vectors < capability.shared_bytes_per_cta_opt_in, "{capability:?}");
            }
        }
    }

    #[test]
    fn a_stage_holds_elements_and_results() {
        for name in ["a100", "h200"] {
            let capability = Arch::named(name).expect("in the table").capability;
            let run = |vectors: u32, bytes: u32| vectors * bytes * 256 * 4;
            let sum = SinglePass::new::<f32>(Sum, ScanKind::Inclusive, capability);
            assert_eq!((sum.vectors, run(sum.vectors, 16)), (7, 112 << 10));
            let half = SinglePass::new::<bf16>(Sum, ScanKind::Inclusive, capability);
            assert_eq!(half.vectors, 3);
            let places = SinglePass::new::<f32>(ArgMax, ScanKind::Inclusive, capability);
            assert!(places.vectors % 2 == 1 && run(places.vectors, 32) <= 112 << 10, "{places:?}");
        }
    }
}
