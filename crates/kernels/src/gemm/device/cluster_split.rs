//! Split-K in a cluster: its CTAs multiply a part of a tile's k each, and add their parts through
//! shared memory.
//!
//! ```text
//! 2 CTAs, a tile of 128 x 128
//! CTA 0   k-blocks 0..8    sends columns 64..128   adds what it receives to columns 0..64, and stores them
//! CTA 1   k-blocks 8..16   sends columns 0..64     adds what it receives to columns 64..128, and stores them
//! ```
//!
//! The CTAs of a cluster run at the same time, so that they may wait for each other, and no part
//! goes through global memory: [`reduction`](super::reduction) needs a fence and an atomic
//! operation of the device, and one CTA adds all parts of a tile.

use warpwright::arch::limits::WARPGROUP_SIZE;
use warpwright::prelude::*;

use super::schedule::Schedule;
use super::store::AccumulatorTile;

/// What the CTAs of a cluster send each other.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct ClusterSplit {
    /// The parts of this CTA's slice from each other CTA: the accumulators of a thread of a
    /// warpgroup next to those of the next thread.
    received: Shared<f32>,
    /// Completes when all of them have arrived.
    arrived: Mbarrier,
    /// CTAs of the cluster.
    ctas: u32,
    /// Accumulators that a thread has of a slice.
    length: u32,
    /// Warpgroups that share a tile.
    warpgroups: u32,
    /// This CTA's rank.
    rank: Reg<u32>,
}

/// Accumulators that one instruction moves.
const VECTOR: u32 = 4;

/// Rows that one `wgmma` computes.
const BLOCK_ROWS: u32 = 64;

/// Bytes that a CTA receives for a tile whose k `ctas` CTAs share.
pub(crate) const fn received_bytes(tile: (u32, u32), ctas: u32) -> u32 {
    tile.0 * tile.1 / ctas * (ctas - 1) * 4
}

/// Columns of the slice of a tile that one of `ctas` CTAs stores: a warpgroup's blocks of 64 rows
/// are divided first.
pub(crate) fn slice_columns(tile: (u32, u32), schedule: Schedule, ctas: u32) -> u32 {
    let blocks = tile.0 / (BLOCK_ROWS * schedule.cooperating());
    if ctas == 1 { tile.1 } else { tile.1 * blocks / ctas }
}

#[device]
impl ClusterSplit {
    /// For tiles whose k `ctas` CTAs share, in each CTA a part of `warpgroups`. States the launch's
    /// cluster.
    pub(crate) fn new(tile: (u32, u32), warpgroups: u32, ctas: u32) -> Self {
        launch::cluster(ctas, 1, 1);
        let received = dynamic_shared_aligned::<f32>(received_bytes(tile, ctas) / 4, 16);
        let arrived = Mbarrier::new();
        if thread_idx().x == 0 {
            arrived.init(1);
            arrived.arrive_and_expect(received_bytes(tile, ctas));
            fence_mbarrier_init();
        }
        let length = tile.0 * tile.1 / ctas / (warpgroups * WARPGROUP_SIZE);
        Self { received, arrived, ctas, length, warpgroups, rank: cluster_rank() }
    }

    /// Waits until every CTA of the cluster can receive: all threads of the CTA call it.
    pub(crate) fn begin(&self) {
        cluster_sync();
    }

    /// Sends the other CTAs their slices of this CTA's part of a tile, and calls `epilogue` with
    /// its own slice of the whole tile. Parts are added in the same order in every launch.
    pub(crate) fn complete(&self, tile: &AccumulatorTile, epilogue: &dyn Fn(&mut AccumulatorTile)) {
        let thread = tile.role.thread();
        let address = |part: Reg<u32>, vector: u32| {
            let vectors = part * (self.length / VECTOR) + vector;
            self.received.at((vectors * (self.warpgroups * WARPGROUP_SIZE) + thread) * VECTOR)
        };
        for slice in 0..self.ctas {
            if self.rank != slice {
                // A CTA has no part of its own among those it receives.
                let part = self.rank - self.rank.gt(slice).to_u32();
                for vector in 0..self.length / VECTOR {
                    let first = slice * self.length + vector * VECTOR;
                    let values = std::array::from_fn(|lane| tile.accumulators.get(first + lane as u32));
                    let there = address(part, vector).map_to_block(slice);
                    there.store_vector_async::<{ VECTOR as usize }>(values, self.arrived.at_rank(slice));
                }
            }
        }
        self.arrived.wait_parity(0u32);
        for slice in 0..self.ctas {
            if self.rank == slice {
                let mut own = tile.slice(slice, self.ctas);
                for part in 0..self.ctas - 1 {
                    for vector in 0..self.length / VECTOR {
                        let values = address(constant(part), vector).load_vector::<{ VECTOR as usize }>();
                        for (lane, value) in (0..VECTOR).zip(values) {
                            let index = VECTOR * vector + lane;
                            let sum = own.accumulators.get(index) + value;
                            own.accumulators.set(index, sum);
                        }
                    }
                }
                epilogue(&mut own);
            }
        }
    }
}
