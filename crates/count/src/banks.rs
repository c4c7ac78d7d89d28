//! Bank conflicts of shared memory.
//!
//! Shared memory has 32 banks; consecutive words of 4 bytes are in consecutive banks. In a pass,
//! each bank serves one word, to every lane that reads it (CUDA C++ Programming Guide, "Shared
//! Memory"). Accesses of up to 4 bytes per lane are one group, of 8 bytes two halves of the warp,
//! of 16 bytes four quarters: at most 128 bytes per pass. Loads of 8 and 16 bytes serve twice as
//! many lanes at a time if all pairs of neighbors, or all pairs of lanes two apart, read the same
//! words; stores never do (measured on H200: `banks_h200.txt` has the profiler's counts). The rows
//! of `ldmatrix` and `stmatrix` are 16 bytes each, from 8 lanes per matrix, so each matrix is one
//! pass.

use warpwright_arch::limits;
use warpwright_events::{AccessKind, LANES, lanes};

const BANKS: u64 = limits::BANKS as u64;
const BANK_BYTES: u64 = limits::BANK_BYTES as u64;

/// Passes of an access, and the minimum for its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// The passes.
    pub wavefronts: u64,
    /// As many as the bytes need without conflicts.
    pub ideal: u64,
}

/// Whether lanes may go together with others that want the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Loads.
    Pairs,
    /// Stores, atomics, matrices.
    Nothing,
}

impl Sharing {
    /// The sharing of an access.
    pub fn of(kind: AccessKind) -> Self {
        if kind == AccessKind::Read { Self::Pairs } else { Self::Nothing }
    }
}

/// The passes of lanes that access `size` bytes of shared memory each, at these addresses.
pub fn passes(addresses: &[u64; LANES], mask: u32, size: u64, sharing: Sharing) -> Passes {
    let mut together = (BANKS * BANK_BYTES / size.max(BANK_BYTES)).max(1) as usize;
    if together < LANES && sharing == Sharing::Pairs {
        let alike = |apart: usize| {
            lanes(mask)
                .all(|lane| mask >> (lane ^ apart) & 1 == 0 || addresses[lane] == addresses[lane ^ apart])
        };
        together *= if alike(1) || alike(2) { 2 } else { 1 };
    }
    let group = if together == LANES { u32::MAX } else { (1 << together) - 1 };
    let mut passes = Passes { wavefronts: 0, ideal: 0 };
    for first in (0..LANES).step_by(together) {
        let active = mask & group << first;
        if active != 0 {
            passes.ideal += size.div_ceil(BANKS * BANK_BYTES);
            passes.wavefronts += most_words_of_a_bank(addresses, active, size);
        }
    }
    passes
}

/// The most words that any bank serves.
fn most_words_of_a_bank(addresses: &[u64; LANES], active: u32, size: u64) -> u64 {
    let mut wanted: Vec<u64> = Vec::with_capacity(LANES);
    for lane in lanes(active) {
        wanted.extend(addresses[lane] / BANK_BYTES..(addresses[lane] + size).div_ceil(BANK_BYTES));
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut load = [0; BANKS as usize];
    wanted.iter().for_each(|word| load[(word % BANKS) as usize] += 1);
    load.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(stride: u64, size: u64, mask: u32) -> (u64, u64) {
        let addresses = std::array::from_fn(|lane| lane as u64 * stride);
        let Passes { wavefronts, ideal } = passes(&addresses, mask, size, Sharing::Pairs);
        (wavefronts, ideal)
    }

    #[test]
    fn words_with_a_stride_meet_as_often_as_stride_and_banks_have_in_common() {
        let gcd = |mut a: u64, mut b: u64| {
            while a != 0 {
                (a, b) = (b % a, a);
            }
            b
        };
        assert_eq!(ways(0, 4, u32::MAX), (1, 1), "a broadcast");
        for stride in 1..100 {
            assert_eq!(ways(4 * stride, 4, u32::MAX), (gcd(stride, 32), 1), "stride {stride}");
        }
    }

    #[test]
    fn wide_accesses_go_by_halves_and_quarters() {
        assert_eq!(ways(8, 8, u32::MAX), (2, 2));
        assert_eq!(ways(16, 16, u32::MAX), (4, 4));
        assert_eq!(ways(16, 16, 0xff), (1, 1), "the rows of one matrix");
        assert_eq!(ways(64, 16, 0xff), (4, 1), "rows of 64 bytes");
        assert_eq!(ways(128, 16, u32::MAX), (32, 4));
        assert_eq!(ways(2, 2, u32::MAX), (1, 1), "halves of a word are one word");
    }

    /// Each line: the lanes' access and its bytes, the wavefronts and bank conflicts that the
    /// profiler counted, the lanes' addresses (`-` for an inactive lane).
    #[test]
    fn the_profiler_counts_the_same() {
        for line in include_str!("banks_h200.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |index: usize| words[index].parse::<u64>().expect("a number");
            let mut addresses = [0; LANES];
            let mut mask = 0;
            for (lane, word) in words[4..].iter().enumerate().filter(|(_, word)| **word != "-") {
                (addresses[lane], mask) = (word.parse().expect("an address"), mask | 1 << lane);
            }
            let sharing = if words[0] == "load" { Sharing::Pairs } else { Sharing::Nothing };
            let passes = passes(&addresses, mask, number(1), sharing);
            assert_eq!(
                (passes.wavefronts, passes.wavefronts - passes.ideal),
                (number(2), number(3)),
                "{line}"
            );
        }
    }
}
