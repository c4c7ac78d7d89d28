//! Sectors of global and local memory.
//!
//! Memory moves in sectors of 32 bytes (CUDA C++ Best Practices Guide, "Coalesced Access to Global
//! Memory").

use std::collections::HashMap;

use warpwright_events::{LANES, lanes};

pub(crate) const SECTOR_BYTES: u64 = warpwright_arch::limits::SECTOR_BYTES as u64;
/// Sectors that share a word of bits.
const PAGE_SECTORS: u64 = 128;

/// Bytes of an access, as sorted ranges that do not overlap; lanes that follow each other are one
/// range.
pub fn ranges(addresses: &[u64; LANES], mask: u32, size: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(LANES);
    for lane in lanes(mask) {
        let (start, end) = (addresses[lane], addresses[lane] + size);
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    merge(&mut ranges);
    ranges
}

/// Sorts ranges, and merges those that overlap or touch.
fn merge(ranges: &mut Vec<(u64, u64)>) {
    if ranges.len() > 1 {
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            last.1 = if touches { last.1.max(next.1) } else { last.1 };
            touches
        });
    }
}

/// Words of local memory are adjacent for the 32 lanes of a warp (CUDA C++ Programming Guide,
/// "Local Memory"). Returns the interleaved ranges of an access.
pub fn interleaved(addresses: &[u64; LANES], mask: u32, size: u64) -> Vec<(u64, u64)> {
    const WORD: u64 = 4;
    let mut ranges = Vec::with_capacity(LANES);
    for lane in lanes(mask) {
        let (start, end) = (addresses[lane], addresses[lane] + size);
        for word in start / WORD..end.div_ceil(WORD) {
            let base = (word * LANES as u64 + lane as u64) * WORD - word * WORD;
            ranges.push((base + start.max(word * WORD), base + end.min((word + 1) * WORD)));
        }
    }
    merge(&mut ranges);
    ranges
}

/// The sectors that sorted ranges touch, their bytes, and the minimum of sectors for as many bytes.
pub(crate) fn touched(ranges: &[(u64, u64)]) -> Touched {
    let (mut sectors, mut bytes, mut next) = (0, 0, 0);
    for &(start, end) in ranges {
        bytes += end - start;
        let first = (start / SECTOR_BYTES).max(next);
        next = end.div_ceil(SECTOR_BYTES);
        sectors += next - first;
    }
    Touched { sectors, bytes, ideal: bytes.div_ceil(SECTOR_BYTES) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) sectors: u64,
    pub(crate) bytes: u64,
    pub(crate) ideal: u64,
}

/// A set of sectors.
#[derive(Debug, Default)]
pub(crate) struct SectorSet {
    pages: HashMap<u64, u128>,
}

impl SectorSet {
    /// Adds the sectors of a range of bytes.
    pub(crate) fn insert(&mut self, (start, end): (u64, u64)) {
        let (mut sector, last) = (start / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES));
        while sector < last {
            let (page, bit) = (sector / PAGE_SECTORS, sector % PAGE_SECTORS);
            let count = (last - sector).min(PAGE_SECTORS - bit);
            let bits = if count == PAGE_SECTORS { u128::MAX } else { ((1 << count) - 1) << bit };
            *self.pages.entry(page).or_default() |= bits;
            sector += count;
        }
    }

    /// Adds all of another set.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.pages.is_empty() {
            self.pages = other.pages;
            return;
        }
        for (page, bits) in other.pages {
            *self.pages.entry(page).or_default() |= bits;
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.pages.values().map(|bits| u64::from(bits.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn strided(first: u64, stride: u64, size: u64, mask: u32) -> Touched {
        touched(&ranges(&std::array::from_fn(|lane| first + lane as u64 * stride), mask, size))
    }

    #[test]
    fn sectors_are_those_of_the_bytes() {
        assert_eq!(strided(0, 4, 4, u32::MAX), Touched { sectors: 4, bytes: 128, ideal: 4 });
        assert_eq!(strided(4, 4, 4, u32::MAX), Touched { sectors: 5, bytes: 128, ideal: 4 });
        assert_eq!(strided(64, 0, 4, u32::MAX), Touched { sectors: 1, bytes: 4, ideal: 1 });
        assert_eq!(strided(0, 16, 16, u32::MAX), Touched { sectors: 16, bytes: 512, ideal: 16 });
        for stride in 1..40 {
            let sectors = (4 * stride).min(32);
            assert_eq!(strided(0, 4 * stride, 4, u32::MAX).sectors, sectors, "stride {stride}");
        }
    }

    /// Against sets of bytes and sectors, for addresses from a small generator.
    #[test]
    fn any_addresses_agree_with_sets() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let (size, span, mask) =
                (1 << random(5), 1 << random(12), random(u64::from(u32::MAX)) as u32 | 1);
            let addresses: [u64; LANES] = std::array::from_fn(|_| random(span) / size * size);
            let mut bytes = BTreeSet::new();
            lanes(mask).for_each(|lane| bytes.extend(addresses[lane]..addresses[lane] + size));
            let sectors: BTreeSet<u64> = bytes.iter().map(|byte| byte / SECTOR_BYTES).collect();
            let found = ranges(&addresses, mask, size);
            let Touched { sectors: counted, bytes: used, .. } = touched(&found);
            assert_eq!((counted, used), (sectors.len() as u64, bytes.len() as u64));
            let mut set = SectorSet::default();
            found.into_iter().for_each(|range| set.insert(range));
            assert_eq!(set.len(), counted);
        }
    }

    #[test]
    fn the_same_word_of_all_lanes_is_four_sectors_of_local_memory() {
        let local = |addresses: [u64; LANES], size| touched(&interleaved(&addresses, u32::MAX, size));
        assert_eq!(local([16; LANES], 4), Touched { sectors: 4, bytes: 128, ideal: 4 });
        assert_eq!(local([16; LANES], 16).sectors, 16);
        assert_eq!(local([3; LANES], 1), Touched { sectors: 4, bytes: 32, ideal: 1 });
        assert_eq!(local(std::array::from_fn(|lane| 4 * lane as u64), 4).sectors, 32);
    }
}
