//! What the two CTAs of a cluster exchange: dSᵀ, of which each needs the keys of both for its half of
//! dQ.
//!
//! ```text
//! own tile      P, by warpgroup 0; then dS, by warpgroup 1, which a bulk copy sends
//! peer's tile   the other CTA's dS: its copy completes at `full`
//! `free`        dQ of a block is computed: both warpgroups have read the own tile, and both of the
//!               other CTA their copy of it
//! ```

use warpwright::lang::bulk;
use warpwright::prelude::*;

use super::configuration::{KEYS, ROWS};
use crate::attention::problem::AttentionElement;

/// The tiles and the barriers of the exchange.
#[derive(Clone)]
pub(super) struct Exchange<T: AttentionElement> {
    memory: Shared<T>,
    /// The own tile and the peer's: (key, query, 2).
    pub(super) tiles: Tensor<T, SharedSpace>,
    full: Mbarrier,
    free: Mbarrier,
    peer: Reg<u32>,
}

#[device]
impl<T: AttentionElement> Exchange<T> {
    /// The exchange with CTA `peer` of the cluster. The cluster synchronizes before its first use.
    pub(super) fn new(peer: Reg<u32>) -> Self {
        let memory = dynamic_shared_aligned::<T>(2 * KEYS * ROWS, 1024);
        let layout = TmaTile::new::<T>((KEYS, ROWS), Major::K).and_then(|tile| tile.layout(2));
        let tiles = Tensor::new(memory, layout.expect("whole swizzle atoms of a 16-bit type"));
        let (full, free) = (Mbarrier::new(), Mbarrier::new());
        if thread_idx().x == 0 {
            full.init(1);
            free.init(3);
            fence_mbarrier_init();
        }
        Self { memory, tiles, full, free, peer }
    }

    /// Sends dSᵀ of a block, which all threads of the warpgroup have written, and expects the peer's.
    /// One thread makes the call.
    pub(super) fn send(&self) {
        self.full.arrive_and_expect(KEYS * ROWS * T::BYTES);
        let to = self.memory.at(KEYS * ROWS).map_to_block(self.peer);
        bulk::send(to, KEYS * ROWS, self.memory, self.full.at_rank(self.peer));
    }

    /// Waits for the peer's dSᵀ of a block.
    pub(super) fn wait_for_peer(&self, parity: Reg<u32>) {
        self.full.wait_parity(parity);
    }

    /// Frees both tiles: the warpgroup, of which one thread makes the call, has read them. Warpgroup 0
    /// waits for its own CTA's tile itself.
    ///
    /// It has written nothing for the other CTA: CTA scope suffices. A release at cluster scope is
    /// `MEMBAR.ALL.GPU`, which waits for the additions to dQ.
    pub(super) fn release(&self, waits_itself: bool) {
        if !waits_itself {
            self.free.arrive();
        }
        self.free.at_rank(self.peer).arrive();
    }

    /// Waits until the own tile is free, and its copy in the peer.
    pub(super) fn wait_until_free(&self, parity: Reg<u32>) {
        self.free.wait_parity(parity);
    }
}
