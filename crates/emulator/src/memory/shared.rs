//! Shared memory of a CTA.

use super::global::POISON;
use crate::registers::Column;

const POISONED: Column<u32> = Column([u32::from_ne_bytes([POISON; 4]); 32]);

/// The bytes of one CTA's shared memory, poisoned at first.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    storage: Vec<Column<u32>>,
    size: u64,
}

impl SharedMemory {
    pub(crate) fn new(size: u64) -> Self {
        let columns = (size as usize).div_ceil(size_of::<Column<u32>>());
        Self { storage: vec![POISONED; columns], size }
    }

    /// Forgets what it holds.
    pub(crate) fn poison(&mut self) {
        self.storage.fill(POISONED);
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
