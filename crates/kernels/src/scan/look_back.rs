//! Decoupled look-back: how CTAs that each have one tile agree on what stands before it, while all of them run.
//!
//! A tile's CTA first publishes what its own elements combine to (its *aggregate*), then looks back over its predecessors until it
//! meets one that already knows all that stands before its end (its *prefix*), and publishes its own prefix:
//!
//! ```text
//! tile       ..   20        21         22         23        24 (mine)
//! published      prefix  aggregate  aggregate  aggregate    aggregate
//!                  |<------------- look back ------------------|     my prefix = prefix(20) + 21 + 22 + 23 + 24
//! ```
//!
//! A warp looks at several windows of 32 predecessors at a time, so that mostly one journey to memory and back is enough.
//! (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.)
//!
//! # Why it never deadlocks
//! A CTA waits only for tiles with a lower number, and takes its tiles from a counter when it is ready for them: whoever has the lowest
//! tile that is not done already runs, and waits for nobody. Block indices would give no such promise.
//!
//! # Why nothing is cleared between launches
//! The counter's upper half is the number of the launch, and every published word carries it; a word of an earlier launch counts as not
//! published. Every CTA stops when the tickets it holds, always as many, are past the last tile, so the number of tickets is known, and
//! whoever takes the last sets the counter to the next launch's 0.
//!
//! # Why it is right under the PTX memory model
//! A state of at most 32 bits is published with its status in one 64-bit relaxed store: no other access need be ordered with it. A larger
//! one is written to a record of its own first, and its status stored with release semantics; a lane that reads the
//! status with acquire semantics sees the record. A tile's aggregate and its prefix have a record each, written once a launch.

use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use crate::monoid::Monoid;

/// What a published word says; the launch's number stands above it.
pub(crate) const AGGREGATE: u32 = 1;
pub(crate) const PREFIX: u32 = 2;
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
        Self { counter: *counter, tiles, held, shown: shared_array(held as usize) }
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

    /// Leaves a ticket in a slot, one of as many as tickets are held, for the CTA's threads to [`see`](Self::see) after the next barrier; by the
    /// thread that took it.
    #[device]
    pub fn show(&self, ticket: Reg<u64>, slot: u32) {
        begin_next_launch(&self.counter, ticket, self.tiles + (grid_dim().x * self.held - 1));
        self.shown.at(slot).store(ticket);
    }

    /// The ticket that was left in a slot before the last barrier.
    #[track_caller]
    pub fn see(&self, slot: u32) -> Ticket {
        Ticket::of(self.shown.at(slot).load())
    }

    /// The tickets of a CTA's first tiles, as many as it holds, in all its threads.
    #[device]
    pub fn first(&self) -> Vec<Ticket> {
        if thread_idx().x == 0 {
            let tickets: Vec<_> = (0..self.held).map(|_| self.take()).collect();
            for (slot, ticket) in tickets.into_iter().enumerate() {
                self.show(ticket, slot as u32);
            }
        }
        sync_threads();
        (0..self.held).map(|slot| self.see(slot)).collect()
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
    /// For states that do not fit: the tiles' aggregates, then their prefixes.
    records: ValueRecords<V>,
    tiles: Reg<u32>,
    windows: u32,
}

impl<M, V: DeviceValue + Copy> Chain<M, V> {
    /// The chain of `tiles` tiles, in `words` (one for each) and `records` (two states for each).
    pub fn new<T: Element>(
        monoid: M,
        words: &Global<u64>,
        records: &Global<u64>,
        tiles: Reg<u32>,
        windows: u32,
    ) -> Self
    where
        M: Monoid<T, State = V>,
    {
        let identity = monoid.identity();
        Self {
            monoid,
            identity,
            words: *words,
            records: ValueRecords::new(identity, records.cast()),
            tiles,
            windows,
        }
    }

    /// Publishes a tile's state.
    fn publish(&self, ticket: Ticket, status: u32, record: Reg<u64>, state: V) {
        let status = (ticket.launch | status).convert::<u64>() << 32u32;
        match value_to_word(state) {
            Some(word) => {
                let relaxed = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
                self.words.at(ticket.tile).store_with(status | word.convert::<u64>(), relaxed);
            }
            None => {
                self.records.set(record, state);
                let release = Access::new().ordered(AccessOrdering::Release(Scope::Device));
                self.words.at(ticket.tile).store_with(status, release);
            }
        }
    }

    fn aggregate_record(&self, tile: Reg<u32>) -> Reg<u64> {
        tile.convert()
    }

    fn prefix_record(&self, tile: Reg<u32>) -> Reg<u64> {
        tile.convert::<u64>() + self.tiles.convert::<u64>()
    }

