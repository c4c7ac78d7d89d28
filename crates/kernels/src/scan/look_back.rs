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
//! A warp looks at 32 predecessors at a time, so a tile need not wait for the one before it to be done.
//! (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.)
//!
//! # Why it never deadlocks
//! A CTA waits only for tiles with a lower number, and takes its number from a counter when it starts to run: whoever has a
//! lower number already runs. Block indices would give no such promise.
//!
//! # Why nothing is cleared between launches
//! The counter's upper half is the number of the launch, and every published word carries it; a word of an earlier launch counts as not
//! published. The CTA that takes the last number sets the counter to the next launch's 0.
//!
//! # Why it is right under the PTX memory model
//! A state of at most 32 bits is published with its status in one 64-bit relaxed store: no other access need be ordered with it. A larger
//! one is written to a record of its own first, and its status stored with release semantics; a lane that reads the
//! status with acquire semantics sees the record. A tile's aggregate and its prefix have a record each, written once a launch.

use warpwright::prelude::*;

use crate::monoid::Monoid;

/// What a published word says; the launch's number stands above it.
pub(crate) const AGGREGATE: u32 = 1;
pub(crate) const PREFIX: u32 = 2;
/// Bits that they take.
const STATUS_BITS: u32 = 2;

/// The number that a CTA took, and the launch's.
#[derive(Clone, Copy, DeviceValue)]
pub struct Ticket {
    /// The CTA's tile.
    pub tile: Reg<u32>,
    /// The launch, shifted above the status.
    pub(crate) launch: Reg<u32>,
}

impl Ticket {
    /// Takes the next number of `counter`, in all threads of the CTA. The launch has `tiles` CTAs.
    #[device]
    pub fn take(counter: &Global<u64>, tiles: Reg<u32>) -> Self {
        let taken = shared_array::<u64>(1);
        if thread_idx().x == 0 {
            let ticket = counter.atomic_add(1u64);
            taken.store(ticket);
            if ticket.convert::<u32>() == tiles - 1 {
                let next_launch = ((ticket >> 32u32) + 1) << 32u32;
                counter
                    .store_with(next_launch, Access::new().ordered(AccessOrdering::Relaxed(Scope::Device)));
            }
        }
        sync_threads();
        let ticket = taken.load();
        Self { tile: ticket.convert(), launch: (ticket >> 32u32).convert::<u32>() << STATUS_BITS }
    }
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
}

impl<M, V: DeviceValue + Copy> Chain<M, V> {
    /// The chain of `tiles` tiles, in `words` (one for each) and `records` (two states for each).
    pub fn new<T: Element>(monoid: M, words: &Global<u64>, records: &Global<u64>, tiles: Reg<u32>) -> Self
    where
        M: Monoid<T, State = V>,
    {
        let identity = monoid.identity();
        Self { monoid, identity, words: *words, records: ValueRecords::new(identity, records.cast()), tiles }
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

    /// Publishes `aggregate`, what the tile's elements combine to, and returns what all elements before the tile combine to, in lane 0. Called
    /// by one warp of the tile's CTA, with the aggregate in lane 0.
    #[device]
    pub fn prefix_before<T: Element>(&self, ticket: Ticket, aggregate: V) -> V
    where
        M: Monoid<T, State = V>,
        V: warpwright::lang::staging::Yields<V>,
    {
        let lane = lane_id();
        let mut before = self.identity;
        if ticket.tile == 0 {
            if lane == 0 {
                self.publish(ticket, PREFIX, self.prefix_record(ticket.tile), aggregate);
            }
        } else {
            if lane == 0 {
                self.publish(ticket, AGGREGATE, self.aggregate_record(ticket.tile), aggregate);
            }
            before = self.look_back(ticket);
            if lane == 0 {
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
        V: warpwright::lang::staging::Yields<V>,
    {
        let lane = lane_id();
        let fits_word = value_to_word(self.identity).is_some();
        let ordering = match fits_word {
            true => AccessOrdering::Relaxed(Scope::Device),
            false => AccessOrdering::Acquire(Scope::Device),
        };
        let mut before = self.identity;
        // Lane 0 looks at the nearest predecessor not yet accounted for. Those before tile 0 count as tile 0, which has a prefix.
        let mut nearest = ticket.tile - 1;
        loop {
            let tile = (lane <= nearest).select(nearest - lane, 0u32);
            let mut word = constant(0u64);
            let mut status = constant(0u32);
            // The first lane with a prefix, and whether all lanes before it have something.
            let mut prefixes = constant(0u32);
            loop {
                word = self.words.at(tile).load_with(Access::new().ordered(ordering));
                let published = (word >> 32u32).convert::<u32>();
                status = published ^ ticket.launch;
                prefixes = ballot(status == PREFIX, ALL_LANES);
                let ready = ballot((status == PREFIX) | (status == AGGREGATE), ALL_LANES);
                // Bits up to and with the first prefix; all where there is none.
                let needed = prefixes ^ (prefixes - 1);
                if (needed & !ready) == 0 {
                    break;
                }
            }
            let needed = prefixes ^ (prefixes - 1);
            let counts = ((needed >> lane) & 1) != 0;
            let state = if fits_word {
                value_from_word(self.identity, word.convert::<u32>())
            } else {
                let record = (status == PREFIX).select(self.prefix_record(tile), self.aggregate_record(tile));
                self.records.get(record)
            };
            // Higher lanes hold earlier tiles.
            let mut window = select_value(counts, state, self.identity);
            for distance in [1, 2, 4, 8, 16] {
                let earlier = shuffle_value_down(window, distance);
                let combined = self.monoid.combine(earlier, window);
                window = select_value(lane + distance < 32, combined, window);
            }
            before = self.monoid.combine(window, before);
            if prefixes != 0 {
                break;
            }
            nearest -= 32;
        }
        before
    }
}
