//! The chain of a scan: an aggregate per tile, read by whole warps.

use warpwright::lang::control::nanosleep;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::status::AGGREGATE;
use super::tickets::Ticket;
use crate::collective::reduce_warp;
use crate::monoid::Monoid;

/// Nanoseconds between two polls.
const PAUSE: u32 = 64;

/// The published aggregates.
pub(crate) struct Chain<M, V> {
    monoid: M,
    identity: V,
    /// A word per tile: the status in the upper half, a state that fits in the lower half.
    words: Global<u64>,
    /// The aggregates, where states do not fit.
    records: ValueRecords<V>,
    windows: u32,
}

impl<M, V: DeviceValue + Copy> Chain<M, V> {
    /// The aggregates of tiles in `words` and `records`. A look-back reads `windows` times 32 at
    /// once.
    pub(crate) fn new<T: Element>(monoid: M, words: &Global<u64>, records: &Global<u64>, windows: u32) -> Self
    where
        M: Monoid<T, State = V>,
    {
        let identity = monoid.identity();
        Self {
            monoid,
            identity,
            words: *words,
            records: ValueRecords::new(identity, records.cast()),
            windows,
        }
    }

    /// Publishes the aggregate of a tile. Called by one thread.
    #[track_caller]
    pub(crate) fn publish(&self, ticket: Ticket, aggregate: V) {
        let status = (ticket.launch | AGGREGATE).convert::<u64>() << 32u32;
        match value_to_word(aggregate) {
            Some(word) => {
                let relaxed = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
                self.words.at(ticket.tile).store_with(status | word.convert::<u64>(), relaxed);
            }
            None => {
                self.records.set(ticket.tile.convert::<u64>(), aggregate);
                let release = Access::new().ordered(AccessOrdering::Release(Scope::Device));
                self.words.at(ticket.tile).store_with(status, release);
            }
        }
    }

    /// The aggregates of the tiles from `first` to the one before the ticket's, combined, in all
    /// lanes. Waits until all are published. Called by a whole warp.
    #[device]
    pub(crate) fn between<T: Element>(&self, first: Reg<u32>, ticket: Ticket) -> V
    where
        M: Monoid<T, State = V>,
        V: Yields<V>,
    {
        let monoid = &self.monoid;
        let mut between = self.identity;
        let mut next = first;
        while next < ticket.tile {
            // One memory latency for several windows of 32 tiles. Lanes past the last tile read it
            // again, and contribute the identity.
            let mut seen = Vec::new();
            let mut all_published = constant(true);
            for window in 0..self.windows {
                let tile = next + (lane_id() + 32 * window);
                let (word, is_published) = self.observe(ticket, tile.min(ticket.tile - 1));
                all_published = all_published & is_published;
                seen.push((tile, word));
            }
            if ballot(all_published, ALL_LANES) == u32::MAX {
                for (tile, word) in seen {
                    let mut state = self.identity;
                    if tile < ticket.tile {
                        state = self.state_of(word, tile);
                    }
                    // Where the operation commutes, the lanes are combined once, at the end.
                    let of_window = if M::COMMUTES { state } else { reduce_warp(monoid, state) };
                    between = monoid.combine(between, of_window);
                }
                next += 32 * self.windows;
            } else {
                // Polling without a pause would delay the stores that are waited for.
                nanosleep(PAUSE);
            }
        }
        let all = if M::COMMUTES { reduce_warp(monoid, between) } else { between };
        shuffle_value(all, 0u32)
    }

    /// The word of a tile, and whether it is published.
    #[track_caller]
    fn observe(&self, ticket: Ticket, tile: Reg<u32>) -> (Reg<u64>, Reg<bool>) {
        let ordering = match value_to_word(self.identity) {
            Some(_) => AccessOrdering::Relaxed(Scope::Device),
            None => AccessOrdering::Acquire(Scope::Device),
        };
        let word = self.words.at(tile).load_with(Access::new().ordered(ordering));
        (word, (word >> 32u32).convert::<u32>().eq(ticket.launch | AGGREGATE))
    }

    /// The published state of a tile.
    #[track_caller]
    fn state_of(&self, word: Reg<u64>, tile: Reg<u32>) -> V {
        match value_to_word(self.identity) {
            Some(_) => value_from_word(self.identity, word.convert::<u32>()),
            None => self.records.get(tile.convert::<u64>()),
        }
    }
}
