//! Local memory of a warp's threads.
//!
//! Words of the 32 lanes are adjacent, as on the device: if all lanes access the same offset, as
//! for spills and local arrays, an access is one column.

use warpwright_events::{LANES, lanes};

use super::global::POISON;
use crate::registers::Column;

/// The local memory of 32 threads; it grows with their stacks.
#[derive(Debug, Default, Hash)]
pub(crate) struct LocalMemory {
    words: Vec<Column<u32>>,
    /// For each word, the bytes of each lane that have been written, four bits per lane. Only for
    /// observers: empty without any.
    written: Vec<[u8; LANES]>,
}

impl LocalMemory {
    /// Reserves `bytes` per thread.
    pub(crate) fn reserve(&mut self, bytes: u32) {
        let words = (bytes as usize).div_ceil(4);
        if self.words.len() < words {
            self.words.resize(words, Column([u32::from_ne_bytes([POISON; 4]); LANES]));
        }
    }

    /// Bytes per thread.
    pub(crate) fn size(&self) -> u64 {
        self.words.len() as u64 * 4
    }

    /// Whether an address of each thread has `bytes` bytes.
    pub(crate) fn has(&self, address: u64, bytes: u64) -> bool {
        address.checked_add(bytes).is_some_and(|end| end <= self.size())
    }

    /// Starts to track writes.
    pub(crate) fn track(&mut self) {
        self.written.resize(self.words.len().max(1), [0; LANES]);
    }

    /// Records a write of `size` bytes per lane at their addresses, which are valid.
    #[cold]
    pub(crate) fn note_write(&mut self, addresses: &[u64; LANES], mask: u32, size: u64) {
        self.written.resize(self.words.len().max(1), [0; LANES]);
        for lane in lanes(mask) {
            for at in addresses[lane]..addresses[lane] + size {
                self.written[(at / 4) as usize][lane] |= 1 << (at % 4);
            }
        }
    }

    /// The lanes that read `size` unwritten bytes at their addresses, which are valid.
    #[cold]
    pub(crate) fn unwritten(&self, addresses: &[u64; LANES], mask: u32, size: u64) -> u32 {
        let is_written = |lane: usize, at: u64| {
            self.written.get((at / 4) as usize).is_some_and(|bytes| bytes[lane] >> (at % 4) & 1 != 0)
        };
        let unread = |&lane: &usize| {
            self.has(addresses[lane], size)
                && !(addresses[lane]..addresses[lane] + size).any(|at| is_written(lane, at))
        };
        lanes(mask).filter(unread).fold(0, |bits, lane| bits | 1 << lane)
    }

    /// Reads up to 16 bytes of one lane; `None` past the end.
    pub(crate) fn read(&self, lane: usize, address: u64, bytes: &mut [u8]) -> Option<()> {
        if address.checked_add(bytes.len() as u64)? > self.size() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            let at = address as usize + index;
            *byte = self.words[at / 4].0[lane].to_le_bytes()[at % 4];
        }
        Some(())
    }

    /// Writes up to 16 bytes of one lane; `None` past the end.
    pub(crate) fn write(&mut self, lane: usize, address: u64, bytes: &[u8]) -> Option<()> {
        if address.checked_add(bytes.len() as u64)? > self.size() {
            return None;
        }
        for (index, byte) in bytes.iter().enumerate() {
            let at = address as usize + index;
            let word = &mut self.words[at / 4].0[lane];
            let mut held = word.to_le_bytes();
            held[at % 4] = *byte;
            *word = u32::from_le_bytes(held);
        }
        if !self.written.is_empty() {
            self.note_write(&[address; LANES], 1 << lane, bytes.len() as u64);
        }
        Some(())
    }

    /// The four-byte word of all lanes at an aligned offset; `None` past the end.
    #[inline(always)]
    pub(crate) fn column(&self, address: u64) -> Option<&[u32; LANES]> {
        self.words.get((address / 4) as usize).map(|column| &column.0)
    }

    /// The same, to write.
    #[inline(always)]
    pub(crate) fn column_mut(&mut self, address: u64) -> Option<&mut [u32; LANES]> {
        self.words.get_mut((address / 4) as usize).map(|column| &mut column.0)
    }
}
