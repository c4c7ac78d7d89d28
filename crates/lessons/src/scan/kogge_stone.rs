//! Kogge and Stone's scan: every element adds the element `stride` before it, for strides 1, 2, 4,
//! ...
//!
//! ```text
//! stride 1    a  ab   bc    cd
//! stride 2    a  ab  abc  abcd       log2(n) steps, in each almost all threads work
//! ```
//!
//! Few steps, but n log2(n) combinations where n - 1 suffice: best if threads outnumber elements,
//! as in a warp. Every step needs two barriers: all threads must have read before any writes, and
//! all must have written before any reads again.

use warpwright::prelude::*;

use super::section::Section;
use warpwright_kernels::monoid::InPlace;

/// Scans a section of one element per thread.
#[device]
pub fn scan<T: Element, M: InPlace<T>>(monoid: &M, section: &Section<T>) {
    let thread = thread_idx().x;
    let mine = section.at(thread);
    let mut stride = 1;
    while stride < section.length {
        sync_threads();
        let mut combined = mine.load();
        if thread >= stride {
            combined = monoid.combine(section.at(thread - stride).load(), combined);
        }
        sync_threads();
        mine.store(combined);
        stride *= 2;
    }
    sync_threads();
}