    /// Publishes what a tile's elements combine to; by one thread.
    #[device]
    pub fn publish_aggregate<T: Element>(&self, ticket: Ticket, aggregate: V)
    where
        M: Monoid<T, State = V>,
    {
        if ticket.tile == 0 {
            self.publish(ticket, PREFIX, self.prefix_record(ticket.tile), aggregate);
        } else {
            self.publish(ticket, AGGREGATE, self.aggregate_record(ticket.tile), aggregate);
        }
    }

    /// Looks back from a tile whose aggregate is published, publishes its prefix, and returns what all elements before the tile combine to,
    /// in lane 0. Called by one warp, with the aggregate in lane 0.
    #[device]
    pub fn before_tile<T: Element>(&self, ticket: Ticket, aggregate: V) -> V
    where
        M: Monoid<T, State = V>,
        V: Yields<V>,
    {
        let mut before = self.identity;
        if ticket.tile != 0 {
            before = self.look_back(ticket);
            if lane_id() == 0 {
                let prefix = self.monoid.combine(before, aggregate);
                self.publish(ticket, PREFIX, self.prefix_record(ticket.tile), prefix);
            }
        }
        before
    }

    /// What all elements before the tile combine to, in lane 0.
    #[device]
    fn look_back<T: Element>(&self, ticket: Ticket) -> V
    where
        M: Monoid<T, State = V>,
        V: Yields<V>,
    {
        let lane = lane_id();
        let mut before = self.identity;
        // The nearest predecessor not yet accounted for.
        let mut nearest = ticket.tile - 1;
        let mut is_found = constant(0u32);
        while is_found == 0 {
            // One journey to memory for several windows of 32 tiles; in each, higher lanes look at earlier tiles. Those before tile 0 count
            // as tile 0, which has a prefix.
            let mut windows = Vec::new();
            for window in 0..self.windows {
                let distance = lane + 32 * window;
                let tile = (distance <= nearest).select(nearest - distance, 0u32);
                windows.push((tile, self.observe(ticket, tile)));
            }
            let mut is_blocked = constant(0u32);
            for (tile, published) in windows {
                if (is_found | is_blocked) == 0 {
                    let prefixes = ballot(published.status == PREFIX, ALL_LANES);
                    let needed = prefixes ^ (prefixes - 1);
                    // Up to and with the nearest prefix, or all where there is none.
                    if (needed & !ballot(published.is_some(), ALL_LANES)) == 0 {
                        let mut state = self.identity;
                        if ((needed >> lane) & 1) != 0 {
                            state = self.state_of(published, tile);
                        }
                        // Where the order does not matter, the lanes are combined once, at the end.
                        let of_window = if M::COMMUTES { state } else { self.combine_lanes(state) };
                        before = self.monoid.combine(of_window, before);
                        nearest -= 32;
                        is_found = (prefixes != 0).to_u32();
                    } else {
                        is_blocked = constant(1u32);
                    }
                }
            }
        }
        if M::COMMUTES { self.combine_lanes(before) } else { before }
    }

    /// The lanes' states combined, the highest lane's first; in lane 0.
    fn combine_lanes<T: Element>(&self, state: V) -> V
    where
        M: Monoid<T, State = V>,
    {
        let lane = lane_id();
        let mut combined = state;
        for distance in [1u32, 2, 4, 8, 16] {
            let earlier = shuffle_value_down(combined, distance);
            let both = self.monoid.combine(earlier, combined);
            combined = select_value((lane + distance).lt(32u32), both, combined);
        }
        combined
    }

    /// What a tile has published so far.
    fn observe(&self, ticket: Ticket, tile: Reg<u32>) -> Published {
        let ordering = match value_to_word(self.identity) {
            Some(_) => AccessOrdering::Relaxed(Scope::Device),
            None => AccessOrdering::Acquire(Scope::Device),
        };
        let word = self.words.at(tile).load_with(Access::new().ordered(ordering));
        let status = (word >> 32u32).convert::<u32>() ^ ticket.launch;
        Published { word, status }
    }

    /// The state that a tile published.
    fn state_of(&self, published: Published, tile: Reg<u32>) -> V {
        if value_to_word(self.identity).is_some() {
            return value_from_word(self.identity, published.word.convert::<u32>());
        }
        let is_prefix = published.status.eq(PREFIX);
        self.records.get(is_prefix.select(self.prefix_record(tile), self.aggregate_record(tile)))
    }
}

/// What a look at a tile saw.
#[derive(Clone, Copy, DeviceValue)]
struct Published {
    word: Reg<u64>,
    /// [`AGGREGATE`], [`PREFIX`], or anything else where nothing is published.
    status: Reg<u32>,
}

impl Published {
    fn is_some(self) -> Reg<bool> {
        self.status.eq(AGGREGATE) | self.status.eq(PREFIX)
    }
}
