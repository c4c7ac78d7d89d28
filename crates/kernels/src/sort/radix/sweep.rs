//! One pass: every key read once, and written once to its place among the keys of the same byte.
//!
//! A CTA takes a tile, each warp a run of it, each lane every 32nd key of the run, so that a warp's keys in the order of (round,
//! lane) are its run in the order of memory:
//!
//! ```text
//! warp 0    round 0   | lane 0 | lane 1 | .. | lane 31 |
//!           round 1   | ..
//! warp 1    round 0   | ..
//! ```
//!
//! 1. *Rank.* In each round a warp finds which lanes have the same digit by eight ballots; a lane's rank is how many came before it: of
//!    earlier rounds, which the warp's counters in shared memory hold, and in this round, which the ballots tell.
//! 2. *Count.* A thread for each of the 256 values adds up the warps' counters and publishes the tile's count. The warps' counters
//!    become places in the tile.
//! 3. *Order the tile* in shared memory, by those places.
//! 4. *Look back* over the tiles before, one chain for each value: how many of their keys have it.
//! 5. *Write.* Neighbours in the ordered tile are neighbours in the output as long as their digit is the same, so most of
//!    a warp's stores are to one run of memory.
//!
//! Tiles are numbered as [`look_back`](crate::scan::look_back) says, and published words carry the launch as its words do:
//! the same arguments show that nobody waits in vain, and that nothing need be cleared. A word holds its count beside its status, so
//! no other access need be ordered with it.

use warpwright::prelude::*;
use warpwright::runtime::Storable;

use super::BINS;
use super::histogram::in_direction;
use crate::monoid::Sum;
use crate::scan::block::scan_warp;
use crate::scan::look_back::{AGGREGATE, PREFIX, Ticket};
use crate::sort::{Direction, SortKey};

/// A pass over a part of the keys: its first key and its length; the byte; which row of 256 words of `starts` says where the byte's
/// values begin, and which row is told where those of the next part do (the same, if there is none).
pub type Part = [u64; 5];

/// A pass of the sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// Which key comes first.
    pub direction: Direction,
    /// Threads of a CTA: whole warps, at least 256 threads.
    pub threads: u32,
    /// Keys of a thread: 1 to 512.
    pub items: u32,
    /// CTAs that an SM shall have room for, 1 to 32: it bounds the registers.
    pub blocks_per_sm: u32,
    /// Tiles that a look-back looks at together: 1 to 32.
    pub window: u32,
}

/// Where a pass reads and writes values.
struct Values<V> {
    from: Global<V>,
    to: Global<V>,
}

/// What a kernel of a pass is given beside its keys and values.
struct Pass {
    starts: Global<u64>,
    chain: Global<u64>,
    counter: Global<u64>,
    part: [Reg<u64>; 5],
}

/// How much of a tile there is, and where in it this lane's first key is.
#[derive(Clone, Copy, DeviceValue)]
struct Extent {
    mine: Reg<u32>,
    valid: Reg<u32>,
    is_whole: Reg<bool>,
}

impl Sweep {
    /// Keys of a tile.
    pub fn tile(&self) -> u32 {
        self.threads * self.items
    }

    /// `sorted` = `keys`, ordered by one byte. `starts` is what [`accumulate`](super::Histogram::accumulate) left, `chain` has 256
    /// words for each tile, and `counter` is the look-back's.
    #[kernel]
    pub fn keys<K: SortKey>(
        &self,
        keys: &Global<K>,
        sorted: &mut Global<K>,
        starts: &mut Global<u64>,
        chain: &mut Global<u64>,
        counter: &mut Global<u64>,
        part: [u64; 5],
    ) {
        let pass = Pass { starts: *starts, chain: *chain, counter: *counter, part };
        self.sweep::<K, u8>(*keys, *sorted, None, &pass);
    }

    /// As [`keys`](Self::keys), with a value beside each key.
    #[kernel]
    pub fn pairs<K: SortKey, V: Storable>(
        &self,
        keys: &Global<K>,
        values: &Global<V>,
        sorted: &mut Global<K>,
        sorted_values: &mut Global<V>,
        starts: &mut Global<u64>,
        chain: &mut Global<u64>,
        counter: &mut Global<u64>,
        part: [u64; 5],
    ) {
        let pass = Pass { starts: *starts, chain: *chain, counter: *counter, part };
        let values = Values { from: *values, to: *sorted_values };
        self.sweep::<K, V>(*keys, *sorted, Some(values), &pass);
    }

