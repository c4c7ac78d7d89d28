//! The reduction of tiles whose k is split: CTAs that computed parts of one tile add their
//! accumulators.
//!
//! Each writes its part to the workspace and counts itself; the last one adds the parts in the
//! order of k, so that the result does not depend on which CTA that is. No CTA waits for another.

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
    /// The parts of each tile that have arrived. Zero between launches.
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

    /// Writes a part to the workspace; if it is the last of its tile, reads all of them.
    fn add(
        &self,
        scheduler: &TileScheduler,
        unit: WorkUnit,
        rank: Reg<u32>,
        tile: &mut AccumulatorTile,
    ) -> Reg<bool> {
        let (role, thread) = (tile.role, tile.role.thread() % 128);
        let cooperating = self.sharers / self.cluster.size();
        let cta = self.cluster.m() + self.cluster.n() * self.cluster.shape().0;
        let sharer = cta * cooperating + rank;
        let vectors = tile.accumulators.len() / VECTOR;
        // A thread has every fourth vector of its warpgroup's.
        let address = |part: Reg<u32>, vector: u32| {
            let part = part * self.sharers + sharer;
            self.parts.at((part * vectors + vector) * (128 * VECTOR) + thread * VECTOR)
        };
        let own = scheduler.part(unit);
        for vector in 0..vectors {
            let values = std::array::from_fn(|lane| tile.accumulators.get(VECTOR * vector + lane as u32));
            address(own, vector).store_vector::<{ VECTOR as usize }>(values);
        }
        let (first, parts) = scheduler.parts(unit);
        let last = self.last.at(role.warpgroup());
        role.sync_warpgroup();
        if tile.leads {
            // Counting releases this warpgroup's part, and acquires the others'.
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let before =
                self.arrived.at(unit.tile * self.sharers + sharer).atomic_increment(parts - 1u32, counting);
            last.store(before.eq(parts - 1u32).to_u32());
        }
        role.sync_warpgroup();
        let is_last = last.load().eq(1u32);
        if is_last {
            // Of two parts it adds the other to its own: the order of two makes no difference.
            let has_own = parts.eq(2u32);
            if !has_own {
                tile.accumulators.clear();
            }
            for part in first..first + parts {
                if !(has_own & part.eq(own)) {
                    for vector in 0..vectors {
                        let values = address(part, vector).load_vector::<{ VECTOR as usize }>();
                        for (lane, value) in (0..VECTOR).zip(values) {
                            let index = VECTOR * vector + lane;
                            let sum = tile.accumulators.get(index) + value;
                            tile.accumulators.set(index, sum);
                        }
                    }
                }
            }
        }
        is_last
    }
}
