//! The heap that kernels allocate from, with `malloc` and `free`.
//!
//! Its bytes are the host's as long as the device lives, so that a kernel which accesses what
//! another thread frees at that moment accesses some bytes of the heap. Addresses are never used
//! twice: a freed block is known as such.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::global::{HostBytes, POISON, RED_ZONE, Region};

/// The size of the heap that CUDA sets by default (`cudaLimitMallocHeapSize`).
const BYTES: u64 = 8 << 20;
/// `malloc` returns a multiple of this.
pub(crate) const ALIGNMENT: u64 = 16;
/// Addresses of the heap begin here, above those that several devices access.
const FIRST: u64 = 0x6000_0000_0000;
/// Freed blocks that are remembered, so that an access to one is reported as such.
const REMEMBERED: usize = 1 << 16;

/// Why a block cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapError {
    /// No block begins there.
    NotABlock,
    /// It was freed before.
    FreedTwice,
}

/// What is at an address of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// Its offset in the heap's bytes, until it is freed.
    place: Option<u64>,
}

impl Block {
    pub(crate) fn is_live(self) -> bool {
        self.place.is_some()
    }
}

/// The blocks of a device's heap.
#[derive(Debug, Default)]
pub(crate) struct Heap(RwLock<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    /// The heap's bytes, once a kernel allocates any.
    bytes: Option<HostBytes>,
    /// Offsets and lengths that are free.
    free: BTreeMap<u64, u64>,
    /// By address, freed ones included.
    blocks: BTreeMap<u64, Block>,
    freed: VecDeque<u64>,
    /// The bytes of all addresses used so far.
    used: u64,
}

/// Whether an address is of the heap.
pub(crate) fn contains(address: u64) -> bool {
    (FIRST..super::CONSTANT_WINDOW).contains(&address)
}

impl Heap {
    fn read(&self) -> RwLockReadGuard<'_, Blocks> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Blocks> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Allocates poisoned bytes at a multiple of `alignment`, a power of two; `None` if the heap has
    /// too few.
    pub(crate) fn allocate(&self, size: u64, alignment: u64) -> Option<u64> {
        self.write().allocate(size, alignment.max(ALIGNMENT))
    }

    /// Frees a block by its address.
    pub(crate) fn free(&self, address: u64) -> Result<(), HeapError> {
        self.write().release(address)
    }

    /// The block that contains an address, or the one before it.
    pub(crate) fn nearest(&self, address: u64) -> Option<Block> {
        self.read().blocks.range(..=address).next_back().map(|(_, block)| *block)
    }

    /// The host's pointer to `first..end`, if all of it is inside one live block.
    pub(crate) fn locate(&self, first: u64, end: u64) -> Option<*mut u8> {
        let blocks = self.read();
        let (_, block) = blocks.blocks.range(..=first).next_back()?;
        let inside = first <= end && end <= block.base + block.size;
        let place = block.place.filter(|_| inside)?;
        Some(blocks.bytes.as_ref()?.start().wrapping_add((place + first - block.base) as usize))
    }
}

impl Blocks {
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<u64> {
        if self.bytes.is_none() {
            self.bytes = Some(HostBytes::new(Region::layout(BYTES)?, true)?);
            self.free.insert(0, BYTES);
        }
        let length = size.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let (&place, &available) = self.free.iter().find(|(_, available)| **available >= length)?;
        // No more aligned than it has to be, so that a wider access is reported as misaligned.
        let base = (FIRST + self.used).checked_next_multiple_of(2 * alignment)? + alignment;
        let used = base + size + RED_ZONE - FIRST;
        if !contains(FIRST + used) {
            return None;
        }
        self.free.remove(&place);
        if available > length {
            self.free.insert(place + length, available - length);
        }
        let start = self.bytes.as_ref()?.start().wrapping_add(place as usize);
        // SAFETY: `place` and `length` are of a free range of the heap's bytes.
        unsafe { start.write_bytes(POISON, length as usize) };
        self.blocks.insert(base, Block { base, size, place: Some(place) });
        self.used = used;
        Some(base)
    }

    fn release(&mut self, address: u64) -> Result<(), HeapError> {
        let block = self.blocks.get_mut(&address).ok_or(HeapError::NotABlock)?;
        let place = block.place.take().ok_or(HeapError::FreedTwice)?;
        let length = block.size.max(1).next_multiple_of(ALIGNMENT);
        self.give_back(place, length);
        self.freed.push_back(address);
        if self.freed.len() > REMEMBERED
            && let Some(oldest) = self.freed.pop_front()
        {
            self.blocks.remove(&oldest);
        }
        Ok(())
    }

    /// Adds a range to the free ones, joined with its neighbors.
    fn give_back(&mut self, mut place: u64, mut length: u64) {
        if let Some(after) = self.free.remove(&(place + length)) {
            length += after;
        }
        if let Some((&before, &available)) = self.free.range(..place).next_back()
            && before + available == place
        {
            (place, length) = (before, available + length);
        }
        self.free.insert(place, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_until_they_are_freed() {
        let heap = Heap::default();
        let first = heap.allocate(40, 16).unwrap();
        let second = heap.allocate(0, 256).unwrap();
        assert_eq!((first % 32, second % 512), (16, 256));
        assert!(heap.locate(first + 36, first + 40).is_some());
        assert!(heap.locate(first + 37, first + 41).is_none());
        assert_eq!(heap.free(first + 16), Err(HeapError::NotABlock));
        assert_eq!(heap.free(first), Ok(()));
        assert_eq!(heap.free(first), Err(HeapError::FreedTwice));
        assert!(heap.locate(first, first + 4).is_none());
        assert!(heap.nearest(first + 8).is_some_and(|block| block.base == first && !block.is_live()));
        assert!(heap.allocate(8, 16).unwrap() > second, "addresses are never used twice");
    }

    #[test]
    fn freed_bytes_are_used_again() {
        let heap = Heap::default();
        for _ in 0..3 {
            let blocks: Vec<u64> = std::iter::from_fn(|| heap.allocate(1 << 20, 16)).collect();
            assert_eq!(blocks.len(), 8);
            for index in [3, 1, 0, 2, 7, 5, 6, 4] {
                heap.free(blocks[index]).unwrap();
            }
            let whole = heap.allocate(BYTES, 16).unwrap();
            assert_eq!(heap.allocate(1, 16), None);
            heap.free(whole).unwrap();
        }
        assert_eq!(heap.allocate(u64::MAX, 16), None);
    }
}
