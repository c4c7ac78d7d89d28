//! The reduction of tiles whose k is split: CTAs that computed parts of one tile add their
//! accumulators.
//!
//! Each writes its part to the workspace and counts itself; the last one adds the parts in the
//! order of k, so that the result does not depend on which CTA that is. No CTA waits for another.
//!
//! ```text
//! 30 parts of a tile, in groups of 12
//! parts   0..12     12..24     24..30     the last CTA of a group adds its parts and writes their sum to the first
//! sums    0         12         24         the last of these CTAs adds the sums
//! ```

use warpwright::prelude::*;

use super::scheduler::{TileScheduler, WorkUnit};
use super::store::AccumulatorTile;

/// The workspace in global memory, and the words from which a warpgroup reads whether its part is
/// the last.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Reduction {
    /// The accumulators of each part: those of a thread of a warpgroup next to those of the next
    /// thread.
    parts: Global<f32>,
    /// The parts of each group that have arrived, at its first part, and the groups of each tile, at
    /// the tile's second part. Zero between launches.
    arrived: Global<u32>,
    /// One word a warpgroup: whether its part is the last.
    last: Shared<u32>,
    /// Warpgroups with a part of one tile of the scheduler: in each CTA of a cluster, those that
    /// share a tile.
    sharers: u32,
    cluster: ClusterGrid,
}

/// Accumulators that one instruction moves.
const VECTOR: u32 = 4;

/// Parts that one CTA adds: the square root of the SMs of an H200, so that two CTAs, one after the
/// other, add the fewest.
const GROUP: u32 = 12;

/// Parts of the workspace that are added: every `step`-th of them.
#[derive(Clone, Copy, DeviceValue)]
struct Parts {
    first: Reg<u32>,
    count: Reg<u32>,
    step: u32,
    /// The part that the accumulators hold.
    own: Reg<u32>,
}

#[device]
impl Reduction {
    /// With a workspace of parts and counters, for `warpgroups` of which `cooperating` share a
    /// tile.
    pub(crate) fn new(
        (parts, arrived): (&Global<f32>, &Global<u32>),
        warpgroups: u32,
        cooperating: u32,
        cluster: ClusterGrid,
    ) -> Self {
        let last = shared_array::<u32>(warpgroups);
        Self { parts: *parts, arrived: *arrived, last, sharers: cluster.size() * cooperating, cluster }
    }

    /// Adds this warpgroup's part of a tile; true if `tile` then holds the whole: the unit was the
    /// whole tile, or its last part to arrive. `rank` is the warpgroup's among those that share the
    /// tile.
    pub(crate) fn complete(
        &self,
        scheduler: &TileScheduler,
        unit: WorkUnit,
        rank: Reg<u32>,
        tile: &mut AccumulatorTile,
    ) -> Reg<bool> {
        let mut is_whole = unit.k_blocks.eq(scheduler.k_blocks);
        if !is_whole {
            is_whole = self.add(scheduler, unit, rank, tile);
        }
        is_whole
    }

    /// Writes a part to the workspace; if it is the last of its tile, leaves the sum of all of them
    /// in the accumulators.
    fn add(
        &self,
        scheduler: &TileScheduler,
        unit: WorkUnit,
        rank: Reg<u32>,
        tile: &mut AccumulatorTile,
    ) -> Reg<bool> {
        let cooperating = self.sharers / self.cluster.size();
        let cta = self.cluster.m() + self.cluster.n() * self.cluster.shape().0;
        let sharer = cta * cooperating + rank;
        let (own, (first, parts)) = (scheduler.part(unit), scheduler.parts(unit));
        self.write(own, sharer, tile);
        let before = (own - first) / GROUP * GROUP;
        let group = first + before;
        let of_group = (parts - before).min(GROUP);
        let mut is_last = self.arrive(group, of_group, sharer, tile);
        if is_last {
            self.sum(Parts { first: group, count: of_group, step: 1, own }, sharer, tile);
        }
        if is_last & parts.gt(GROUP) {
            self.write(group, sharer, tile);
            let groups = (parts + (GROUP - 1)) / GROUP;
            // The counter of a part that begins no group.
            is_last = self.arrive(first + 1u32, groups, sharer, tile);
            if is_last {
                self.sum(Parts { first, count: groups, step: GROUP, own: group }, sharer, tile);
            }
        }
        is_last
    }

    /// A thread has every fourth vector of its warpgroup's.
    fn address(&self, part: Reg<u32>, vector: u32, sharer: Reg<u32>, tile: &AccumulatorTile) -> Global<f32> {
        let part = part * self.sharers + sharer;
        let vectors = tile.accumulators.len() / VECTOR;
        let thread = tile.role.thread() % 128;
        self.parts.at((part * vectors + vector) * (128 * VECTOR) + thread * VECTOR)
    }

    /// Writes the accumulators to a part of the workspace.
    fn write(&self, part: Reg<u32>, sharer: Reg<u32>, tile: &AccumulatorTile) {
        for vector in 0..tile.accumulators.len() / VECTOR {
            let values = std::array::from_fn(|lane| tile.accumulators.get(VECTOR * vector + lane as u32));
            self.address(part, vector, sharer, tile).store_vector::<{ VECTOR as usize }>(values);
        }
    }

    /// Counts an arrival of this warpgroup at a counter; whether it is the last of `count`.
    fn arrive(
        &self,
        counter: Reg<u32>,
        count: Reg<u32>,
        sharer: Reg<u32>,
        tile: &AccumulatorTile,
    ) -> Reg<bool> {
        let last = self.last.at(tile.role.warpgroup());
        tile.role.sync_warpgroup();
        if tile.leads {
            // Counting releases this warpgroup's part, and acquires the others'.
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let arrived = self.arrived.at(counter * self.sharers + sharer);
            let before = arrived.atomic_increment(count - 1u32, counting);
            last.store(before.eq(count - 1u32).to_u32());
        }
        tile.role.sync_warpgroup();
        last.load().eq(1u32)
    }

    /// Adds parts in their order.
    fn sum(&self, parts: Parts, sharer: Reg<u32>, tile: &mut AccumulatorTile) {
        let Parts { first, count, step, own } = parts;
        // Of two parts it adds the other to its own: the order of two makes no difference.
        let has_own = count.eq(2u32);
        if !has_own {
            tile.accumulators.clear();
        }
        // Loads of several parts are in flight if registers hold them.
        let at_once = (128 / tile.accumulators.len()).clamp(1, 4);
        for index in (0..count).step_by(at_once) {
            let parts: Vec<_> = (0..at_once)
                .map(|other| {
                    let part = first + (index + other).min(count - 1u32) * step;
                    (part, (index + other).lt(count) & !(has_own & part.eq(own)))
                })
                .collect();
            for vector in 0..tile.accumulators.len() / VECTOR {
                for &(part, is_added) in &parts {
                    let values =
                        self.address(part, vector, sharer, tile).load_vector::<{ VECTOR as usize }>();
                    for (lane, value) in (0..VECTOR).zip(values) {
                        let index = VECTOR * vector + lane;
                        let sum = tile.accumulators.get(index) + value;
                        tile.accumulators.set(index, is_added.select(sum, tile.accumulators.get(index)));
                    }
                }
            }
        }
    }
}
