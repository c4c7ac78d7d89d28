//! The chains of radix sort: per thread a count and then a prefix of each tile.

use warpwright::prelude::*;

use super::status::{AGGREGATE, PREFIX};
use super::tickets::Ticket;

/// One thread's chain. A word holds its count beside its status, so its order with other accesses
/// does not matter.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct CountChain {
    /// The word of tile 0.
    words: Global<u64>,
    ticket: Ticket,
    /// Words from one tile to the next: the number of chains.
    stride: u32,
    /// Tiles that a look-back reads at once.
    window: u32,
}

impl CountChain {
    /// The chain of this thread in the CTA with that ticket.
    pub(crate) fn new(words: Global<u64>, ticket: Ticket, stride: u32, window: u32) -> Self {
        Self { words, ticket, stride, window }
    }

    /// Publishes the tile's count, or that of the tile and all before it, as `status` says.
    #[track_caller]
    pub(crate) fn publish(&self, status: Reg<u32>, count: Reg<u32>) {
        let word = (self.ticket.launch | status).convert::<u64>() << 32u32 | count.convert::<u64>();
        self.word(self.ticket.tile).store_with(word, relaxed());
    }

    #[track_caller]
    fn word(&self, tile: Reg<u32>) -> Global<u64> {
        self.words.at(tile.convert::<u64>() * u64::from(self.stride))
    }

    /// The count of all tiles before the thread's own. Waits until they are published.
    #[device]
    pub(crate) fn before(&self) -> Reg<u32> {
        let mut before = constant(0u32);
        // The tiles below this one are not counted yet.
        let mut tiles = self.ticket.tile;
        let mut is_done = tiles.eq(0);
        while !is_done {
            // Tile 0, which has a prefix, stands for those before it.
            let seen: Vec<_> = (1..=self.window)
                .map(|distance| (tiles >= distance).select(tiles - distance, 0u32))
                .map(|tile| self.word(tile).load_with(relaxed()))
                .collect();
            let mut goes_on = constant(true);
            for word in seen {
                let status = (word >> 32u32).convert::<u32>() ^ self.ticket.launch;
                let is_prefix = status.eq(PREFIX);
                let counts = goes_on & (is_prefix | status.eq(AGGREGATE));
                before += counts.select(word.convert::<u32>(), 0u32);
                tiles -= counts.to_u32();
                is_done = is_done | (counts & is_prefix);
                goes_on = counts & !is_prefix;
            }
        }
        before
    }
}

fn relaxed() -> Access {
    Access::new().ordered(AccessOrdering::Relaxed(Scope::Device))
}
