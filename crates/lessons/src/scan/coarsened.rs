//! The coarsened scan: each thread scans a run of elements by itself, the threads scan their runs'
//! ends, and each thread adds what stands before its run.
//!
//! ```text
//! thread 0          thread 1          thread 2
//! a ab abc abcd     e ef efg efgh     i ij ijk ijkl      n combinations, no barrier, no idle thread
//!             |                 |                 |      a scan of as many elements as threads
//! ```
//!
//! Most of the work is now done without talking to anybody. A run is an odd number of words, or
//! padded, so that the lanes of a warp, which walk along their runs side by side, never meet in a
//! bank.

use warpwright::prelude::*;

use super::section::Section;
use super::warp::scan_threads;
use warpwright_kernels::monoid::InPlace;

/// Scans a section whose length is a multiple of the CTA's threads.
#[device]
pub fn scan<T: Element, M: InPlace<T>>(monoid: &M, section: &Section<T>) {
    sync_threads();
    let run = section.length / section.threads;
    let first = thread_idx().x * run;
    let mut of_run = section.at(first).load();
    for position in 1..run {
        let place = section.at(first + position);
        of_run = monoid.combine(of_run, place.load());
        place.store(of_run);
    }
    let scanned = scan_threads(monoid, of_run, section.threads);
    let ends = shared_array::<T>(section.threads);
    ends.at(thread_idx().x).store(scanned);
    sync_threads();
    if thread_idx().x > 0 {
        let before = ends.at(thread_idx().x - 1).load();
        for position in 0..run {
            let place = section.at(first + position);
            place.store(monoid.combine(before, place.load()));
        }
    }
    sync_threads();
}