    #[device]
    fn sweep<K: SortKey, V: Storable>(
        &self,
        keys: Global<K>,
        sorted: Global<K>,
        values: Option<Values<V>>,
        pass: &Pass,
    ) {
        launch::threads(self.threads);
        launch::blocks_per_sm(self.blocks_per_sm);
        let [start, length, byte, digit_row, next_row] = pass.part;
        let (length, shift) = (length.convert::<u32>(), byte.convert::<u32>() * 8);
        let warps = self.threads / 32;
        let widest = K::Bits::BYTES.max(V::BYTES);
        let tile = dynamic_shared::<u8>(self.tile() * widest);
        let counters = dynamic_shared::<u32>(warps * BINS);
        let places = dynamic_shared::<u64>(BINS);
        let ticket = Ticket::take(&pass.counter, grid_dim().x);
        let (thread, warp, lane) = (thread_idx().x, thread_idx().x / 32, lane_id());

        // Load; keys past the end are the largest, and so last in the tile.
        let tile_start = ticket.tile * self.tile();
        let valid = (length - tile_start).min(self.tile());
        let is_whole = valid == self.tile();
        let mine = warp * (32 * self.items) + lane;
        let first = start + (tile_start + mine).convert::<u64>();
        let extent = Extent { mine, valid, is_whole };
        let ordered = self.load(keys.at(first), extent, constant(K::MOST), |key| {
            in_direction::<K>(K::ordered(key), self.direction)
        });

        // Rank in the warp.
        let of_warp = counters.at(warp * BINS);
        for group in 0..BINS / 32 {
            of_warp.at(lane + 32 * group).store(0u32);
        }
        sync_warp(ALL_LANES);
        let ranked: Vec<_> = ordered.iter().map(|key| Ranked::new(of_warp, K::digit(*key, shift))).collect();
        sync_threads();

        // Count, publish, and turn the warps' counters into places in the tile.
        let counts_value = thread.lt(BINS);
        let mut of_earlier_warps = vec![constant(0u32); warps as usize];
        let mut count = constant(0u32);
        let words = pass.chain.at(thread);
        if counts_value {
            for other in 0..warps {
                of_earlier_warps[other as usize] = count;
                count += counters.at(other * BINS + thread).load();
            }
            let status = (ticket.tile.eq(0)).select(PREFIX, AGGREGATE);
            publish(words, ticket, status, count);
        }
        let place = self.before_value(count);
        if counts_value {
            for other in 0..warps {
                counters.at(other * BINS + thread).store(place + of_earlier_warps[other as usize]);
            }
        }
        sync_threads();

        // Order the tile.
        let ordered_keys = tile.cast::<K::Bits>();
        let places_in_tile: Vec<_> = ranked.iter().map(|ranked| ranked.place(of_warp)).collect();
        for (place, key) in places_in_tile.iter().zip(&ordered) {
            ordered_keys.at(*place).store(*key);
        }

        // Look back.
        if counts_value {
            let before = look_back(words, ticket, self.window);
            if ticket.tile != 0 {
                publish(words, ticket, constant(PREFIX), before + count);
            }
            let begins = pass.starts.at(digit_row * u64::from(BINS)).at(thread).load();
            places.at(thread).store(begins + before.convert::<u64>() - place.convert::<u64>());
            if (ticket.tile == grid_dim().x - 1) && (next_row != digit_row) {
                let next = begins + (before + count).convert::<u64>();
                pass.starts.at(next_row * u64::from(BINS)).at(thread).store(next);
            }
        }
        sync_threads();

        // Write.
        let in_order = |round: u32| thread + round * self.threads;
        let keys: Vec<_> = (0..self.items).map(|round| ordered_keys.at(in_order(round)).load()).collect();
        let digits: Vec<_> = keys.iter().map(|key| K::digit(*key, shift)).collect();
        let keys: Vec<_> =
            keys.iter().map(|key| K::restored(in_direction::<K>(*key, self.direction))).collect();
        self.write(sorted, &keys, &digits, places, extent);
        if let Some(values) = values {
            let loaded = self.load(values.from.at(first), extent, constant(V::zeroed()), |value| value);
            sync_threads();
            let ordered_values = tile.cast::<V>();
            for (place, value) in places_in_tile.iter().zip(&loaded) {
                ordered_values.at(*place).store(*value);
            }
            sync_threads();
            let values_in_order: Vec<_> =
                (0..self.items).map(|round| ordered_values.at(in_order(round)).load()).collect();
            self.write(values.to, &values_in_order, &digits, places, extent);
        }
    }

