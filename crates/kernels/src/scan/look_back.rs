//! Look-back: how CTAs that go from tile to tile agree on what stands before each, while all of them run.
//!
//! A CTA publishes what a tile's elements combine to (the tile's *aggregate*) as soon as it has them. What stands before a tile it knows up to the
//! last tile that it did itself; the aggregates of the tiles in between, which others did, are all that it has to look for:
//!
//! ```text
//! tile        ..   20      21         22         23         24
//! done by         mine   others'    others'    others'    mine
//!                   |       |<-- look back: 21 + 22 + 23 -->|
//!                   before(24) = before(20) + 20 + 21 + 22 + 23
//! ```
//!
//! A warp looks at windows of 32 tiles, several at once: with as many CTAs as the device holds, all that it needs is one journey to memory
//! away. (In Merrill and Garland's decoupled look-back, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016, CTAs have one tile each, and look for
//! the nearest tile that knows its *prefix*. Here nobody publishes prefixes, and nobody waits for a chain of them.)
//!
//! # Why it never deadlocks
//! A CTA waits only for the aggregates of tiles with a lower number than its own, and it publishes a tile's before it waits for those before it. It
//! takes its tiles in order from a counter when it is ready for them: whoever has the lowest tile that is not published runs, and
//! waits at most for what is published. Block indices would give no such promise.
//!
//! # Why nothing is cleared between launches
//! The counter's upper half is the number of the launch, and every published word carries it; a word of an earlier launch counts as not
//! published. Every CTA stops when the tickets it holds, always as many, are past the last tile, so the number of tickets is known, and
//! whoever takes the last sets the counter to the next launch's 0.
//!
//! # Why it is right under the PTX memory model
//! A state of at most 32 bits is published with its status in one 64-bit relaxed store: no other access need be ordered with it. A larger
//! one is written to a record of its own first, and its status stored with release semantics; a lane that reads the
//! status with acquire semantics sees the record. A tile's record is written once a launch.

use warpwright::lang::control::nanosleep;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use crate::monoid::Monoid;
use crate::reduce::block::reduce_warp;

/// What a published word says; the launch's number stands above it.
pub(crate) const AGGREGATE: u32 = 1;
pub(crate) const PREFIX: u32 = 2;
/// Nanoseconds from a look that was too early to the next.
const PAUSE: u32 = 64;
/// Bits that they take.
const STATUS_BITS: u32 = 2;

/// Hands out the tiles of a launch in order, to CTAs that ask for the next one when they are ready for it.
///
/// A CTA holds a number of tickets at once: that of its tile, and those of the tiles that are on their way to it. It takes one more for each
/// tile it has done, and stops when its tile is past the last one: all that it holds are, then.
pub struct TileQueue {
    counter: Global<u64>,
    tiles: Reg<u32>,
    held: u32,
    /// Tickets that one thread took, for the CTA to see.
    shown: Shared<u64>,
}

/// A CTA's tile, and the launch's number.
#[derive(Clone, Copy, DeviceValue)]
pub struct Ticket {
    /// The tile; past the last one there is nothing to do.
    pub tile: Reg<u32>,
    /// The launch's number, shifted above the status.
    pub(crate) launch: Reg<u32>,
}

impl Ticket {
    /// The ticket that a counter's value is.
    #[track_caller]
    fn of(count: Reg<u64>) -> Self {
        Self { tile: count.convert(), launch: (count >> 32u32).convert::<u32>() << STATUS_BITS }
    }

    /// Takes the next ticket of `counter`, in all threads of the CTA, where each of the launch's `tiles` CTAs takes one.
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

/// Sets the counter to the next launch's 0 if `ticket` has the last number.
#[device]
fn begin_next_launch(counter: &Global<u64>, ticket: Reg<u64>, last: Reg<u32>) {
    if ticket.convert::<u32>() == last {
        let next_launch = ((ticket >> 32u32) + 1) << 32u32;
        counter.store_with(next_launch, Access::new().ordered(AccessOrdering::Relaxed(Scope::Device)));
    }
}

impl TileQueue {
    /// The queue of `tiles` tiles that `counter` counts, for CTAs that hold `held` tickets at once.
    #[track_caller]
    pub fn new(counter: &Global<u64>, tiles: Reg<u32>, held: u32) -> Self {
        Self { counter: *counter, tiles, held, shown: shared_array(held + 1) }
    }

