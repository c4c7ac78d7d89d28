//! Local memory of a warp's threads.
//!
//! Words of the 32 lanes are adjacent, as on the device: if all lanes access the same offset, as
//! for spills and local arrays, an access is one column.

use warpwright_events::{LANES, lanes};

use super::global::POISON;
use crate::registers::Column;

/// The addresses of what `alloca` allocates begin here, past the frames of functions, of which each
/// lane has as much as the others.
const DYNAMIC: u64 = 1 << 24;

/// Words of all lanes, one after another.
#[derive(Debug, Default, Hash)]
struct Words {
    words: Vec<Column<u32>>,
    /// For each word, the bytes of each lane that have been written, four bits per lane. Only for
    /// observers.
    written: Vec<[u8; LANES]>,
}

impl Words {
    fn reserve(&mut self, bytes: u64) {
        let words = bytes.div_ceil(4) as usize;
        if self.words.len() < words {
            self.words.resize(words, Column([u32::from_ne_bytes([POISON; 4]); LANES]));
        }
    }

    fn size(&self) -> u64 {
        self.words.len() as u64 * 4
    }

    fn byte(&self, lane: usize, at: u64) -> u8 {
        self.words[(at / 4) as usize].0[lane].to_le_bytes()[(at % 4) as usize]
    }

    fn set_byte(&mut self, lane: usize, at: u64, byte: u8) {
        let word = &mut self.words[(at / 4) as usize].0[lane];
        let mut held = word.to_le_bytes();
        held[(at % 4) as usize] = byte;
        *word = u32::from_le_bytes(held);
    }

    fn is_written(&self, lane: usize, at: u64) -> bool {
        self.written.get((at / 4) as usize).is_some_and(|bytes| bytes[lane] >> (at % 4) & 1 != 0)
    }

    fn note(&mut self, lane: usize, at: u64, is_written: bool) {
        self.written.resize(self.words.len(), [0; LANES]);
        let bits = &mut self.written[(at / 4) as usize][lane];
        *bits = *bits & !(1 << (at % 4)) | u8::from(is_written) << (at % 4);
    }
}

/// The local memory of 32 threads: the frames of their functions, which grow with their stacks, and
/// what `alloca` allocates.
#[derive(Debug, Default, Hash)]
pub(crate) struct LocalMemory {
    frames: Words,
    dynamic: Words,
    /// Bytes of `dynamic` that each lane has allocated.
    allocated: [u32; LANES],
    /// Whether writes are tracked.
    is_tracked: bool,
}

impl LocalMemory {
    /// Reserves `bytes` per thread for frames.
    pub(crate) fn reserve(&mut self, bytes: u32) {
        self.frames.reserve(bytes.into());
    }

    /// Bytes of frames per thread.
    pub(crate) fn size(&self) -> u64 {
        self.frames.size()
    }

    /// Allocates bytes at the top of a lane's stack, at a multiple of `alignment`, which is a power
    /// of two; `None` where the lane would have more than `most`.
    pub(crate) fn allocate(&mut self, lane: usize, bytes: u64, alignment: u64, most: u64) -> Option<u64> {
        let start = u64::from(self.allocated[lane]).next_multiple_of(alignment);
        let end = start.checked_add(bytes).filter(|end| *end <= most)?;
        self.dynamic.reserve(end);
        self.allocated[lane] = end as u32;
        if self.is_tracked {
            (start..end).for_each(|at| self.dynamic.note(lane, at, false));
        }
        Some(DYNAMIC + start)
    }

    /// The top of a lane's stack.
    pub(crate) fn top(&self, lane: usize) -> u64 {
        DYNAMIC + u64::from(self.allocated[lane])
    }

    /// Frees what a lane has allocated past an earlier top of its stack; `None` if it was none.
    pub(crate) fn restore(&mut self, lane: usize, top: u64) -> Option<()> {
        let allocated = top.checked_sub(DYNAMIC).filter(|top| *top <= self.allocated[lane].into())?;
        self.allocated[lane] = allocated as u32;
        Some(())
    }

    /// Whether an address of a lane has `bytes` bytes.
    pub(crate) fn has(&self, lane: usize, address: u64, bytes: u64) -> bool {
        self.find(lane, address, bytes).is_some()
    }

    /// Whether an address is among those that `alloca` returns, and its offset.
    fn find(&self, lane: usize, address: u64, bytes: u64) -> Option<(bool, u64)> {
        let end = address.checked_add(bytes)?;
        if end <= self.size() {
            return Some((false, address));
        }
        let start = address.checked_sub(DYNAMIC)?;
        (end - DYNAMIC <= self.allocated[lane].into()).then_some((true, start))
    }

    fn words(&self, is_dynamic: bool) -> &Words {
        if is_dynamic { &self.dynamic } else { &self.frames }
    }

    fn words_mut(&mut self, is_dynamic: bool) -> &mut Words {
        if is_dynamic { &mut self.dynamic } else { &mut self.frames }
    }

    /// Starts to track writes.
    pub(crate) fn track(&mut self) {
        self.is_tracked = true;
    }

    /// Records a write of `size` bytes per lane at their addresses, which are valid.
    #[cold]
    pub(crate) fn note_write(&mut self, addresses: &[u64; LANES], mask: u32, size: u64) {
        for lane in lanes(mask) {
            if let Some((is_dynamic, start)) = self.find(lane, addresses[lane], size) {
                let words = self.words_mut(is_dynamic);
                (start..start + size).for_each(|at| words.note(lane, at, true));
            }
        }
    }

    /// The lanes that read `size` unwritten bytes at their addresses.
    #[cold]
    pub(crate) fn unwritten(&self, addresses: &[u64; LANES], mask: u32, size: u64) -> u32 {
        let unread = |&lane: &usize| match self.find(lane, addresses[lane], size) {
            Some((is_dynamic, start)) => {
                let words = self.words(is_dynamic);
                !(start..start + size).any(|at| words.is_written(lane, at))
            }
            None => false,
        };
        lanes(mask).filter(unread).fold(0, |bits, lane| bits | 1 << lane)
    }

    /// Reads up to 16 bytes of one lane; `None` past the end.
    pub(crate) fn read(&self, lane: usize, address: u64, bytes: &mut [u8]) -> Option<()> {
        let (is_dynamic, start) = self.find(lane, address, bytes.len() as u64)?;
        let words = self.words(is_dynamic);
        bytes.iter_mut().zip(start..).for_each(|(byte, at)| *byte = words.byte(lane, at));
        Some(())
    }

    /// Writes up to 16 bytes of one lane; `None` past the end.
    pub(crate) fn write(&mut self, lane: usize, address: u64, bytes: &[u8]) -> Option<()> {
        let (is_dynamic, start) = self.find(lane, address, bytes.len() as u64)?;
        let words = self.words_mut(is_dynamic);
        bytes.iter().zip(start..).for_each(|(byte, at)| words.set_byte(lane, at, *byte));
        if self.is_tracked {
            self.note_write(&[address; LANES], 1 << lane, bytes.len() as u64);
        }
        Some(())
    }

    /// The four-byte word of all lanes at an aligned offset of their frames; `None` past the end.
    #[inline(always)]
    pub(crate) fn column(&self, address: u64) -> Option<&[u32; LANES]> {
        self.frames.words.get((address / 4) as usize).map(|column| &column.0)
    }

    /// The same, to write.
    #[inline(always)]
    pub(crate) fn column_mut(&mut self, address: u64) -> Option<&mut [u32; LANES]> {
        self.frames.words.get_mut((address / 4) as usize).map(|column| &mut column.0)
    }
}
