//! Where CTAs that computed parts of one tile along k add their sums up.
//!
//! Each leaves its part in a slot of the workspace and counts itself; the one that comes last adds the parts in the order of k, so that
//! the result does not depend on who that was. Nobody waits for anybody.

use warpwright::prelude::*;

use super::schedule::{Piece, Schedule};
use super::store::Finished;

/// The sums and counters in global memory, and where the last one is announced to its warpgroup.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Exchange {
    /// A slot for each part: its sums, those of a thread of a warpgroup next to those of the next thread.
    slots: Global<f32>,
    /// How many parts of each tile have come. Zero between launches.
    arrived: Global<u32>,
    /// One word a warpgroup: whether its part was the last.
    last: Shared<u32>,
    /// Tiles at one place of the schedule: a cluster's CTAs, and in each the warpgroups that share a tile.
    sharers: u32,
    cluster: ClusterGrid,
}

/// Sums that one instruction moves.
const VECTOR: u32 = 4;

#[device]
impl Exchange {
    /// Over `slots` and `arrived`, for `warpgroups` of which `together` share a tile.
    pub(super) fn new(
        (slots, arrived): (&Global<f32>, &Global<u32>),
        warpgroups: u32,
        together: u32,
        cluster: ClusterGrid,
    ) -> Self {
        let last = shared_array::<u32>(warpgroups);
        Self { slots: *slots, arrived: *arrived, last, sharers: cluster.size() * together, cluster }
    }

    /// Finishes a tile once all of it is there: with this warpgroup's piece, or with the last part to come where tiles are split, by
    /// `exchange`.
    pub(super) fn finish(
        exchange: Option<&Self>,
        (schedule, piece, part): (&Schedule, Piece, Reg<u32>),
        tile: &mut Finished,
        finish: impl Fn(&mut Finished),
    ) {
        match exchange {
            None => finish(tile),
            Some(exchange) => {
                let is_whole = exchange.complete(schedule, piece, part, tile);
                if is_whole {
                    finish(tile);
                }
            }
        }
    }

    /// Hands in this warpgroup's piece of a tile; true if `tile` has all sums now: the piece was all of it, or the last part to come.
    fn complete(&self, schedule: &Schedule, piece: Piece, part: Reg<u32>, tile: &mut Finished) -> Reg<bool> {
        let mut is_whole = piece.steps.eq(schedule.steps);
        if !is_whole {
            is_whole = self.hand_in(schedule, piece, part, tile);
        }
        is_whole
    }

    /// Leaves a part in its slot; where it is the last of its tile, takes all.
    fn hand_in(&self, schedule: &Schedule, piece: Piece, part: Reg<u32>, tile: &mut Finished) -> Reg<bool> {
        let (role, thread) = (tile.role, tile.role.thread() % 128);
        let together = self.sharers / self.cluster.size();
        let rank = self.cluster.m() + self.cluster.n() * self.cluster.shape().0;
        let sharer = rank * together + part;
        let sums = tile.sums.len();
        // Sums of a thread in a slot: every fourth vector of the warpgroup's.
        let place = |slot: Reg<u32>, vector: u32| {
            let slot = slot * self.sharers + sharer;
            self.slots.at((slot * (sums / VECTOR) + vector) * (128 * VECTOR) + thread * VECTOR)
        };
        let slot = schedule.slot(piece);
        for vector in 0..sums / VECTOR {
            let values = std::array::from_fn(|lane| tile.sums.get(VECTOR * vector + lane as u32));
            place(slot, vector).store_vector::<{ VECTOR as usize }>(values);
        }
        let (first, parts) = schedule.parts(piece);
        let last = self.last.at(role.warpgroup());
        role.sync_warpgroup();
        if tile.leads {
            // The counting releases this warpgroup's sums, and acquires the others'.
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let before =
                self.arrived.at(piece.tile * self.sharers + sharer).atomic_increment(parts - 1u32, counting);
            last.store(before.eq(parts - 1u32).to_u32());
        }
        role.sync_warpgroup();
        let is_last = last.load().eq(1u32);
        if is_last {
            // Of two parts it adds the other to its own, for the order of two makes no difference.
            let has_own = parts.eq(2u32);
            if !has_own {
                tile.sums.clear();
            }
            for part in first..first + parts {
                if !(has_own & part.eq(slot)) {
                    for vector in 0..sums / VECTOR {
                        let values = place(part, vector).load_vector::<{ VECTOR as usize }>();
                        for (lane, value) in (0..VECTOR).zip(values) {
                            let index = VECTOR * vector + lane;
                            let sum = tile.sums.get(index) + value;
                            tile.sums.set(index, sum);
                        }
                    }
                }
            }
        }
        is_last
    }
}
