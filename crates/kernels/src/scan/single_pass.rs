//! The scan that runs at the speed of memory: one launch, every element read once and written once.
//!
//! As many CTAs as fit the device take tile after tile. Tiles come and go by themselves, through a ring of stages in shared memory: in the
//! round of tile k,
//!
//! ```text
//! tile k + 1    is coming in, where tile k - 3 was, whose results have gone
//! tile k        is combined: what each thread's run comes to, each warp's, and the tile's, which is published
//! tile k - 1    waits
//! tile k - 2    is scanned, from what stands before it, and goes out
//! ```
//!
//! So what a CTA looks for was published a whole round before, and is there. (One round less, and a round lasts as long as it takes for a word to get
//! from every CTA to every other: 3.0 TB/s in place of 4.1 on the H200.) In a stage, each thread has a run of neighbours, an odd number of
//! vectors of 16 bytes, so that the vectors that eight neighbouring threads read at once lie in different banks:
//!
//! ```text
//! thread 0   | v0 | v1 | v2 | .. | v6 |      one thread after the other; the scan of a run is a thread's own work,
//! thread 1   | v0 | v1 | v2 | .. | v6 |      and a warp's lanes exchange but once for a tile
//! ```
//!
//! The roles, and the two barriers of a round:
//!
//! ```text
//! workers     combine their runs of tile k     | scan their runs of tile k - 2        |
//! last warp   look back from tile k - 2        | publish tile k, ask for tile k + 1   | send tile k - 2 out
//! ```
//!
//! How tiles come in, by bulk copies or `cp.async`, is `tile_ring.rs`; they go out by bulk copies, or by the workers' own stores.

use warpwright::arch::Capability;
use warpwright::lang::bulk::{self, bulk_commit, bulk_wait, bulk_wait_read};
use warpwright::lang::fence::fence_proxy_async_shared;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::block::{before_lane, scan_warp};
use super::look_back::{Chain, Ticket, TileQueue, grid_of_takers};
use super::tile_ring::{RingShape, Tile, TileRing};
use super::{ScanKind, shift_in, shift_out};
use crate::monoid::Monoid;
use crate::operations::{OperationError, Operations, Result, Scratch};
use crate::vector;

/// The scan by `monoid`, in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SinglePass<M> {
    /// What combines.
    pub monoid: M,
    /// Whether an element's result has the element itself in it.
    pub kind: ScanKind,
    /// Threads of a CTA.
    pub threads: u32,
    /// Vectors of a thread: an odd number.
    pub vectors: u32,
    /// Tiles in shared memory at once.
    pub stages: u32,
    /// Rounds from a tile's publication to its scan.
    pub lag: u32,
    /// CTAs that an SM shall have room for: it bounds the registers.
    pub blocks_per_sm: u32,
    /// Windows of 32 tiles that a look back sees at once.
    pub windows: u32,
    /// Whether tiles travel by bulk copies: sm_90.
    pub is_bulk: bool,
}

