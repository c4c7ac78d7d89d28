//! A paged cache of keys and values.
//!
//! ```text
//! pool          page 0 | page 1 | page 2 | ..     a page: `page_size` keys of all heads
//! block table   sequence 0:  7  2  5  -           the page of keys 0.., of keys page_size.., ..
//!               sequence 1:  1  -  -  -
//! ```

use crate::operations::{OperationError, Result};

/// Keys of a page.
pub(crate) const PAGE_SIZES: [u32; 5] = [16, 32, 64, 128, 256];

/// A paged cache: pools of pages of K and of V, and a block table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PagedCache {
    /// Keys of a page: 16, 32, 64, 128 or 256.
    pub page_size: u32,
    /// Pages of the pools of K and V.
    pub pages: u32,
    /// Entries of the block table per sequence.
    pub pages_per_sequence: u32,
}

impl PagedCache {
    /// The longest sequence that the block table holds.
    pub fn capacity(&self) -> u64 {
        u64::from(self.pages_per_sequence) * u64::from(self.page_size)
    }

    /// Keys of a pool.
    pub fn keys(&self) -> usize {
        self.pages as usize * self.page_size as usize
    }

    /// Entries of the block table of `batch` sequences.
    pub fn table_entries(&self, batch: u32) -> usize {
        batch as usize * self.pages_per_sequence as usize
    }

    /// Refuses what no kernel takes; `what` is the operation.
    pub fn check(&self, what: &'static str) -> Result<()> {
        let page_size = self.page_size;
        let reason = if !PAGE_SIZES.contains(&page_size) {
            format!("pages of {page_size} keys; give one of {PAGE_SIZES:?}")
        } else if self.pages == 0 {
            "a cache without pages; give 1 or more".to_owned()
        } else if self.pages_per_sequence == 0 {
            "a block table without entries; give 1 page per sequence or more".to_owned()
        } else {
            return Ok(());
        };
        Err(OperationError::Shape { what, reason })
    }
}
