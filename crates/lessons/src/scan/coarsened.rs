//! The coarsened scan: each thread scans a run of elements, the threads scan the totals of their
//! runs, and each thread adds the prefix of its run.
//!
//! ```text
//! thread 0          thread 1          thread 2
//! a ab abc abcd     e ef efg efgh     i ij ijk ijkl      n combinations, no barrier, no idle thread
//!             |                 |                 |      a scan of as many elements as threads
//! ```
//!
//! Most of the work needs no communication. The length of a run is odd, or padded, so that the
//! lanes of a warp, which advance along their runs in parallel, have no bank conflicts.

use warpwright::prelude::*;

use super::section::Section;
use super::warp::scan_threads;
use warpwright_kernels::monoid::InPlace;

/// Scans a section whose length is a multiple of the number of threads.
#[device]
pub fn scan<T: Element, M: InPlace<T>>(monoid: &M, section: &Section<T>) {
    sync_threads();
    let run = section.length / section.threads;
    let first = thread_idx().x * run;
    let mut of_run = section.at(first).load();
    for position in 1..run {
        let element = section.at(first + position);
        of_run = monoid.combine(of_run, element.load());
        element.store(of_run);
    }
    let scanned = scan_threads(monoid, of_run, section.threads);
    let ends = shared_array::<T>(section.threads);
    ends.at(thread_idx().x).store(scanned);
    sync_threads();
    if thread_idx().x > 0 {
        let before = ends.at(thread_idx().x - 1).load();
        for position in 0..run {
            let element = section.at(first + position);
            element.store(monoid.combine(before, element.load()));
        }
    }
    sync_threads();
}
