//! A section: the elements that a CTA of the three-kernel scan holds in shared memory.

use warpwright::prelude::*;

/// Elements in shared memory.
#[derive(Clone, Copy)]
pub struct Section<T: Element> {
    memory: Shared<T>,
    /// The number of elements.
    pub length: u32,
    /// The number of threads.
    pub threads: u32,
    /// Whether the section is padded: one word is skipped after every run, and each lane processes
    /// its own runs.
    pub padded: bool,
}

impl<T: Element> Section<T> {
    /// Allocates a section.
    #[track_caller]
    pub fn new(length: u32, threads: u32, padded: bool) -> Self {
        let elements = length + if padded { length / run(length) } else { 0 };
        Self { memory: shared_array(elements), length, threads, padded }
    }

    /// The element at `index`. In a padded section its address grows by one word for every run
    /// before it:
    ///
    /// ```text
    /// index     0  1 .. 31     32 33 .. 63      64
    /// word      0  1 .. 31  -  33 34 .. 64  -   66
    /// bank      0  1 .. 31      1  2 ..  0       2     elements at the same offset of their runs are in different banks
    /// ```
    #[track_caller]
    pub fn at(&self, index: Reg<u32>) -> Shared<T> {
        let word = if self.padded { index + index / run(self.length) } else { index };
        self.memory.at(word)
    }

    /// Which of the `pairs` pairs of a tree's step this thread processes. Threads with an index of
    /// `pairs` or more have none.
    ///
    /// In a plain section neighboring threads process neighboring pairs. In a padded section each
    /// lane has a 32nd of the section, and the lanes of a warp are at the same offset of their
    /// parts. Padding alone is not enough: for neighboring pairs of a warp, the left ends are in
    /// different banks if the 32 pairs begin at a multiple of 32, and the right ends if they begin
    /// one later.
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

/// Elements between two skipped words: a lane's share, but at least 32, so that neighbors in a row
/// are in different banks.
fn run(length: u32) -> u32 {
    (length / 32).max(32)
}
