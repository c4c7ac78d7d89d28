//! Shared memory of a CTA.

use super::global::POISON;
use crate::registers::Column;

/// The bytes of one CTA's shared memory, poisoned at first.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    storage: Vec<Column<u32>>,
    size: u64,
}

impl SharedMemory {
    pub(crate) fn new(size: u64) -> Self {
        let poison = u32::from_ne_bytes([POISON; 4]);
        let columns = (size as usize).div_ceil(size_of::<Column<u32>>());
        Self { storage: vec![Column([poison; 32]); columns], size }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The host's pointer to `first..end`, if all of it is inside.
    #[inline(always)]
    pub(crate) fn locate(&mut self, first: u64, end: u64) -> Option<*mut u8> {
        (first <= end && end <= self.size)
            .then(|| self.storage.as_mut_ptr().cast::<u8>().wrapping_add(first as usize))
    }
}
