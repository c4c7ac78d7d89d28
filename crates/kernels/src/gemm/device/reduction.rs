//! The reduction of tiles whose k is split: CTAs that computed parts of one tile add their
//! accumulators, in the order of k, so that the result does not depend on which CTA adds.
//!
//! Each writes its part to the workspace and counts itself. Where CTAs have parts of two tiles, and whole
//! tiles, the last to arrive adds all parts of a tile. Where each has one equal part, slices of the tile
//! are dealt out when all have arrived:
//!
//! ```text
//! part 0   multiplies .......... writes, waits    adds slices 0 and 3, stores them
//! part 1   multiplies ........ writes, waits      adds slices 1 and 4
//! part 2   multiplies ............. writes        adds slice 2              the last one waits for none
//! ```
//!
//! A CTA waits only if all parts of the tile have begun by then, and so for no CTA that may need its
//! SM. Others leave; the last one to arrive adds all slices if none has stayed.

use warpwright::prelude::*;

use super::schedule::StreamK;
use super::scheduler::{TileScheduler, WorkUnit};
use super::store::AccumulatorTile;

/// The workspace in global memory, and the words by which warpgroups learn what they add.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Reduction {
    /// The accumulators of each part: those of a thread of a warpgroup next to those of the next
    /// thread.
    parts: Global<f32>,
    /// Of a tile, at its first part: the parts that have arrived, and from [`LEFT`] on those that have
    /// left; at its second part: the parts that have begun. Zero between launches.
    counts: Global<u32>,
    /// One word a warpgroup: a [`Share`].
    shares: Shared<u32>,
    /// Warpgroups with a part of one tile of the scheduler: in each CTA of a cluster, those that
    /// share a tile.
    sharers: u32,
    cluster: ClusterGrid,
    stream_k: StreamK,
    /// Columns of a slice.
    columns: u32,
}

/// Accumulators that one instruction moves.
const VECTOR: u32 = 4;

/// The count of parts that have left, in a word with the count of those that have arrived.
const LEFT: u32 = 1 << 16;

/// Accumulators of a thread that are loaded at once, at most.
const AT_ONCE: u32 = 128;

/// Parts that are loaded at once, at most.
const PARTS_AT_ONCE: u32 = 16;

/// Columns of a slice, which are stored at once: those of a box of C, or of two if half of them are
/// gates. Tiles of few columns have many parts, and as many slices as there are.
pub(crate) fn slice_columns(columns: u32, half_are_gates: bool) -> u32 {
    let widest = match half_are_gates {
        true => 128,
        false if columns <= NARROW => 8,
        false => 64,
    };
    [widest, widest / 2, widest / 4].into_iter().find(|of| columns.is_multiple_of(*of)).unwrap_or(widest / 8)
}

/// Columns of the tiles whose slices have the fewest.
const NARROW: u32 = 32;

/// The parts of a tile.
#[derive(Clone, Copy, DeviceValue)]
struct Parts {
    first: Reg<u32>,
    count: Reg<u32>,
    /// The index of this warpgroup among those with a part.
    sharer: Reg<u32>,
}

/// What a warpgroup adds: each slice whose index is its own, counted from 0 again at `of`.
#[derive(Clone, Copy, DeviceValue)]
struct Share {
    own: Reg<u32>,
    /// Warpgroups that have stayed; 0 for one that has left.
    of: Reg<u32>,
}

#[device]
impl Reduction {
    /// With a workspace of parts and counters, for `warpgroups` of which `cooperating` share a
    /// tile, and slices of that many columns.
    pub(crate) fn new(
        (parts, counts): (&Global<f32>, &Global<u32>),
        (warpgroups, cooperating): (u32, u32),
        cluster: ClusterGrid,
        (stream_k, columns): (StreamK, u32),
    ) -> Self {
        let shares = shared_array::<u32>(warpgroups);
        Self {
            parts: *parts,
            counts: *counts,
            shares,
            sharers: cluster.size() * cooperating,
            cluster,
            stream_k,
            columns,
        }
    }