    /// Writes elements of the ordered tile, every `threads`th from this thread's on, to the places that their digits have.
    #[device]
    fn write<T: Element>(
        &self,
        to: Global<T>,
        elements: &[Reg<T>],
        digits: &[Reg<u32>],
        places: Shared<u64>,
        tile: Extent,
    ) {
        let thread = thread_idx().x;
        let place = |round: usize| thread + round as u32 * self.threads;
        let target = |round: usize| to.at(places.at(digits[round]).load() + place(round).convert::<u64>());
        if tile.is_whole {
            for (round, element) in elements.iter().enumerate() {
                target(round).store(*element);
            }
        } else {
            for (round, element) in elements.iter().enumerate() {
                if place(round) < tile.valid {
                    target(round).store(*element);
                }
            }
        }
    }

    /// This lane's elements of the tile, each turned to what is needed of it; `past_end` beyond the end.
    #[device]
    fn load<T: Element, U: Element>(
        &self,
        from: Global<T>,
        tile: Extent,
        past_end: Reg<U>,
        turned: impl Fn(Reg<T>) -> Reg<U>,
    ) -> Vec<Reg<U>> {
        let mut loaded = vec![past_end; self.items as usize];
        if tile.is_whole {
            let elements: Vec<_> = (0..self.items).map(|round| from.at(32 * round).load()).collect();
            for (round, element) in elements.iter().enumerate() {
                loaded[round] = turned(*element);
            }
        } else {
            for round in 0..self.items {
                let place = tile.mine + 32 * round;
                if place < tile.valid {
                    loaded[round as usize] = turned(from.at(32 * round).load());
                }
            }
        }
        loaded
    }

    /// How many keys of the tile have a value below this thread's, of which there are `count` of its own.
    #[device]
    fn before_value(&self, count: Reg<u32>) -> Reg<u32> {
        let ends = shared_array::<u32>(self.threads / 32);
        let (warp, lane) = (thread_idx().x / 32, lane_id());
        let scanned = scan_warp::<u32, _>(&Sum, count);
        if lane == 31 {
            ends.at(warp).store(scanned);
        }
        sync_threads();
        let mut before = scanned - count;
        for other in 0..BINS / 32 - 1 {
            before += warp.gt(other).select(ends.at(other).load(), 0u32);
        }
        before
    }
}

/// A key's digit, and how many keys of its warp's run with that digit came before it, in one register: the digit above 16 bits.
struct Ranked(Reg<u32>);

impl Ranked {
    /// Ranks this lane's next key by its warp's counters, and counts it.
    #[device]
    fn new(counters: Shared<u32>, digit: Reg<u32>) -> Self {
        let same = lanes_of_same(digit);
        let before = (same & lane_mask_lt()).popc();
        let counter = counters.at(digit);
        let counted = counter.load();
        sync_warp(ALL_LANES);
        if before == 0 {
            counter.store(counted + same.popc());
        }
        sync_warp(ALL_LANES);
        Self(digit << 16u32 | (counted + before))
    }

    /// Its place in the tile, when the counters say where the warp's keys of each digit begin.
    fn place(&self, begins: Shared<u32>) -> Reg<u32> {
        begins.at(self.0 >> 16u32).load() + (self.0 & 0xffff)
    }
}

/// The lanes that have the same byte, as bits: eight ballots, which are faster than `match`.
fn lanes_of_same(digit: Reg<u32>) -> Reg<u32> {
    let mut same = constant(ALL_LANES);
    for bit in 0..BINS.ilog2() {
        let is_set = (digit & (1 << bit)).ne(0);
        let set = ballot(is_set, ALL_LANES);
        same &= is_set.select(set, !set);
    }
    same
}

/// Publishes a tile's count of this thread's value.
fn publish(words: Global<u64>, ticket: Ticket, status: Reg<u32>, count: Reg<u32>) {
    let word = (ticket.launch | status).convert::<u64>() << 32u32 | count.convert::<u64>();
    let relaxed = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
    words.at(ticket.tile.convert::<u64>() * u64::from(BINS)).store_with(word, relaxed);
}

/// How many keys of earlier tiles have this thread's value. It looks at `window` tiles at once.
#[device]
fn look_back(words: Global<u64>, ticket: Ticket, window: u32) -> Reg<u32> {
    let mut before = constant(0u32);
    // Tiles not accounted for yet: those below this one.
    let mut tiles = ticket.tile;
    let mut is_done = tiles.eq(0);
    while !is_done {
        // Before tile 0, which has a prefix, nothing is looked for: it stands for those that are not there.
        let relaxed = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
        let seen: Vec<_> = (1..=window)
            .map(|distance| (tiles >= distance).select(tiles - distance, 0u32))
            .map(|tile| words.at(tile.convert::<u64>() * u64::from(BINS)).load_with(relaxed))
            .collect();
        let mut goes_on = constant(true);
        for word in seen {
            let status = (word >> 32u32).convert::<u32>() ^ ticket.launch;
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
