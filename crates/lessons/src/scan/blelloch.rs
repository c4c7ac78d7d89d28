//! Blelloch's scan: a tree up, as in Brent and Kung's, then the prefixes are passed down from the
//! root.
//!
//! ```text
//!             0   1    2    3     4   5    6    7
//! up          a  ab    c  a-d     e  ef    g  a-h
//! clear       a  ab    c  a-d     e  ef    g    1       the root has nothing before it
//! down 4      a  ab    c    1     e  ef    g  a-d       a node gives its prefix to its left child, and to its right child
//! down 2      a   1    c   ab     e a-d    g  a-f       the prefix with the left child's sum
//! down 1      1   a   ab  a-c   a-d a-e  a-f  a-g       an exclusive scan
//! ```
//!
//! The result is exclusive; each thread keeps its own elements to make it inclusive.

use warpwright::prelude::*;

use super::section::Section;
use warpwright_kernels::monoid::InPlace;

/// Scans a section of two elements per thread.
#[device]
pub fn scan<T: Element, M: InPlace<T>>(monoid: &M, section: &Section<T>) {
    let thread = thread_idx().x;
    sync_threads();
    let places = [section.at(thread), section.at(thread + section.threads)];
    let own = places.map(|place| place.load());
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
    sync_threads();
    if thread == 0 {
        section.at(constant(section.length - 1)).store(monoid.identity());
    }
    stride = section.length / 2;
    while stride > 0 {
        sync_threads();
        let pairs = section.length / (2 * stride);
        if thread < pairs {
            let index = (section.pair(thread, pairs) + 1) * (2 * stride) - 1;
            let (left, right) = (section.at(index - stride), section.at(index));
            let (of_left, before) = (left.load(), right.load());
            left.store(before);
            right.store(monoid.combine(before, of_left));
        }
        stride /= 2;
    }
    sync_threads();
    for (place, own) in places.iter().zip(own) {
        place.store(monoid.combine(place.load(), own));
    }
    sync_threads();
}
