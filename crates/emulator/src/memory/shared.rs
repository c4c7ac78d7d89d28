//! Shared memory of a CTA, and its addresses in the cluster.

use warpwright_events::shared_base;

use super::global::POISON;
use crate::registers::Column;

const POISONED: Column<u32> = Column([u32::from_ne_bytes([POISON; 4]); 32]);

/// The bytes of one CTA's shared memory, poisoned at first.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    storage: Vec<Column<u32>>,
    size: u64,
    /// Its first address.
    base: u64,
}

impl SharedMemory {
    /// The shared memory of the CTA of a rank in its cluster.
    pub(crate) fn new(size: u64, rank: u32) -> Self {
        let columns = (size as usize).div_ceil(size_of::<Column<u32>>());
        Self { storage: vec![POISONED; columns], size, base: shared_base(rank) }
    }

    /// Discards its contents.
    pub(crate) fn poison(&mut self) {
        self.storage.fill(POISONED);
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Its first address: the CTA's rank, above the bits of the offset.
    #[inline(always)]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The host's pointer to the addresses `first..end`, if all of them are inside.
    #[inline(always)]
    pub(crate) fn locate(&mut self, first: u64, end: u64) -> Option<*mut u8> {
        let (first, end) = (first.wrapping_sub(self.base), end.wrapping_sub(self.base));
        (first <= end && end <= self.size)
            .then(|| self.storage.as_mut_ptr().cast::<u8>().wrapping_add(first as usize))
    }

    /// All of its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the storage is at least `size` bytes of plain numbers, borrowed for as long as
        // the slice.
        unsafe { std::slice::from_raw_parts(self.storage.as_ptr().cast(), self.size as usize) }
    }

    /// The eight bytes at an aligned offset inside the size.
    pub(crate) fn read_u64(&self, offset: u64) -> u64 {
        let words = &self.storage[(offset / 128) as usize].0;
        let at = (offset % 128 / 4) as usize;
        u64::from(words[at]) | u64::from(words[at + 1]) << 32
    }

    /// Writes the eight bytes at an aligned offset inside the size.
    pub(crate) fn write_u64(&mut self, offset: u64, value: u64) {
        let words = &mut self.storage[(offset / 128) as usize].0;
        let at = (offset % 128 / 4) as usize;
        words[at] = value as u32;
        words[at + 1] = (value >> 32) as u32;
    }
}
