//! Look-back: how persistent CTAs that process tile after tile agree on the prefix of each tile.
//!
//! A CTA publishes the *aggregate* of a tile, its elements combined, as soon as it has it. A CTA
//! knows the prefix of the last tile that it processed itself. It looks back only at the aggregates
//! of the tiles in between, which other CTAs processed:
//!
//! ```text
//! tile         ..   20      21         22         23         24
//! processed by      mine   others     others     others     mine
//!                    |       |<-- look back: 21 + 22 + 23 -->|
//!                    prefix(24) = prefix(20) + 20 + 21 + 22 + 23
//! ```
//!
//! A warp reads windows of 32 tiles, several at once: with as many CTAs as fit the device, one
//! memory latency is enough. (In Merrill and Garland's "Single-pass Parallel Prefix Scan with
//! Decoupled Look-back", 2016, a CTA has one tile and looks for the nearest tile that published its
//! prefix. Here no prefixes are published, and no chain of them has to be waited for.)
//!
//! # No deadlock
//! A CTA waits only for aggregates of lower tiles, and publishes that of its tile before it waits.
//! It takes tiles in order from a counter when it is ready for them: the CTA with the lowest
//! unpublished tile is running, and waits only for published words. Block indices give no such
//! order.
//!
//! # No reset between launches
//! The upper half of the counter is the index of the launch, and every published word carries it: a
//! word of an earlier launch counts as unpublished. A CTA stops when its tickets, a fixed number,
//! are past the last tile. So the number of tickets of a launch is known, and the CTA that takes
//! the last one sets the counter to the first of the next launch.
//!
//! # Memory model
//! A state of at most 32 bits and its status are one 64-bit relaxed store, which needs no order
//! with other accesses. A larger state is written to a record first, and its status is stored with
//! release semantics; a lane that reads the status with acquire semantics sees the record. A record
//! is written once per launch.

use warpwright::lang::control::nanosleep;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use crate::monoid::Monoid;
use crate::reduce::block::reduce_warp;

/// The status of a published word, below the index of the launch.
pub(crate) const AGGREGATE: u32 = 1;
pub(crate) const PREFIX: u32 = 2;
/// Nanoseconds between two polls.
const PAUSE: u32 = 64;
/// Bits of a status.
const STATUS_BITS: u32 = 2;

/// A dynamic tile scheduler: hands out the tiles of a launch in order.
///
/// A CTA holds several tickets at once: that of its tile, and those of the tiles in flight. It
/// takes one more for each tile it has processed, and stops when its tile is past the last one.
pub struct TileQueue {
    counter: Global<u64>,
    tiles: Reg<u32>,
    held: u32,
    /// Tickets that one thread took, broadcast to the CTA.
    shown: Shared<u64>,
}

/// A tile and the index of the launch.
#[derive(Clone, Copy, DeviceValue)]
pub struct Ticket {
    /// The tile, or one past the last.
    pub tile: Reg<u32>,
    /// The index of the launch, shifted above the status.
    pub(crate) launch: Reg<u32>,
}

impl Ticket {
    /// The ticket of a value of the counter.
    #[track_caller]
    fn of(count: Reg<u64>) -> Self {
        Self { tile: count.convert(), launch: (count >> 32u32).convert::<u32>() << STATUS_BITS }
    }

    /// Takes the next ticket of `counter` for the CTA, in a launch of `tiles` CTAs with one tile
    /// each.
    #[device]
    pub fn take(counter: &Global<u64>, tiles: Reg<u32>) -> Self {
        let taken = shared_array::<u64>(1);
        if thread_idx().x == 0 {
            let ticket = counter.atomic_add(1u64);
            taken.store(ticket);
            begin_next_launch(counter, ticket, tiles - 1);
        }
        sync_threads();
        Self::of(taken.load())
    }
}

/// Sets the counter to the first ticket of the next launch if `ticket` is the last of this one.
#[device]
fn begin_next_launch(counter: &Global<u64>, ticket: Reg<u64>, last: Reg<u32>) {
    if ticket.convert::<u32>() == last {
        let next_launch = ((ticket >> 32u32) + 1) << 32u32;
        counter.store_with(next_launch, Access::new().ordered(AccessOrdering::Relaxed(Scope::Device)));
    }
}

impl TileQueue {
    /// The scheduler of `tiles` tiles with a counter, for CTAs that hold `held` tickets at once.
    #[track_caller]
    pub fn new(counter: &Global<u64>, tiles: Reg<u32>, held: u32) -> Self {
        Self { counter: *counter, tiles, held, shown: shared_array(held + 1) }
    }

    /// Whether a ticket has a tile.
    #[track_caller]
    pub fn has(&self, ticket: Ticket) -> Reg<bool> {
        ticket.tile.lt(self.tiles)
    }

    /// Takes the next ticket. Called by one thread, which can do other work before it
    /// [`show`](Self::show)s the ticket: the atomic has latency.
    #[track_caller]
    pub fn take(&self) -> Reg<u64> {
        self.counter.atomic_add(1u64)
    }

    /// Broadcasts a ticket, which the threads of the CTA [`see`](Self::see) after the next barrier.
    /// Called by the thread that took it.
    #[track_caller]
    pub fn show(&self, ticket: Reg<u64>) {
        self.show_in(self.held, ticket);
    }

    #[device]
    fn show_in(&self, slot: u32, ticket: Reg<u64>) {
        begin_next_launch(&self.counter, ticket, self.tiles + (grid_dim().x * self.held - 1));
        self.shown.at(slot).store(ticket);
    }

    /// The ticket that was broadcast before the last barrier.
    #[track_caller]
    pub fn see(&self) -> Ticket {
        Ticket::of(self.shown.at(self.held).load())
    }

    /// The first tickets of the CTA, as many as it holds.
    #[device]
    pub fn first(&self) -> Vec<Ticket> {
        if thread_idx().x == 0 {
            let tickets: Vec<_> = (0..self.held).map(|_| self.take()).collect();
            for (slot, ticket) in tickets.into_iter().enumerate() {
                self.show_in(slot as u32, ticket);
            }
        }
        sync_threads();
        (0..self.held).map(|slot| Ticket::of(self.shown.at(slot).load())).collect()
    }
}

/// The grid of persistent CTAs for `tiles` tiles, where `resident` CTAs fit the device. `None`
/// where the tickets, `held` per CTA, exceed 32 bits.
pub(crate) fn persistent_grid(tiles: u64, resident: u32, held: u32) -> Option<u32> {
    let tickets = tiles + u64::from(resident) * u64::from(held);
    let grid = u32::try_from(tiles).unwrap_or(u32::MAX).min(resident);
    (tickets < u64::from(u32::MAX)).then_some(grid)
}

/// The published aggregates.
pub struct Chain<M, V> {
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
    pub fn new<T: Element>(monoid: M, words: &Global<u64>, records: &Global<u64>, windows: u32) -> Self
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
    pub fn publish(&self, ticket: Ticket, aggregate: V) {
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
    pub fn between<T: Element>(&self, first: Reg<u32>, ticket: Ticket) -> V
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