impl<M> SinglePass<M> {
    /// The configuration that is fastest on an H200, for a GPU of that capability.
    pub fn new<T: Element>(monoid: M, kind: ScanKind, capability: &Capability) -> Self
    where
        M: Monoid<T>,
    {
        // As many elements as a thread's registers hold, and results as a stage of 28 KB: an SM has room for two rings of four. GPUs with less
        // shared memory have smaller stages.
        const ELEMENT_REGISTERS: u32 = 28;
        const STAGES: u32 = 4;
        const THREADS: u32 = 256;
        const BESIDES: u32 = 2 << 10;
        let registers = vector::width::<T>() * T::BYTES.div_ceil(4);
        let growth = <M::Output as Element>::BYTES.div_ceil(T::BYTES);
        let room = capability.shared_bytes_per_cta_opt_in - BESIDES;
        let fitting = room / (STAGES * THREADS * vector::WIDEST_BYTES);
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

    /// Tiles that are on their way when a tile's round begins, its own among them.
    fn ahead(&self) -> u32 {
        self.stages - self.lag - 1
    }

    /// Tickets that a CTA holds: those of the tiles on their way, and of the one that is asked for next.
    pub fn held(&self) -> u32 {
        self.ahead() + 1
    }

    /// The stage `rounds` before another in the ring.
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

    /// The longest chain of combinations that leads to one of `length` results: a sum of floats is off by at most this many roundings of
    /// the sum of the magnitudes.
    pub fn rounding_steps<T: Element>(&self, length: u64) -> u64 {
        let tiles = length.div_ceil(self.tile::<T>().into());
        let within = 2 * u64::from(self.run_length::<T>()) + 5 + 5 + 3;
        // The longest chain: every tile's aggregate by itself, where one CTA does all.
        within + 2 * tiles
    }

    /// `output` = the scan of `input`. `counter`, `words` and `records` are the look-back's.
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
        let ring = self.ring::<T>();
        let warps = self.threads / 32;
        // What each warp's runs combine to, and what stands before them.
        let totals = ValueArray::shared(monoid.identity(), warps);
        let befores = ValueArray::shared(monoid.identity(), warps);
        let (thread, lane) = (thread_idx().x, lane_id());
        let warp = thread / 32;
        let is_worker = thread < self.threads;
        let is_courier = thread == self.threads;

        let mut tickets = queue.first();
        for stage in 0..self.ahead() {
            let tile = self.place::<T>(tickets[stage as usize].tile, length);
            ring.fetch(input, constant(stage), tile, is_courier);
        }
        let mut stage = constant(0u32);
        let mut parity = constant(0u32);
        // The tiles that are published and not scanned yet, the latest first: of each its ticket, what a worker's run and those before it in its warp
        // combine to, and in the last warp, what stands before each warp, and what all combines to.
        let none = Ticket { tile: tiles, ..tickets[0] };
        let mut published = vec![none; self.lag as usize];
        let mut scanned = vec![monoid.identity(); self.lag as usize];
        let mut before_warps = vec![monoid.identity(); self.lag as usize];
        let mut aggregates = vec![monoid.identity(); self.lag as usize];
        // Up to where the last warp knows what stands before, and what that is.
        let mut known_to = constant(0u32);
        let mut before = monoid.identity();
        let oldest = self.lag as usize - 1;
        let mut is_going = queue.has(tickets[0]);
        while is_going {
            let (ticket, due) = (tickets[0], published[oldest]);
            let due_stage = self.stage_before(stage, self.lag);
            let mut upcoming = constant(0u64);
            let mut now = monoid.identity();
            if is_worker {
                if queue.has(ticket) {
                    let tile = self.place::<T>(ticket.tile, length);
                    ring.wait(stage, parity);
                    if !tile.is_whole {
                        self.fill(input, ring.at(stage), tile);
                    }
                    let elements = self.load::<T>(ring.at(stage));
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
                let elements = self.load::<T>(ring.at(due_stage));
                let before = monoid.combine(befores.get(warp), before_lane(monoid, scanned[oldest]));
                self.leave::<T>(
                    ring.at(due_stage),
                    &self.results(before, &elements, self.first_of_run::<T>(tile)),
                );
            }
            // The stage of the tile before the one that is due is the next to be filled.
            let coming = self.place::<T>(tickets[self.ahead() as usize].tile, length);
            if self.is_bulk {
                // Its results may still be on their way out.
                if is_courier {
                    bulk_wait_read(0);
                }
            }
            ring.fetch(input, self.stage_before(stage, self.lag + 1), coming, is_courier);
            if self.is_bulk {
                fence_proxy_async_shared();
            }
            sync_threads();
            if queue.has(due) {
                self.send::<T>(output, ring.at(due_stage), self.place::<T>(due.tile, length), is_courier);
            }

            shift_in(&mut published, ticket);
            shift_in(&mut scanned, now);
            shift_in(&mut before_warps, of_warps);
            shift_in(&mut aggregates, aggregate);
            shift_out(&mut tickets, next);
            stage += 1;
            if stage == self.stages {
                stage = constant(0u32);
                parity = parity ^ 1;
            }
            is_going = queue.has(tickets[0]);
            for tile in &published {
                is_going = is_going | queue.has(*tile);
            }
        }
        if self.is_bulk {
            if is_courier {
                bulk_wait(0);
            }
        }
    }

    /// The ring of stages. A stage has room for a tile's elements, and for the results that take their place.
    #[track_caller]
    fn ring<T: Storable>(&self) -> TileRing<T>
    where
        M: Monoid<T>,
    {
        let tile_length = self.tile::<T>();
        let stage_bytes = tile_length * T::BYTES.max(<M::Output as Element>::BYTES);
        let (workers, stages, is_bulk) = (self.threads, self.stages, self.is_bulk);
        TileRing::new(RingShape { workers, tile_length, stage_bytes, stages, is_bulk })
    }

    /// Where a tile lies.
    #[track_caller]
    fn place<T: Element>(&self, tile: Reg<u32>, length: Reg<u64>) -> Tile {
        Tile::of(tile, self.tile::<T>(), length)
    }

    /// Brings in this thread's run of a tile that is not whole. Past the end of the input the last element stands in: whatever is there comes
    /// after every result that is sent out.
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

    /// This thread's run of a tile that is there.
    #[track_caller]
    fn load<T: Element>(&self, from: Shared<T>) -> Vec<Reg<T>> {
        let width = vector::width::<T>();
        let from = from.at(thread_idx().x * self.run_length::<T>());
        (0..self.vectors)
            .flat_map(|vector| vector::load_lanes(from.at(vector * width), width, Access::new()))
            .collect()
    }

    /// Leaves this thread's results where its elements were.
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

    /// A run scanned, from what stands before it.
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

    /// Starts to send out a stage's results, once all threads have left theirs.
    #[device]
    fn send<T: Storable>(
        &self,
        output: &Global<M::Output>,
        from: Shared<M::Output>,
        tile: Tile,
        is_courier: Reg<bool>,
    ) where
        M: Monoid<T>,
    {
        let to = output.at(tile.first);
        if !tile.is_whole {
            for place in (thread_idx().x..tile.length).step_by(self.block()) {
                to.at(place).store(from.at(place).load());
            }
        } else if self.is_bulk {
            if is_courier {
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

/// Scratch memory of a stream's look-backs.
#[derive(Default)]
struct LookBackScratch {
    counter: Scratch<u64>,
    words: Scratch<u64>,
    records: Scratch<u64>,
}

/// Scans `input` into `output`, which has the same length.
pub(super) fn launch<T: Storable, M: Monoid<T>>(
    operations: &Operations,
    stream: &Stream,
    input: &Buffer<T>,
    output: &mut Buffer<M::Output>,
    configuration: SinglePass<M>,
) -> Result<LaunchCounts> {
    let length = input.len() as u64;
    if length == 0 {
        return Ok(LaunchCounts::default());
    }
    let kernel = operations.kernel(configuration, SinglePass::<M>::run::<T>)?;
    let tiles = length.div_ceil(configuration.tile::<T>().into());
    let resident = operations.resident(&kernel)?;
    let grid =
        grid_of_takers(tiles, resident, configuration.held()).ok_or_else(|| OperationError::Shape {
            what: "a scan",
            reason: format!("{length} elements are more than 2^32 tiles; scan them in parts"),
        })?;
    operations.with_scratch(stream, |scratch: &mut LookBackScratch| {
        let record_bytes = record_bytes(|| configuration.monoid.identity());
        let record_words = (tiles * record_bytes).div_ceil(8) as usize;
        let counter = scratch.counter.at_least_kept(stream, 1)?;
        let words = scratch.words.at_least_kept(stream, tiles as usize)?;
        let records = scratch.records.at_least(operations.device(), record_words)?;
        let arguments = (input, output, counter, words, records, length);
        Ok(kernel.launch(stream, grid, arguments)?)
    })
}

#[cfg(test)]
mod tests {
    use warpwright::arch::Arch;
    use warpwright::lang::element::bf16;

    use super::*;
    use crate::monoid::{ArgMax, Sum};

    /// Elements on both sides of 2^32, whose places no 32 bits hold: the arithmetic alone, since the memory for them is not there.
    #[test]
    fn more_elements_than_32_bits_count() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let scan = SinglePass::new::<bf16>(Sum, ScanKind::Inclusive, h200);
        let tile = u64::from(scan.tile::<bf16>());
        for length in [(1u64 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 40] {
            let tiles = length.div_ceil(tile);
            assert!((tiles - 1) * tile < length && tiles * tile >= length);
            assert_eq!(grid_of_takers(tiles, 264, scan.held()), Some(264));
        }
        assert_eq!(grid_of_takers(1 << 32, 264, scan.held()), None);
        assert_eq!(grid_of_takers(3, 264, scan.held()), Some(3));
    }

    #[test]
    fn the_ring_fits_every_gpu() {
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
    fn a_stage_has_room_for_elements_and_results() {
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