    /// Whether a ticket has a tile.
    #[track_caller]
    pub fn has(&self, ticket: Ticket) -> Reg<bool> {
        ticket.tile.lt(self.tiles)
    }

    /// Takes the next ticket; by one thread. The counter's answer takes a while: the thread can go on until it
    /// [`show`](Self::show)s the ticket.
    #[track_caller]
    pub fn take(&self) -> Reg<u64> {
        self.counter.atomic_add(1u64)
    }

    /// Leaves a ticket for the CTA's threads to [`see`](Self::see) after the next barrier; by the thread that took it.
    #[track_caller]
    pub fn show(&self, ticket: Reg<u64>) {
        self.show_in(self.held, ticket);
    }

    #[device]
    fn show_in(&self, slot: u32, ticket: Reg<u64>) {
        begin_next_launch(&self.counter, ticket, self.tiles + (grid_dim().x * self.held - 1));
        self.shown.at(slot).store(ticket);
    }

    /// The ticket that was left before the last barrier.
    #[track_caller]
    pub fn see(&self) -> Ticket {
        Ticket::of(self.shown.at(self.held).load())
    }

    /// The tickets of a CTA's first tiles, as many as it holds, in all its threads.
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

/// CTAs for `tiles` tiles that a queue hands out, of which `resident` fit the device at once: one that does not would start only to
/// find that nothing is left. `None` where the tickets, `held` for a CTA, do not fit their 32 bits.
pub(crate) fn grid_of_takers(tiles: u64, resident: u32, held: u32) -> Option<u32> {
    let tickets = tiles + u64::from(resident) * u64::from(held);
    let grid = u32::try_from(tiles).unwrap_or(u32::MAX).min(resident);
    (tickets < u64::from(u32::MAX)).then_some(grid)
}

/// What the tiles have published.
pub struct Chain<M, V> {
    monoid: M,
    identity: V,
    /// A word for each tile: its status above, and below a state that fits.
    words: Global<u64>,
    /// For states that do not fit: the tiles' aggregates.
    records: ValueRecords<V>,
    windows: u32,
}

impl<M, V: DeviceValue + Copy> Chain<M, V> {
    /// The chain of tiles whose aggregates are in `words` and `records`, one for each; a look back sees `windows` times 32 of them at once.
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

    /// Publishes what a tile's elements combine to; by one thread.
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

    /// What the tiles from `first` up to the ticket's, without it, combine to, in all lanes; by one warp. Where some have not published yet, it
    /// looks again.
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
            // One journey to memory for several windows of 32 tiles. Those past the last one count as the last, and as nothing.
            let mut seen = Vec::new();
            let mut all_there = constant(true);
            for window in 0..self.windows {
                let tile = next + (lane_id() + 32 * window);
                let (word, is_there) = self.observe(ticket, tile.min(ticket.tile - 1));
                all_there = all_there & is_there;
                seen.push((tile, word));
            }
            if ballot(all_there, ALL_LANES) == u32::MAX {
                for (tile, word) in seen {
                    let mut state = self.identity;
                    if tile < ticket.tile {
                        state = self.state_of(word, tile);
                    }
                    // Where the order does not matter, the lanes are combined once, at the end.
                    let of_window = if M::COMMUTES { state } else { reduce_warp(monoid, state) };
                    between = monoid.combine(between, of_window);
                }
                next += 32 * self.windows;
            } else {
                // Looking without a pause, CTAs that wait would keep the memory from taking in the words they wait for.
                nanosleep(PAUSE);
            }
        }
        let all = if M::COMMUTES { reduce_warp(monoid, between) } else { between };
        shuffle_value(all, 0u32)
    }

    /// A tile's word, and whether it is published.
    #[track_caller]
    fn observe(&self, ticket: Ticket, tile: Reg<u32>) -> (Reg<u64>, Reg<bool>) {
        let ordering = match value_to_word(self.identity) {
            Some(_) => AccessOrdering::Relaxed(Scope::Device),
            None => AccessOrdering::Acquire(Scope::Device),
        };
        let word = self.words.at(tile).load_with(Access::new().ordered(ordering));
        (word, (word >> 32u32).convert::<u32>().eq(ticket.launch | AGGREGATE))
    }

    /// The state that a tile published.
    #[track_caller]
    fn state_of(&self, word: Reg<u64>, tile: Reg<u32>) -> V {
        match value_to_word(self.identity) {
            Some(_) => value_from_word(self.identity, word.convert::<u32>()),
            None => self.records.get(tile.convert::<u64>()),
        }
    }
}
