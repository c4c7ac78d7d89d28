//! Items with reference counts: pages, and state slots.

/// A fixed set of items, numbered from 0. An item with no reference is free.
pub(super) struct References {
    counts: Vec<u32>,
    free: Vec<u32>,
}

impl References {
    /// `number` free items.
    pub(super) fn new(number: u32) -> References {
        References { counts: vec![0; number as usize], free: (0..number).rev().collect() }
    }

    /// A free item, now with one reference.
    pub(super) fn take(&mut self) -> Option<u32> {
        let item = self.free.pop()?;
        self.counts[item as usize] = 1;
        Some(item)
    }

    /// Adds a reference to an item that has one.
    pub(super) fn add(&mut self, item: u32) {
        self.counts[item as usize] += 1;
    }

    /// Drops a reference. The item is free after the last.
    pub(super) fn release(&mut self, item: u32) {
        let count = &mut self.counts[item as usize];
        debug_assert!(*count > 0, "item {item} has no reference");
        *count -= 1;
        if *count == 0 {
            self.free.push(item);
        }
    }

    /// The references of an item.
    pub(super) fn count(&self, item: u32) -> u32 {
        self.counts[item as usize]
    }

    /// Items without a reference.
    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// All items.
    pub(super) fn total(&self) -> u32 {
        self.counts.len() as u32
    }
}