    /// States that this warpgroup begins a unit, if others may wait for it. `rank` is its among those
    /// that share the tile, and `leads` is true for one of its threads.
    pub(crate) fn begin(&self, scheduler: &TileScheduler, unit: WorkUnit, rank: Reg<u32>, leads: Reg<bool>) {
        if self.stream_k == StreamK::Equal && leads {
            let relaxed = Atomicity::new(AtomicOrdering::Relaxed, Scope::Device);
            self.begun(self.parts_of(scheduler, unit, rank)).reduce_add_with(1u32, relaxed);
        }
    }

    /// Calls `epilogue` with this warpgroup's tile if its unit is the whole of it, and otherwise adds its
    /// part and calls `epilogue` with what it adds.
    pub(crate) fn complete(
        &self,
        scheduler: &TileScheduler,
        unit: WorkUnit,
        rank: Reg<u32>,
        tile: &mut AccumulatorTile,
        epilogue: &dyn Fn(&mut AccumulatorTile),
    ) {
        match self.stream_k {
            StreamK::Equal => {
                let (parts, own) = (self.parts_of(scheduler, unit, rank), scheduler.part(unit));
                let mut stays = constant(false);
                if tile.leads {
                    let relaxed = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
                    stays = self.begun(parts).load_with(relaxed).eq(parts.count);
                }
                self.write(parts, own, tile);
                let share = self.arrive(parts, stays, tile);
                if share.of > 0 {
                    self.add_slices(parts, share, tile, epilogue);
                }
            }
            StreamK::Unequal => {
                let mut is_whole = unit.k_blocks.eq(scheduler.k_blocks);
                if !is_whole {
                    let (parts, own) = (self.parts_of(scheduler, unit, rank), scheduler.part(unit));
                    self.write(parts, own, tile);
                    is_whole = self.arrive(parts, constant(false), tile).of.eq(1u32);
                    if is_whole {
                        self.add_all(parts, own, tile);
                    }
                }
                if is_whole {
                    epilogue(tile);
                }
            }
        }
    }

    fn parts_of(&self, scheduler: &TileScheduler, unit: WorkUnit, rank: Reg<u32>) -> Parts {
        let cooperating = self.sharers / self.cluster.size();
        let cta = self.cluster.m() + self.cluster.n() * self.cluster.shape().0;
        let (first, count) = scheduler.parts(unit);
        Parts { first, count, sharer: cta * cooperating + rank }
    }

    fn arrived(&self, parts: Parts) -> Global<u32> {
        self.counts.at(parts.first * self.sharers + parts.sharer)
    }

    fn begun(&self, parts: Parts) -> Global<u32> {
        self.counts.at((parts.first + 1u32) * self.sharers + parts.sharer)
    }

    /// A thread has every fourth vector of its warpgroup's `vectors`.
    fn address(&self, part: Reg<u32>, sharer: Reg<u32>, vectors: u32, tile: &AccumulatorTile) -> Global<f32> {
        let thread = tile.role.thread() % 128;
        self.parts.at((part * self.sharers + sharer) * (vectors * 128 * VECTOR) + thread * VECTOR)
    }

    /// Writes the accumulators to a part of the workspace.
    fn write(&self, parts: Parts, own: Reg<u32>, tile: &AccumulatorTile) {
        let vectors = tile.accumulators.len() / VECTOR;
        let to = self.address(own, parts.sharer, vectors, tile);
        for vector in 0..vectors {
            let values = std::array::from_fn(|lane| tile.accumulators.get(VECTOR * vector + lane as u32));
            to.at(vector * (128 * VECTOR)).store_vector::<{ VECTOR as usize }>(values);
        }
        tile.role.sync_warpgroup();
    }

