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
    /// Whether a word is left out after every run, and each lane of a step keeps to runs of its
    /// own.
    pub padded: bool,
}

impl<T: Element> Section<T> {
    /// Room for a section.
    #[track_caller]
    pub fn new(length: u32, threads: u32, padded: bool) -> Self {
        let room = length + if padded { length / run(length) } else { 0 };
        Self { memory: shared_array(room), length, threads, padded }
    }

    /// The element at `index`. In a padded section it is moved on by a word for every run before
    /// it:
    ///
    /// ```text
    /// index     0  1 .. 31     32 33 .. 63      64
    /// word      0  1 .. 31  -  33 34 .. 64  -   66
    /// bank      0  1 .. 31      1  2 ..  0       2     so what has the same place in its run falls on different banks
    /// ```
    #[track_caller]
    pub fn at(&self, index: Reg<u32>) -> Shared<T> {
        let word = if self.padded { index + index / run(self.length) } else { index };
        self.memory.at(word)
    }

    /// Which of the `pairs` pairs of a tree's step is this thread's; those of threads from `pairs`
    /// on are not there.
    ///
    /// In a plain section neighbors take neighboring pairs. In a padded one each lane has a 32nd
    /// of the section to itself, and the lanes of a warp are at the same place of theirs. Padding
    /// alone is not enough: of a warp's neighboring pairs, the left ends are then in different
    /// banks where the section's 32 pairs begin at a multiple of 32, and the right ends where they
    /// begin one later.
    ///
    /// ```text
    /// lane        0             1             2
    /// plain       pair 0        pair 1        pair 2            then warp 1: 32, 33, 34, ..
    /// padded      pair 0        pair p        pair 2p           then warp 1:  1, p + 1, 2p + 1, ..      p = pairs / 32
    /// ```
    #[track_caller]
    pub fn pair(&self, thread: Reg<u32>, pairs: u32) -> Reg<u32> {
        if self.padded && pairs > 32 { thread % 32 * (pairs / 32) + thread / 32 } else { thread }
    }
}

/// Elements between two words that are left out: a lane's share, but at least a row of banks, so
/// that neighbors in a row stay apart.
fn run(length: u32) -> u32 {
    (length / 32).max(32)
}
