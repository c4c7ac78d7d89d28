//! Brent and Kung's scan: a tree up, and a tree down.
//!
//! ```text
//!             0   1    2    3     4   5    6    7
//! up 1        a  ab    c   cd     e  ef    g   gh
//! up 2        a  ab    c  a-d     e  ef    g  e-h
//! up 4        a  ab    c  a-d     e  ef    g  a-h       index 2*stride*(k + 1) - 1 takes what stands stride before it
//! down 2      a  ab    c  a-d     e a-f    g  a-h       and gives what it has to the one stride behind it
//! down 1      a  ab  a-c  a-d   a-e a-f  a-g  a-h
//! ```
//!
//! 2n combinations in 2 log2(n) steps. The indices of a step are a power of two apart, which causes
//! bank conflicts in shared memory: `min(2s, 32)`-way at stride s. [`Section`] avoids them with
//! padding, and by giving each lane its own part of the section.

use warpwright::prelude::*;

use super::section::Section;
use warpwright_kernels::monoid::InPlace;

/// Scans a section of two elements per thread.
#[device]
pub fn scan<T: Element, M: InPlace<T>>(monoid: &M, section: &Section<T>) {
    let thread = thread_idx().x;
    let mut stride = 1;
    while stride < section.length {
        sync_threads();
        let pairs = section.length / (2 * stride);
        if thread < pairs {
            let index = (section.pair(thread, pairs) + 1) * (2 * stride) - 1;
            let combined = monoid.combine(section.at(index - stride).load(), section.at(index).load());
            section.at(index).store(combined);
        }
        stride *= 2;
    }
    stride /= 4;
    while stride > 0 {
        sync_threads();
        let pairs = section.length / (2 * stride);
        // The first pair has no prefix.
        if (thread > 0) & (thread < pairs) {
            let index = section.pair(thread, pairs) * (2 * stride) - 1;
            let after = section.at(index + stride);
            after.store(monoid.combine(section.at(index).load(), after.load()));
        }
        stride /= 2;
    }
    sync_threads();
}
