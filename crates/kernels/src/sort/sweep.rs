//! One pass: every key is read once, and written once to its position among the keys with the same
//! digit.
//!
//! A CTA takes a tile, each warp a run of it, each lane every 32nd key of the run: a warp's keys in
//! the order of (round, lane) are its run in memory order:
//!
//! ```text
//! warp 0    round 0   | lane 0 | lane 1 | .. | lane 31 |
//!           round 1   | ..
//! warp 1    round 0   | ..
//! ```
//!
//! 1. *Rank.* In each round a warp finds the lanes with the same digit by eight ballots. The rank
//!    of a key is the number of such keys before it: those of earlier rounds are counted in shared
//!    memory, those of this round in the ballots.
//! 2. *Count.* A thread per digit value adds the counters of the warps and publishes the count of
//!    the tile. The counters of the warps become offsets in the tile.
//! 3. *Sort the tile* in shared memory by these offsets.
//! 4. *Look back* over the tiles before, one chain per digit value, for the number of their keys.
//! 5. *Store.* Neighbors in the sorted tile are neighbors in the output where their digits are
//!    equal, so most stores of a warp are contiguous.
//!
//! Tiles are numbered, and published words tagged with the launch, as in
//! [`look_back`](crate::look_back), which explains why no launch deadlocks and nothing is reset.

use warpwright::prelude::*;
use warpwright::runtime::Storable;

use super::key::{BINS, Direction, SortKey, in_direction};
use crate::collective::scan_warp;
use crate::look_back::counts::CountChain;
use crate::look_back::status::{AGGREGATE, PREFIX};
use crate::look_back::tickets::Ticket;
use crate::monoid::Sum;

/// A pass over a part of the keys: its first key and its length; the byte; the row of 256 words of
/// `starts` with the first positions of the digit values; and the row for the next part (the same,
/// if this is the last).
pub(crate) type Part = [u64; 5];

/// A pass of the sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// The order.
    pub direction: Direction,
    /// Threads of a CTA: whole warps, at least 256 threads.
    pub threads: u32,
    /// Keys of a thread: 1 to 512.
    pub items: u32,
    /// Resident CTAs per SM, 1 to 32, which bounds the registers.
    pub blocks_per_sm: u32,
    /// Tiles that a look-back reads at once: 1 to 32.
    pub window: u32,
}

/// The values of a pass.
struct Values<V> {
    from: Global<V>,
    to: Global<V>,
}

/// The other arguments of a pass.
struct Pass {
    starts: Global<u64>,
    chain: Global<u64>,
    counter: Global<u64>,
    part: [Reg<u64>; 5],
}

/// The extent of a tile, and this lane's first key in it.
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

    /// `sorted` = `keys`, ordered by one byte. `starts` is the result of
    /// [`accumulate`](super::histogram::Histogram::accumulate), `chain` has 256 words per tile, and
    /// `counter` hands out tickets.
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

    /// As [`keys`](Self::keys), with a value per key.
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

        // Load; keys past the end are the largest, so they are last in the tile.
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

        // Count, publish, and turn the counters of the warps into offsets in the tile.
        let counts_value = thread.lt(BINS);
        let mut of_earlier_warps = vec![constant(0u32); warps as usize];
        let mut count = constant(0u32);
        let chain = CountChain::new(pass.chain.at(thread), ticket, BINS, self.window);
        if counts_value {
            for other in 0..warps {
                of_earlier_warps[other as usize] = count;
                count += counters.at(other * BINS + thread).load();
            }
            let status = (ticket.tile.eq(0)).select(PREFIX, AGGREGATE);
            chain.publish(status, count);
        }
        let place = self.before_value(count);
        if counts_value {
            for other in 0..warps {
                counters.at(other * BINS + thread).store(place + of_earlier_warps[other as usize]);
            }
        }
        sync_threads();

        // Sort the tile.
        let ordered_keys = tile.cast::<K::Bits>();
        let places_in_tile: Vec<_> = ranked.iter().map(|ranked| ranked.place(of_warp)).collect();
        for (place, key) in places_in_tile.iter().zip(&ordered) {
            ordered_keys.at(*place).store(*key);
        }

        // Look back.
        if counts_value {
            let before = chain.before();
            if ticket.tile != 0 {
                chain.publish(constant(PREFIX), before + count);
            }
            let begins = pass.starts.at(digit_row * u64::from(BINS)).at(thread).load();
            places.at(thread).store(begins + before.convert::<u64>() - place.convert::<u64>());
            if (ticket.tile == grid_dim().x - 1) && (next_row != digit_row) {
                let next = begins + (before + count).convert::<u64>();
                pass.starts.at(next_row * u64::from(BINS)).at(thread).store(next);
            }
        }
        sync_threads();

        // Store.
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

    /// Stores elements of the sorted tile, every `threads`th from this thread's on, to the
    /// positions of their digits.
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

    /// This lane's elements of the tile, each mapped by `map`; `past_end` beyond the end.
    #[device]
    fn load<T: Element, U: Element>(
        &self,
        from: Global<T>,
        tile: Extent,
        past_end: Reg<U>,
        map: impl Fn(Reg<T>) -> Reg<U>,
    ) -> Vec<Reg<U>> {
        let mut loaded = vec![past_end; self.items as usize];
        if tile.is_whole {
            let elements: Vec<_> = (0..self.items).map(|round| from.at(32 * round).load()).collect();
            for (round, element) in elements.iter().enumerate() {
                loaded[round] = map(*element);
            }
        } else {
            for round in 0..self.items {
                let place = tile.mine + 32 * round;
                if place < tile.valid {
                    loaded[round as usize] = map(from.at(32 * round).load());
                }
            }
        }
        loaded
    }

    /// The number of keys of the tile whose digit is below this thread's; `count` have this
    /// thread's.
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

/// A key's digit (upper 16 bits) and its rank among the keys of its warp's run with that digit.
struct Ranked(Reg<u32>);

impl Ranked {
    /// Ranks this lane's next key by the counters of its warp, and counts it.
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

    /// Its position in the tile, once the counters are offsets.
    fn place(&self, begins: Shared<u32>) -> Reg<u32> {
        begins.at(self.0 >> 16u32).load() + (self.0 & 0xffff)
    }
}

/// The mask of lanes with the same byte: eight ballots, which are faster than `match`.
fn lanes_of_same(digit: Reg<u32>) -> Reg<u32> {
    let mut same = constant(ALL_LANES);
    for bit in 0..BINS.ilog2() {
        let is_set = (digit & (1 << bit)).ne(0);
        let set = ballot(is_set, ALL_LANES);
        same &= is_set.select(set, !set);
    }
    same
}
