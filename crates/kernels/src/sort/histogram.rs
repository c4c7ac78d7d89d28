//! Counts of the values of each byte of the keys, and from these the first position of each value.

use warpwright::prelude::*;

use super::key::{BINS, Direction, SortKey, in_direction};
use crate::collective::scan_warp;
use crate::monoid::Sum;
use crate::vector;

/// Counts the digits of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Histogram {
    /// The order.
    pub direction: Direction,
    /// Threads of a CTA: whole warps.
    pub threads: u32,
    /// Vectors that a thread loads before the first is counted: 1 to 64.
    pub unroll: u32,
    /// Copies of each counter in a CTA, 1 to 32: fewer lanes with equal keys conflict.
    pub copies: u32,
}

impl Histogram {
    /// The fastest configuration on an H200: as many copies as leave room for three CTAs per SM.
    pub fn new<K: SortKey>(direction: Direction) -> Self {
        Self { direction, threads: 512, unroll: 2, copies: if K::BYTES == 8 { 8 } else { 16 } }
    }

    /// The grid for `length` keys, where `most` CTAs fit the device.
    pub fn grid<K: SortKey>(&self, length: u64, most: u32) -> u32 {
        let tile = u64::from(self.threads * self.unroll * vector::width::<K>());
        u32::try_from(length.div_ceil(tile)).unwrap_or(u32::MAX).clamp(1, most)
    }

    /// Adds to `counts[256 * byte + value]` the number of keys with that value in that byte.
    #[kernel]
    pub fn count<K: SortKey>(&self, keys: &Global<K>, counts: &mut Global<u64>, length: u64) {
        launch::threads(self.threads);
        let bins = K::BYTES * BINS;
        let counters = dynamic_shared::<u32>(bins * self.copies);
        let thread = thread_idx().x;
        for counter in (thread..bins * self.copies).step_by(self.threads) {
            counters.at(counter).store(0u32);
        }
        sync_threads();

        let width = vector::width::<K>();
        let round = u64::from(self.threads * self.unroll * width);
        let rounds = length / round;
        let (block, blocks) = (block_idx().x.convert::<u64>(), grid_dim().x.convert::<u64>());
        for number in (block..rounds).step_by(blocks) {
            let at = keys.at(number * round + (thread * width).convert::<u64>());
            let vectors: Vec<_> = (0..self.unroll)
                .map(|part| vector::load(at.at(part * self.threads * width), Access::new()))
                .collect();
            for key in vectors.concat() {
                self.count_key(counters, key);
            }
        }
        // The rest is less than a round.
        let first = rounds * round + block * u64::from(self.threads) + thread.convert::<u64>();
        for index in (first..length).step_by(blocks * u64::from(self.threads)) {
            self.count_key(counters, keys[index]);
        }
        sync_threads();

        for bin in (thread..bins).step_by(self.threads) {
            let mut sum = constant(0u32);
            for copy in 0..self.copies {
                sum += counters.at(bin * self.copies + copy).load();
            }
            if sum != 0 {
                counts.at(bin).reduce_add(sum.convert::<u64>());
            }
        }
    }

    /// Counts the bytes of one key.
    fn count_key<K: SortKey>(&self, counters: Shared<u32>, key: Reg<K>) {
        let ordered = in_direction::<K>(K::ordered(key), self.direction);
        let copy = lane_id() % self.copies;
        for byte in 0..K::BYTES {
            let bin = K::digit(ordered, constant(8 * byte)) + byte * BINS;
            counters.at(bin * self.copies + copy).reduce_add(1u32);
        }
    }

    /// Replaces the counts of one byte by their exclusive scan. One CTA per byte, a thread per
    /// value.
    #[kernel]
    pub fn accumulate(&self, counts: &mut Global<u64>) {
        launch::threads(BINS);
        let ends = shared_array::<u64>(BINS / 32);
        let (thread, lane) = (thread_idx().x, lane_id());
        let at = counts.at(block_idx().x * BINS + thread);
        let count = at.load();
        let scanned = scan_warp::<u64, _>(&Sum, count);
        if lane == 31 {
            ends.at(thread / 32).store(scanned);
        }
        sync_threads();
        let mut below = scanned - count;
        for warp in 0..BINS / 32 {
            below += (thread / 32).gt(warp).select(ends.at(warp).load(), 0u64);
        }
        at.store(below);
    }
}
