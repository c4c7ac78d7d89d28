//! A section: the elements that a CTA of the three-kernel scan holds in shared memory.

use warpwright::prelude::*;

/// Elements in shared memory.
#[derive(Clone, Copy)]
pub struct Section<T: Element> {
    memory: Shared<T>,
    /// How many elements it has.
    pub length: u32,
    /// How many threads the CTA has.
    pub threads: u32,
    /// Whether a word is left out after every 32.
    pub padded: bool,
}

impl<T: Element> Section<T> {
    /// Room for a section.
    #[track_caller]
    pub fn new(length: u32, threads: u32, padded: bool) -> Self {
        let room = length + if padded { length / 32 } else { 0 };
        Self { memory: shared_array(room as usize), length, threads, padded }
    }

    /// The element at `index`. In a padded section it is moved on by a word for every 32 before it:
    ///
    /// ```text
    /// index     0  1 .. 31     32 33 .. 63      64
    /// word      0  1 .. 31  -  33 34 .. 64  -   66
    /// bank      0  1 .. 31      1  2 ..  0       2     so indices a power of two apart fall on different banks
    /// ```
    #[track_caller]
    pub fn at(&self, index: Reg<u32>) -> Shared<T> {
        let word = if self.padded { index + index / 32 } else { index };
        self.memory.at(word)
    }
}