    /// Counts the arrival of this warpgroup, and waits for the others if it stays. What it then adds.
    fn arrive(&self, parts: Parts, stays: Reg<bool>, tile: &AccumulatorTile) -> Share {
        let shared = self.shares.at(tile.role.warpgroup());
        if tile.leads {
            // Counting releases this warpgroup's part, and acquires those that are there.
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let arrival = stays.select(1u32, 1 + LEFT);
            let before = self.arrived(parts).atomic_add_with(arrival, counting);
            let mut all = before + arrival;
            if stays {
                let acquire = Access::new().ordered(AccessOrdering::Acquire(Scope::Device));
                while all % LEFT < parts.count {
                    all = self.arrived(parts).load_with(acquire);
                }
            }
            // The last one to arrive adds all if the others have left.
            let is_alone = all.eq(parts.count * (1 + LEFT));
            let own = stays.select(before % LEFT - before / LEFT, 0u32);
            let of = is_alone.select(1u32, stays.select(parts.count - all / LEFT, 0u32));
            shared.store(own * LEFT + of);
        }
        tile.role.sync_warpgroup();
        let share = shared.load();
        Share { own: share / LEFT, of: share % LEFT }
    }

    /// Adds all parts in the order of k, and leaves the sum in the accumulators.
    fn add_all(&self, parts: Parts, own: Reg<u32>, tile: &mut AccumulatorTile) {
        let vectors = tile.accumulators.len() / VECTOR;
        // Of two parts it adds the other to its own: the order of two makes no difference.
        let has_own = parts.count.eq(2u32);
        if !has_own {
            tile.accumulators.clear();
        }
        for index in 0..parts.count {
            let part = parts.first + index;
            if !(has_own & part.eq(own)) {
                let from = self.address(part, parts.sharer, vectors, tile);
                for vector in 0..vectors {
                    let values = from.at(vector * (128 * VECTOR)).load_vector::<{ VECTOR as usize }>();
                    for (lane, value) in (0..VECTOR).zip(values) {
                        let index = VECTOR * vector + lane;
                        tile.accumulators.set(index, tile.accumulators.get(index) + value);
                    }
                }
            }
        }
        self.clear(parts, tile);
    }

    /// Adds the slices of a share in the order of k, and calls `epilogue` with each.
    fn add_slices(
        &self,
        parts: Parts,
        share: Share,
        tile: &AccumulatorTile,
        epilogue: &dyn Fn(&mut AccumulatorTile),
    ) {
        // Who leaves last makes the counts zero. The count is there when the slices are.
        let mut before = constant(0u32);
        if tile.leads {
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            before = self.begun(parts).atomic_add_with(u32::MAX, counting);
        }
        let vectors = tile.accumulators.len() / VECTOR;
        let (blocks, of_block) = (tile.blocks(), vectors / tile.blocks());
        let of_slice = of_block * self.columns / tile.columns;
        for slice in (share.own..tile.columns / self.columns).step_by(share.of) {
            let mut sum = tile.slice_of_columns(slice * self.columns, self.columns);
            sum.accumulators.clear();
            let at_once = (AT_ONCE / sum.accumulators.len()).clamp(1, PARTS_AT_ONCE);
            for index in (0..parts.count).step_by(at_once) {
                for other in 0..at_once {
                    let part = (index + other).min(parts.count - 1u32);
                    let is_part = (index + other).lt(parts.count);
                    let from = self.address(parts.first + part, parts.sharer, vectors, tile);
                    for vector in 0..blocks * of_slice {
                        let (block, within) = (vector / of_slice, vector % of_slice);
                        let vector_of_tile = slice * of_slice + (block * of_block + within);
                        let values =
                            from.at(vector_of_tile * (128 * VECTOR)).load_vector::<{ VECTOR as usize }>();
                        for (lane, value) in (0..VECTOR).zip(values) {
                            let index = VECTOR * vector + lane;
                            let added = sum.accumulators.get(index) + value;
                            sum.accumulators.set(index, is_part.select(added, sum.accumulators.get(index)));
                        }
                    }
                }
            }
            epilogue(&mut sum);
        }
        // A CTA that is alone has all to itself.
        if share.of.eq(1u32) | before.eq(parts.count - share.of + 1u32) {
            self.clear(parts, tile);
        }
    }

    /// Makes the counts of a tile zero, which no other warpgroup reads any more.
    fn clear(&self, parts: Parts, tile: &AccumulatorTile) {
        if tile.leads {
            if self.stream_k == StreamK::Equal {
                self.begun(parts).store(0u32);
            }
            self.arrived(parts).store(0u32);
        }
    }
}
