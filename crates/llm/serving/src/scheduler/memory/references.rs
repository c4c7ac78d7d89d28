//! Items with reference counts: pages, and state slots.

/// A fixed set of items, numbered from 0. An item with no reference is free.
pub(super) struct References {
    counts: Vec<u32>,
    free: Vec<u32>,
    /// Items of which one reference is a cache's.
    kept: Vec<bool>,
    /// Items that have no other reference than a cache's.
    idle: u32,
}

impl References {
    /// `number` free items.
    pub(super) fn new(number: u32) -> References {
        References {
            counts: vec![0; number as usize],
            free: (0..number).rev().collect(),
            kept: vec![false; number as usize],
            idle: 0,
        }
    }

    /// A free item, now with one reference.
    pub(super) fn take(&mut self) -> Option<u32> {
        let item = self.free.pop()?;
        self.counts[item as usize] = 1;
        Some(item)
    }

    /// Adds a reference to an item that has one.
    pub(super) fn add(&mut self, item: u32) {
        self.change(item, 1, self.kept[item as usize]);
    }

    /// Adds a cache's reference to an item that has one.
    pub(super) fn keep(&mut self, item: u32) {
        self.change(item, 1, true);
    }

    /// Drops a cache's reference.
    pub(super) fn let_go(&mut self, item: u32) {
        self.change(item, -1, false);
    }

    /// Drops a reference. The item is free after the last.
    pub(super) fn release(&mut self, item: u32) {
        self.change(item, -1, self.kept[item as usize]);
    }

    fn change(&mut self, item: u32, by: i32, kept: bool) {
        let i = item as usize;
        debug_assert!(self.counts[i] > 0, "item {item} has no reference");
        self.idle -= u32::from(self.is_idle(i));
        self.counts[i] = self.counts[i].saturating_add_signed(by);
        self.kept[i] = kept;
        self.idle += u32::from(self.is_idle(i));
        if self.counts[i] == 0 {
            self.free.push(item);
        }
    }

    fn is_idle(&self, i: usize) -> bool {
        self.kept[i] && self.counts[i] == 1
    }

    /// Items that have no other reference than a cache's.
    pub(super) fn idle(&self) -> u32 {
        self.idle
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
